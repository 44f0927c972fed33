"""Steps: what a call of a `@step` does inside a run, outside, and where it must not be called."""

import asyncio
import concurrent.futures
import threading
import time

import pytest

from holdfast import DetachedStep, Holdfast, Retry, step
from holdfast.clock import instant
from holdfast.errors import BadInput, WrongColour


def keys(hf: Holdfast, run_id: str) -> list[str]:
    return [info.key for info in hf.steps(run_id)]


class Client:
    @step(ignore=("self",))
    def ask(self, q: str) -> str:
        return f"{q}?"

    @step(ignore=("self",))
    async def aask(self, q: str) -> str:
        return f"{q}!"

    @staticmethod
    @step
    def shout(q: str) -> str:
        return q.upper()


def test_a_step_runs_once_and_replays(twice, ran):
    """A body whose result is recorded does not run again; the workflow gets the recorded result."""

    @step
    def ask(q: str) -> str:
        ran.append(q)
        return f"{q}?"

    def plot():
        return [ask("a"), ask("b")]

    assert twice(plot) == (["a?", "b?"], ["a?", "b?"])
    assert ran == ["a", "b"]


@pytest.fixture
def commits(open_hf):
    """A Holdfast in which no step is slow, and the types of events of each of its appends."""
    hf = open_hf()
    hf._engine.flusher._after_s = 60.0
    store, appended = hf._engine.store, []
    append, append_soon = store.append, store.append_soon

    def note(item):
        append(item)
        appended.append([event.type for event in item.events])

    def note_soon(item, done):
        append_soon(item, done)
        appended.append([event.type for event in item.events])

    store.append, store.append_soon = note, note_soon
    return hf, appended


def test_a_fast_step_is_one_event(commits, act):
    """What it was called with and what it gave, when it began and when it ended: one event, one commit."""
    hf, appended = commits

    @step
    def ask(q: str) -> str:
        return f"{q}?"

    hf.with_id("x").run(act(lambda: [ask("a"), ask.with_key("k")("b")]))
    assert appended == [["StepRan"], ["StepRan"], ["RunCompleted"]]
    events = [event for event in hf.events("x") if event.data.get("key")]
    assert [(event.type, event.data["key"]) for event in events] == [
        ("StepRan", "ask#1"),
        ("StepRan", "ask@k"),
    ]
    first = events[0].data
    assert (first["name"], first["ordinal"], first["args"], first["result"]) == ("ask", 1, {"q": "a"}, "a?")
    for event, info in zip(events, hf.steps("x"), strict=True):
        assert instant(event.data["started_at"]) == info.started_at <= info.ended_at == event.at
        assert (info.key, info.status, info.attempt) == (event.data["key"], "completed", 1)


def test_a_fast_async_step_is_one_event(commits, act):
    """The same for `async def` steps, and for `def` steps through `.aio`."""
    hf, appended = commits

    @step
    async def ask(q: str) -> str:
        return f"{q}?"

    @step
    def look(q: str) -> str:
        return f"{q}!"

    async def plot():
        return [await ask("a"), await look.aio("b")]

    assert hf.with_id("x").run(act(plot)) == ["a?", "b!"]
    assert appended[:2] == [["StepRan"], ["StepRan"]]
    assert [info.key for info in hf.steps("x")] == ["ask#1", "look#1"]


def test_a_slow_step_is_in_the_log_before_it_ends(open_hf, act):
    """Its beginning is written while it runs; its end is an event of its own."""
    hf, reader = open_hf(), open_hf()
    seen = []

    @step
    def ask() -> str:
        deadline = time.monotonic() + 30
        while not seen and time.monotonic() < deadline:
            time.sleep(0.05)
            seen.extend(info.status for info in reader.steps("x"))
        return "done"

    assert hf.with_id("x").run(act(lambda: ask())) == "done"
    assert seen == ["running"]
    assert [event.type for event in hf.events("x")][2:-1] == ["StepStarted", "StepCompleted"]
    assert [info.status for info in hf.steps("x")] == ["completed"]


def test_a_fast_step_that_fails_is_two_events_in_one_commit(commits, act):
    """That it began, and how it failed."""
    hf, appended = commits

    @step
    def ask() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        hf.with_id("x").run(act(lambda: ask()))
    assert appended == [["StepStarted", "StepFailed"], ["RunFailed"]]
    assert [(info.key, info.status) for info in hf.steps("x")] == [("ask#1", "failed")]


@pytest.mark.parametrize("options", [{"effect": "once"}, {"timeout": 30}, {"retry": Retry(attempts=2)}])
def test_what_promises_more_than_a_plain_step(commits, act, options):
    """A `once` step says that it begins before it does; a time limit or a retry that was not needed
    costs no event."""
    hf, appended = commits

    @step(**options)
    def ask() -> None: ...

    hf.with_id("x").run(act(lambda: ask()))
    once = "effect" in options
    assert appended[:-1] == ([["StepStarted"], ["StepCompleted"]] if once else [["StepRan"]])


def test_an_async_step_runs_once_and_replays(twice, ran):
    """The same for `async def` steps, and for `def` steps through `.aio`."""

    @step
    async def ask(q: str) -> str:
        ran.append(q)
        return f"{q}?"

    @step
    def look(q: str) -> str:
        ran.append(threading.current_thread() is threading.main_thread())
        return q * 2

    async def plot():
        return [await ask("a"), await ask.aio("b"), await look.aio("c")]

    assert twice(plot) == (["a?", "b?", "cc"], ["a?", "b?", "cc"])
    assert ran == ["a", "b", False]


def test_methods_and_static_methods(hf, act):
    """A step can be a method (its `self` ignored) and a static method, in both colours."""
    client = Client()

    def plot():
        return [client.ask("a"), client.ask.with_key("k")("b"), Client.shout("c")]

    async def aplot():
        return [await client.aask("a"), await client.ask.aio("b")]

    assert hf.with_id("s").run(act(plot)) == ["a?", "b?", "C"]
    assert keys(hf, "s") == ["ask#1", "ask@k", "shout#1"]
    assert hf.with_id("a").run(act(aplot)) == ["a!", "b?"]
    assert keys(hf, "a") == ["aask#1", "ask#1"]


def test_identity_comes_from_name_and_key(hf, act):
    """`name=` names the step in the history; `key=` and `with_key` replace the count."""

    @step(name="question")
    def ask(q: str) -> str:
        return q

    @step(key=lambda order: order)
    def ship(order: str) -> str:
        return order

    def plot():
        ask("a")
        ask("b")
        ship("o-7")
        ask.with_key(3)("c")

    hf.with_id("x").run(act(plot))
    assert keys(hf, "x") == ["question#1", "question#2", "ship@o-7", "question@3"]


@pytest.mark.parametrize("key", ["", "a b", "a/b", "a@b", "a#b", "a[1]", "x" * 201])
def test_keys_that_would_blur_identities_are_refused(key):
    """A key has no character that an identity is built with."""

    @step
    def ask(q: str) -> str:
        return q

    with pytest.raises(BadInput, match="cannot be a step's key"):
        ask.with_key(key)


def test_outside_a_run_a_step_is_a_plain_call():
    """Without a run there is nothing to record: the function is just called."""

    @step
    def ask(q: str) -> str:
        return f"{q}?"

    @step
    async def aask(q: str) -> str:
        return f"{q}!"

    async def both():
        return [await aask("a"), await ask.aio("b")]

    assert ask("a") == "a?"
    assert asyncio.run(both()) == ["a!", "b?"]


def test_inside_a_body_a_step_is_a_plain_call(hf, act):
    """A step in a step's body belongs to that body: it is not recorded by itself."""

    @step
    def inner(q: str) -> str:
        return f"{q}?"

    @step
    def outer(q: str) -> str:
        return inner(q)

    def plot():
        return outer("a")

    assert hf.with_id("x").run(act(plot)) == "a?"
    assert keys(hf, "x") == ["outer#1"]


def test_a_nested_once_step_raises(hf, act):
    """The promise of a `once` step would not hold inside a body that may run again."""

    @step(effect="once")
    def pay() -> None: ...

    @step
    def outer() -> None:
        pay()

    with pytest.raises(BadInput, match="move the call out"):
        hf.run(act(lambda: outer()))


def test_a_step_in_a_bare_thread_pool_warns(hf, act, ran):
    """A thread without the run's context records nothing: `DetachedStep` warns of it."""

    @step
    def ask(q: str) -> str:
        ran.append(q)
        return q

    def plot():
        with concurrent.futures.ThreadPoolExecutor(1) as pool, pytest.warns(DetachedStep, match="step ask"):
            return pool.submit(ask, "a").result()

    assert hf.with_id("x").run(act(plot)) == "a"
    assert (keys(hf, "x"), ran) == ([], ["a"])


def test_a_detached_once_step_raises(hf, act, ran):
    """A `once` step that nobody records must not run at all."""

    @step(effect="once")
    def pay() -> None:
        ran.append("paid")

    def plot():
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(pay).result()

    with pytest.raises(DetachedStep, match="step pay"):
        hf.run(act(plot))
    assert ran == []


def test_to_thread_is_refused(hf, act, ran):
    """`asyncio.to_thread` takes the scope along to a thread that could change identities."""

    @step
    def ask(q: str) -> str:
        ran.append(q)
        return q

    async def plot():
        return await asyncio.to_thread(ask, "a")

    with pytest.raises(WrongColour, match="another thread"):
        hf.run(act(plot))
    assert ran == []


def test_wrong_colours_say_what_to_write(hf, act):
    """A blocking call in an async workflow and the reverse raise, with the right words to use."""

    @step
    def ask(q: str) -> str:
        return q

    @step
    async def aask(q: str) -> str:
        return q

    async def blocking():
        return ask("a")

    def awaiting():
        return aask("a")

    with pytest.raises(WrongColour, match=r"await ask\.aio"):
        hf.run(act(blocking))
    with pytest.raises(WrongColour, match="make the workflow `async def`"):
        hf.run(act(awaiting))


def test_secret_results_are_not_stored(twice, open_hf, ran):
    """`secret=True` keeps the value out of the log; the step runs again on replay."""

    @step(secret=True)
    def token() -> str:
        ran.append("token")
        return "value-that-is-not-kept"

    def plot():
        return token()

    assert twice(plot) == ("value-that-is-not-kept", "value-that-is-not-kept")
    assert ran == ["token", "token"]
    events = open_hf().events("twice")
    completed = [event.data for event in events if event.type in ("StepRan", "StepCompleted")]
    assert [(data["key"], data["secret"]) for data in completed] == [("token#1", True)]
    assert not {"result", "blob"} & set(completed[0])
    assert "value-that-is-not-kept" not in repr(completed)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"effect": "twice"}, "use 'idempotent', 'once' or 'workspace'"),
        ({"verify": lambda: None}, "only a step with effect='once'"),
        ({"effect": "once", "secret": True}, "run again on replay"),
        ({"timeout": 0}, "more than 0 seconds"),
        ({"name": "branch[2]/ask"}, "cannot be a step's name"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, hint):
    """A wrong combination is told at the decorator, not in the middle of a run."""
    with pytest.raises(BadInput, match=hint):
        step(**options)(lambda: None)


def test_step_goes_under_staticmethod():
    """`@step` on top of `@staticmethod` says where it belongs."""
    with pytest.raises(BadInput, match="goes under @staticmethod"):
        step(staticmethod(lambda: None))


def test_one_key_is_one_step(hf, act, ran):
    """A second call with the same key and arguments gets the first one's result."""

    @step
    def ask(q: str) -> str:
        ran.append(q)
        return q.upper()

    def plot():
        return [ask.with_key("k")("a"), ask.with_key("k")("a")]

    assert hf.run(act(plot)) == ["A", "A"]
    assert ran == ["a"]


def test_one_key_twice_at_once_runs_once_or_is_refused_before_it_runs(hf, act, ran):
    """Two calls of one identity at the same moment must not both execute."""

    @step
    async def ask(q: str) -> str:
        ran.append(q)
        await asyncio.sleep(0.01)
        return q.upper()

    async def plot():
        both = await asyncio.gather(ask.with_key("k")("a"), ask.with_key("k")("a"), return_exceptions=True)
        return both[0]

    assert hf.run(act(plot)) == "A"
    assert ran == ["a"]
