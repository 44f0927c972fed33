"""Divergence: code that no longer matches the history stops the run and shows both sides."""

import asyncio

import pytest

from holdfast import DivergenceError, RunWaiting, StoreError, approval, emit, now, parallel, stage, step
from holdfast.errors import AgentNotFound, NotTrusted, SettingsError


@pytest.fixture
def steps(ran):
    def make(name):
        def body(x: int = 0) -> str:
            ran.append(name)
            return name

        return step(name=name)(body)

    return {name: make(name) for name in "abcdz"}


@pytest.fixture
def changed(open_hf, crashes, act):
    """Executes the old code until it has three steps, crashes, and gives a Holdfast with the new code."""

    def change(old, new, survivors=4):
        first = open_hf()
        crashes.arm(first, survivors)
        with pytest.raises(StoreError):
            first.with_id("x").run(act(old))
        crashes.bury(first)
        return open_hf(), act(new)

    return change


OLD = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("new", "recorded", "called"),
    [
        (["b", "a", "c", "d"], "a#1", "b#1"),
        (["a", "z", "b", "c", "d"], "b#1", "z#1"),
        (["a", "c", "d"], "b#1", "c#1"),
        (["a", "z", "c", "d"], "b#1", "z#1"),
        (["a", "a", "b", "c", "d"], "b#1", "a#2"),
        (["a"], "b#1", "nothing more"),
        ([], "a#1", "nothing more"),
    ],
    ids=["moved", "inserted", "removed", "renamed", "repeated", "ended early", "emptied"],
)
def test_a_changed_sequence_diverges(changed, act, steps, ran, new, recorded, called):
    """Both sides are named; the status says so; nothing ran; the old code continues from there."""

    def old_code():
        return [steps[name]() for name in OLD]

    hf, workflow = changed(old_code, lambda: [steps[name]() for name in new])
    ran.clear()
    with pytest.raises(DivergenceError) as caught:
        hf.with_id("x").run(workflow)
    assert recorded in caught.value.recorded
    assert called in caught.value.called
    assert ran == []
    info = hf.get("x")
    assert (info.status, info.interrupted) == ("needs_attention", False)
    assert recorded in info.reason and called in info.reason
    act(old_code)
    assert hf.resume("x").result(30) == OLD
    assert ran == ["d"]


def test_other_arguments_diverge(changed, act, steps, ran):
    """A recorded result is never returned for other arguments."""
    hf, workflow = changed(
        lambda: [steps["a"](1), steps["b"](1), steps["c"](1), steps["d"](1)],
        lambda: [steps["a"](1), steps["b"](2)],
    )
    ran.clear()
    with pytest.raises(DivergenceError, match="b#1 with other arguments"):
        hf.with_id("x").run(workflow)
    assert ran == []


@step
def tell(topic, how=None):
    return topic


@pytest.mark.parametrize(
    ("old", "new", "recorded", "called", "hint"),
    [
        (("kelp",), ("rock",), 'topic="kelp"', 'topic="rock"', False),
        (("kelp", 1), ("kelp", True), "how=1", "how=true", False),
        (("kelp", 0.25), ("kelp", 0.75), "how=0.25", "how=0.75", True),
        (("at 10:31",), ("at 10:32",), 'topic="at 10:31"', 'topic="at 10:32"', True),
        (({"a": 1},), ({"a": 1, "b": 2},), 'topic={"a":1}', 'topic={"a":1,"b":2}', False),
        (("a" * 99 + "kelp",), ("a" * 99 + "rock",), 'topic=…aaaaaaaaaaaaaaaakelp"', "aaaarock", False),
        (({"password": "hunter2 is it"},), ({"password": "hunter3 is it"},), "topic={", "topic={", True),
    ],
    ids=["text", "type", "chance", "time", "field", "long", "hidden"],
)
def test_other_arguments_are_named_with_both_values(changed, old, new, recorded, called, hint):
    """Only the parameter that differs is named, short and redacted; the hint only where chance gives such
    values."""
    hf, workflow = changed(lambda: [tell(*old), step_out()], lambda: [tell(*new), step_out()], 2)
    with pytest.raises(DivergenceError) as caught:
        hf.with_id("x").run(workflow)
    assert caught.value.recorded.startswith("tell#1 with other arguments: ")
    assert recorded in caught.value.recorded
    assert called in caught.value.called
    assert ("time and chance" in caught.value.called) is hint
    assert "hunter" not in str(caught.value)
    assert len(str(caught.value)) < 400


@step
def step_out():
    return 0


def test_a_parameter_that_is_new_is_named(changed):
    """The recorded call lacked it."""

    def body(topic):
        return topic

    def grown(topic, tone):
        return topic

    first, second = step(name="say")(body), step(name="say")(grown)
    hf, workflow = changed(lambda: [first("a"), step_out()], lambda: [second("a", "dry"), step_out()], 2)
    with pytest.raises(DivergenceError) as caught:
        hf.with_id("x").run(workflow)
    assert caught.value.recorded == "say#1 with other arguments: no tone"
    assert caught.value.called == 'it with tone="dry"'


def test_arguments_that_were_too_large_for_the_log_have_a_command_that_shows_them(changed):
    """The log has only the beginning of large arguments."""
    hf, workflow = changed(lambda: [tell("a" * 9000), step_out()], lambda: [tell("b" * 9000), step_out()], 2)
    with pytest.raises(DivergenceError) as caught:
        hf.with_id("x").run(workflow)
    assert "holdfast show x --step 'tell#1'" in caught.value.recorded


def test_an_approval_that_shows_something_else_is_named(open_hf, act):
    """What it shows counts as its argument."""
    hf = open_hf()
    with pytest.raises(RunWaiting):
        hf.with_id("x").start(act(lambda: approval("publish?", show={"to": "kelp"}).outcome)).result(0.5)
    hf.close()
    hf, workflow = open_hf(), act(lambda: approval("publish?", show={"to": "rock"}).outcome)
    with pytest.raises(DivergenceError) as caught:
        hf.with_id("x").run(workflow)
    assert 'show={"to":"kelp"}' in caught.value.recorded
    assert 'show={"to":"rock"}' in caught.value.called


def test_a_diverged_run_is_not_tried_again_by_recover(changed, steps, ran):
    """It waits for a person: recover leaves it alone, so it never loops."""
    hf, workflow = changed(lambda: [steps[n]() for n in OLD], lambda: steps["z"]())
    with pytest.raises(DivergenceError):
        hf.with_id("x").run(workflow)
    assert hf.recover() == []
    events = len(hf.events("x"))
    assert hf.recover() == []
    assert len(hf.events("x")) == events


def _of_colour(is_async, steps, new):
    """The old code, and the new."""

    async def old_in_loop():
        return [await steps[name].aio() for name in OLD]

    async def new_in_loop():
        return new()

    return (old_in_loop, new_in_loop) if is_async else (lambda: [steps[name]() for name in OLD], new)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_of_the_code_itself_is_named(changed, steps, is_async):
    """It is what a person needs to know: a module that is missing here, for instance; without secrets."""

    def breaks():
        raise ModuleNotFoundError("No module named 'tools', password=hunter2hunter2")

    hf, workflow = changed(*_of_colour(is_async, steps, breaks))
    with pytest.raises(
        DivergenceError, match="has ended with ModuleNotFoundError: No module named"
    ) as caught:
        hf.with_id("x").run(workflow)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    reason = hf.get("x").reason
    assert "ModuleNotFoundError" in reason and "hunter2" not in reason


@pytest.mark.parametrize("error", [NotTrusted("not trusted"), SettingsError("bad"), AgentNotFound("gone")])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_wrong_with_the_machine_is_no_divergence(changed, act, steps, ran, error, is_async):
    """The run stops with that very error, and continues as soon as it is mended."""

    def refused():
        raise error

    old_code, new_code = _of_colour(is_async, steps, refused)
    hf, workflow = changed(old_code, new_code)
    with pytest.raises(type(error)) as caught:
        hf.with_id("x").run(workflow)
    assert caught.value is error
    assert hf.get("x").interrupted
    ran.clear()
    act(old_code)
    assert hf.resume("x").result(30) == OLD
    assert ran == ["d"]


def test_a_value_in_the_place_of_a_step_diverges(changed, steps):
    """`now()` and steps share the order of their scope."""
    hf, workflow = changed(lambda: [steps[n]() for n in OLD], lambda: [now(), steps["a"]()])
    with pytest.raises(DivergenceError):
        hf.with_id("x").run(workflow)


def test_a_change_after_the_history_is_no_divergence(changed, steps, ran):
    """What was not recorded yet may change freely."""
    hf, workflow = changed(
        lambda: [steps[n]() for n in OLD], lambda: [steps[n]() for n in ["a", "b", "c", "z", "z"]]
    )
    assert hf.with_id("x").run(workflow) == ["a", "b", "c", "z", "z"]


def test_a_new_parameter_with_a_default_is_no_divergence(changed, ran):
    """A step can grow: a parameter that is new since the call was recorded passes at its default."""

    def body(q: str) -> str:
        return q

    def grown(q: str, tone: str = "plain") -> str:
        return q

    old, new, last = step(name="ask")(body), step(name="ask")(grown), step(name="last")(lambda: None)
    hf, workflow = changed(lambda: [old("a"), old("b"), last()], lambda: [new("a"), new("b"), last()], 3)
    assert hf.with_id("x").run(workflow) == ["a", "b", None]


@pytest.mark.parametrize("before", ["a step", "steps in parallel", "branches"])
def test_steps_in_parallel_that_come_sooner_diverge(changed, act, steps, ran, before):
    """Though every call of both is recorded, and each would get its own outcome."""
    first = {
        "a step": lambda: [steps["a"](1), steps["b"](2)],
        "steps in parallel": lambda: parallel(steps["a"], [1, 2], limit=1),
        "branches": lambda: parallel(lambda x: steps["a"](x), [1, 2], limit=1),
    }[before]

    def then():
        return parallel(steps["z"], [3, 4], limit=1)

    def old_code():
        return [*first(), *then(), steps["c"](), steps["d"]()]

    hf, workflow = changed(old_code, lambda: [*then(), *first(), steps["c"](), steps["d"]()], survivors=6)
    ran.clear()
    with pytest.raises(DivergenceError) as caught:
        hf.with_id("x").run(workflow)
    assert "a#1" in caught.value.recorded and "z#1" in caught.value.called
    assert ran == []
    act(old_code)
    assert hf.resume("x").result(30)[-4:] == ["z", "z", "c", "d"]
    assert "z" not in ran and "a" not in ran


@pytest.mark.parametrize("then", ["a step", "steps in parallel"])
def test_a_call_with_a_key_may_come_later(changed, act, steps, ran, then):
    """It gets its own outcome. Without it, the code diverges before anything has run."""

    def calls():
        return [steps["a"](1)] if then == "a step" else parallel(steps["a"], [1, 2], limit=1)

    def keyed():
        return steps["b"].with_key("kelp")(3)

    def last():
        return [steps["c"](), steps["d"]()]

    survivors = 4 if then == "a step" else 5
    hf, workflow = changed(
        lambda: [keyed(), *calls(), *last()], lambda: [*calls(), *last()], survivors=survivors
    )
    ran.clear()
    with pytest.raises(DivergenceError) as caught:
        hf.with_id("x").run(workflow)
    assert "b@kelp" in caught.value.recorded and ran == []
    act(lambda: [*calls(), keyed(), *last()])
    assert hf.resume("x").result(30)[-3:] == ["b", "c", "d"]
    assert ran == ["d"]


def test_a_change_in_one_branch_diverges(changed, ran):
    """Scopes are checked too, in async code."""

    @step
    async def ask(q: str) -> str:
        return q

    @step
    async def other(q: str) -> str:
        return q

    async def branch(first, q):
        await first(q)
        return await ask(f"{q}2")

    async def old():
        await ask("start")
        return list(await asyncio.gather(branch(ask, "a"), branch(ask, "b")))

    async def new():
        await ask("start")
        return list(await asyncio.gather(branch(ask, "a"), branch(other, "b")))

    hf, workflow = changed(old, new, 5)
    with pytest.raises(DivergenceError, match=r"branch\[2\]/"):
        hf.with_id("x").run(workflow)


@pytest.mark.parametrize(
    "note",
    [lambda: emit("progress", 1), now, lambda: stage("asking")],
    ids=["emit", "value", "stage"],
)
def test_what_the_code_no_longer_notes_diverges_before_a_branch_runs(changed, ran, steps, note):
    """A note is no outcome, and no call of another scope comes in its place: the new steps of branches wait
    until the code has made it again, all the same."""

    def branch(x: int) -> str:
        return steps["b"](x)

    def code(notes):
        notes()
        steps["a"].with_key("first")()
        return parallel(branch, [1, 2])

    hf, workflow = changed(lambda: code(note), lambda: code(lambda: None), survivors=3)
    ran.clear()
    with pytest.raises(DivergenceError):
        hf.with_id("x").run(workflow)
    assert ran == []
