"""Arguments of steps: what the log keeps of them, and which make two calls different."""

import threading
import time
from dataclasses import dataclass

import pytest

from holdfast import ArgumentChanged, DivergenceError, Retry, RunExists, Secret, approval, step, workflow
from holdfast.engine.execution.arguments import Signature
from holdfast.errors import BadArguments, NotStorable


def started(hf, run_id):
    return [event.data for event in hf.events(run_id) if event.type in ("StepStarted", "StepRan")]


def digests(hf, act, calls, run_id):
    """The digests of these calls, made in one run."""
    hf.with_id(run_id).run(act(lambda: [call() for call in calls] and None))
    return [data["digest"] for data in started(hf, run_id)]


def test_a_parameter_counts_with_the_value_that_the_function_gets(hf, act):
    """Left at its default, passed with it, by name or by place: it is the same call."""

    @step
    def ask(q: str, tone: str = "plain", *, limit: int = 3) -> None: ...

    calls = [
        lambda: ask("a"),
        lambda: ask("a", "plain"),
        lambda: ask(q="a", limit=3),
        lambda: ask("a", limit=4),
        lambda: ask("a", "rude"),
    ]
    same1, same2, same3, other, another = digests(hf, act, calls, "x")
    assert same1 == same2 == same3
    assert len({same1, other, another}) == 3
    assert [data["args"] for data in started(hf, "x")] == [
        {"q": "a", "tone": "plain", "limit": 3},
        {"q": "a", "tone": "plain", "limit": 3},
        {"q": "a", "tone": "plain", "limit": 3},
        {"q": "a", "tone": "plain", "limit": 4},
        {"q": "a", "tone": "rude", "limit": 3},
    ]


@pytest.fixture
def edited(open_hf, act, crashes):
    """Executes one plot up to its step `end`, and then another one in its place; gives the result."""

    def edit(before, after):
        @step
        def end(result: object, dies: bool = False) -> object:
            if dies:
                raise KeyboardInterrupt
            return result

        first = open_hf()
        with pytest.raises(KeyboardInterrupt):
            first.with_id("x").run(act(lambda: end(before(), dies=True)))
        crashes.bury(first)
        return open_hf().with_id("x").run(act(after))

    return edit


def charge_with(default):
    @step
    def charge(order: str, amount: int = default) -> str:
        return f"charged {amount}"

    return charge


@pytest.mark.parametrize("passed", [(), (20,)])
def test_a_default_that_changed_is_another_argument(edited, passed):
    """A result is never returned for other arguments than it was recorded for."""
    with pytest.raises(DivergenceError, match="other arguments"):
        edited(lambda: charge_with(10)("o1"), lambda: charge_with(20)("o1", *passed))


def test_a_value_that_was_the_default_is_the_same_argument(edited):
    assert edited(lambda: charge_with(10)("o1"), lambda: charge_with(20)("o1", 10)) == "charged 10"


def test_a_new_parameter_with_a_default_breaks_no_run_in_flight(edited):
    """Also several, anywhere; but not with another value than the default."""

    @step
    def ask(q: str) -> str:
        return q

    @step(name="ask")
    def wider(q: str, tone: str = "plain", *, limit: int = 3, tags: tuple[str, ...] = ()) -> str:
        return "another"

    assert edited(lambda: ask("a"), lambda: wider("a")) == "a"


def test_a_new_parameter_that_is_used_is_another_argument(edited):
    @step
    def ask(q: str) -> str:
        return q

    @step(name="ask")
    def wider(q: str, tone: str = "plain") -> str:
        return "another"

    with pytest.raises(DivergenceError, match="other arguments"):
        edited(lambda: ask("a"), lambda: wider("a", "rude"))


def test_a_call_that_an_older_holdfast_recorded_is_known():
    """It counted no parameter at its default."""

    def ask(q: str, tone: str = "plain", limit: int = 3) -> None: ...

    def asked(q: str) -> None: ...

    old = Signature(asked, "step ask").digest(("a",), {}).digest
    assert old in set(Signature(ask, "step ask").older(("a",), {"limit": 3}))
    assert old not in set(Signature(ask, "step ask").older(("a",), {"limit": 4}))


def _deploy_once():
    def deploy(order: str) -> list[object]:
        return [order]

    deploy.__qualname__ = "deploy"
    return deploy


def _deploy_with(default):
    def deploy(order: str, amount: int = default) -> list[object]:
        return [order, amount]

    deploy.__qualname__ = "deploy"
    return deploy


def test_a_run_keeps_its_id_when_its_workflow_gets_a_parameter(hf):
    """But a default that changed is another argument."""
    assert hf.with_id("x").run(workflow(_deploy_once()), "o1") == ["o1"]
    assert hf.with_id("x").run(workflow(_deploy_with(10)), "o1") == ["o1"]
    assert hf.with_id("y").run(workflow(_deploy_with(10)), "o1") == ["o1", 10]
    assert hf.with_id("y").run(workflow(_deploy_with(20)), "o1", 10) == ["o1", 10]
    with pytest.raises(RunExists, match="other arguments"):
        hf.with_id("y").run(workflow(_deploy_with(20)), "o1")


def test_a_default_that_cannot_be_stored_does_not_count(hf, act):
    @step
    def ask(q: str, client: object = threading) -> str:
        return q

    first, second = digests(hf, act, [lambda: ask("a"), lambda: ask("a", threading)], "x")
    assert first == second


# Changes in place


@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_step_works_on_its_own_copy_of_its_arguments(hf, act, colour):
    """What it changes there is not in the workflow, live as in a replay; it is told so."""

    @step
    def ask(messages: list[dict[str, str]], seen: set[str]) -> int:
        messages.append({"role": "assistant"})
        messages[0]["role"] = "changed"
        seen.add("x")
        return len(messages)

    messages: list[dict[str, str]] = [{"role": "user"}]
    seen: set[str] = set()

    async def aplot():
        return await ask.aio(messages, seen=seen)

    with pytest.warns(ArgumentChanged, match="step ask changed its argument (messages|seen)"):
        assert hf.run(act((lambda: ask(messages, seen=seen)) if colour == "def" else aplot)) == 2
    assert (messages, seen) == ([{"role": "user"}], set())


def test_each_attempt_has_its_own_copy(hf, act):
    sizes = []

    @step(retry=Retry(attempts=3, initial=0))
    def ask(messages: list[str]) -> int:
        messages.append("again")
        sizes.append(len(messages))
        if len(sizes) < 3:
            raise ValueError("once more")
        return len(messages)

    with pytest.warns(ArgumentChanged):
        hf.run(act(lambda: ask(["hello"])))
    assert sizes == [2, 2, 2]


def test_a_method_works_on_a_copy_of_its_object_unless_that_is_ignored(hf, act):
    """`ignore=("self",)` says that the object does not matter: it is the caller's own."""

    @dataclass
    class Agent:
        calls: int = 0

        @step
        def ask(self) -> None:
            self.calls += 1

        @step(ignore=("self",))
        def tell(self) -> None:
            self.calls += 1

    globals()["Agent"] = Agent
    Agent.__qualname__ = "Agent"
    agent = Agent()
    with pytest.warns(ArgumentChanged, match="step ask changed its argument self"):
        hf.run(act(lambda: agent.ask()))
    assert agent.calls == 0
    hf.run(act(lambda: agent.tell()))
    assert agent.calls == 1


def test_a_secret_inside_reaches_the_body(hf, act, ran):
    @step
    def ask(headers: dict[str, object]) -> None:
        ran.append(headers["key"].reveal())  # type: ignore[attr-defined]

    hf.run(act(lambda: ask({"key": Secret("key", "sk-1"), "list": []})))
    assert ran == ["sk-1"]


def test_what_is_not_changed_is_not_complained_about(hf, act, recwarn):
    @step
    def ask(words: set[str], by: dict[str, int]) -> int:
        return len(words) + len(by)

    assert hf.run(act(lambda: ask({"a", "b", "c", "d"}, {"z": 1, "a": 2}))) == 6
    assert [str(one.message) for one in recwarn if issubclass(one.category, ArgumentChanged)] == []


def test_a_workflow_that_is_played_again_begins_with_what_it_was_given(hf, act):
    """It waits at a gate, is let go and replayed in the same process: its own changes are not there yet."""

    def plot(messages):
        messages.append("asked")
        decision = approval("send")
        return [len(messages), decision.outcome]

    messages: list[str] = []
    run = hf.with_id("x").start(act(plot), messages)
    while hf.get("x").status != "waiting" or hf.get("x").owner_pid:
        time.sleep(0.005)
    messages.append("by the caller")
    hf.approve("x")
    assert run.result(30) == [1, "approved"]
    assert messages == ["by the caller"]


def test_equal_defaults_of_another_type_count(hf, act):
    """`True` is not the default `1`: what compares equal can still act differently."""

    @step
    def ask(n: object = 1) -> None: ...

    first, second, third = digests(hf, act, [lambda: ask(), lambda: ask(True), lambda: ask(1.0)], "x")
    assert len({first, second, third}) == 3


def test_ignored_parameters_do_not_count(twice, ran):
    """What `ignore=` names is not recorded and may be another object at every execution."""

    @step(ignore=("client",))
    def ask(client: object, q: str) -> str:
        ran.append(q)
        return q

    def plot():
        return ask(object(), "a")

    assert twice(plot) == ("a", "a")
    assert ran == ["a"]


def test_ignoring_an_unknown_parameter_is_told(hf, act):
    """A misspelt name in `ignore=` raises instead of recording what was to be ignored."""

    @step(ignore=("cleint",))
    def ask(client: object) -> None: ...

    with pytest.raises(BadArguments, match="no parameter 'cleint' to ignore"):
        hf.run(act(lambda: ask(1)))


def test_an_argument_that_cannot_be_stored_names_step_and_path(hf, act, ran):
    """The refusal says which step, which place in the value, and what to do; the body does not run."""

    @step
    def ask(client: object) -> None:
        ran.append("ran")

    with pytest.raises(NotStorable) as caught:
        hf.run(act(lambda: ask({"inner": [1, object()]})))
    assert "step ask" in str(caught.value)
    assert caught.value.path.startswith("$.client")
    assert '@step(ignore=("client",))' in str(caught.value)
    assert ran == []


def test_arguments_that_do_not_fit_raise_bad_arguments(hf, act):
    """A call that Python itself would refuse is refused before anything is recorded."""

    @step
    def ask(q: str) -> None: ...

    with pytest.raises(BadArguments, match="step ask"):
        hf.with_id("x").run(act(lambda: ask("a", "b")))
    assert started(hf, "x") == []


def test_large_arguments_leave_a_preview_and_their_size(hf, act):
    """Arguments over 2 KB are digested whole, and shown by their beginning."""

    @step
    def ask(text: str) -> None: ...

    hf.with_id("x").run(act(lambda: [ask("y" * 5000), ask("y" * 4999 + "z")]))
    first, second = started(hf, "x")
    assert "args" not in first
    assert first["size"] > 5000
    assert first["preview"].startswith('{"text":"yyy')
    assert len(first["preview"]) < 300
    assert first["digest"] != second["digest"]


def test_a_secret_argument_digests_by_its_name(hf, act, ran):
    """A rotated key is the same argument, and its value is nowhere in the log."""

    @step
    def ask(key: Secret) -> None:
        ran.append(key.reveal())

    calls = [
        lambda: ask(Secret("key", "sk-value-of-yesterday")),
        lambda: ask(Secret("key", "sk-value-of-today")),
        lambda: ask(Secret("other", "sk-value-of-today")),
    ]
    first, second, third = digests(hf, act, calls, "x")
    assert first == second != third
    assert ran == ["sk-value-of-yesterday", "sk-value-of-today", "sk-value-of-today"]
    assert "sk-value" not in repr(hf.events("x"))
