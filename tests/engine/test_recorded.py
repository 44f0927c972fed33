"""`recorded`: a choice of the workflow's own code that every replay repeats."""

import asyncio

import pytest

from holdfast import DivergenceError, NotStorable, Secret, parallel, recorded, step
from holdfast.errors import BadInput, WrongColour
from holdfast.testing.crash import at_body


@step
def work(text: str = "") -> str:
    return text


@step
async def awork(text: str = "") -> str:
    return text


@pytest.mark.parametrize("colour", ["def", "async"])
def test_replay_repeats_the_choice(twice, colour):
    """`make` is called once; the replay gets the same value, with its types."""
    calls = []

    def pick():
        calls.append(1)
        return {"model": "small", "n": len(calls), "pair": (1, 2)}

    def plot():
        chosen = recorded("model", pick)
        work()
        return chosen

    async def aplot():
        chosen = recorded("model", pick)
        await awork()
        return chosen

    live, replayed = twice(plot if colour == "def" else aplot)
    assert live == replayed == {"model": "small", "n": 1, "pair": (1, 2)}
    assert len(calls) == 1


def test_a_choice_costs_no_commit_and_no_step(hf, act):
    """It is one `ValueRecorded`, and no step to a reader."""

    def plot():
        recorded("model", lambda: "small")
        recorded("model", lambda: "large")
        work()

    hf.with_id("x").run(act(plot))
    values = [event.data for event in hf.events("x") if event.type == "ValueRecorded"]
    assert [(one["key"], one["ordinal"], one["value"]) for one in values] == [
        ("model#1", 1, "small"),
        ("model#2", 2, "large"),
    ]
    assert [one.key for one in hf.steps("x")] == ["work#1"]


def test_each_branch_has_its_own_place(twice):
    """Branches of `parallel` and tasks choose for themselves; the replay gives each its own choice."""
    drawn = iter(range(100))

    def one(_):
        chosen = recorded("seat", lambda: next(drawn))
        work(str(chosen))
        return chosen

    live, replayed = twice(lambda: parallel(one, range(4)))
    assert live == replayed
    assert sorted(live) == [0, 1, 2, 3]


def test_tasks_have_their_own_places(twice):
    drawn = iter(range(100))

    async def one():
        chosen = recorded("seat", lambda: next(drawn))
        await awork(str(chosen))
        return chosen

    async def plot():
        return await asyncio.gather(one(), one(), one())

    live, replayed = twice(plot)
    assert live == replayed == [0, 1, 2]


@pytest.mark.parametrize("other", ["renamed", "moved", "a step"])
def test_another_call_in_its_place_diverges(open_hf, act, crashes, other):
    """As for a step: another name, another place, another kind."""
    first = open_hf()
    store = crashes.arm(first)

    def before():
        recorded("model", lambda: 1)
        work("a")
        store.left = 0

    after = {
        "renamed": lambda: [recorded("engine", lambda: 1), work("a")],
        "moved": lambda: [work("a"), recorded("model", lambda: 1)],
        "a step": lambda: [step(name="model")(lambda: 1)(), work("a")],
    }
    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(before))
    crashes.bury(first)
    with pytest.raises(DivergenceError):
        open_hf().with_id("x").run(act(after[other]))


def test_a_function_that_raised_must_raise_again(open_hf, act, crashes):
    """Its exception is not recorded. Code that caught it went another way than with a value: the replay says
    so instead of putting a value into a history that continued without it."""
    first = open_hf()
    store = crashes.arm(first)
    raising = [True]

    def pick():
        if raising[0]:
            raise LookupError("no model")
        return 1

    def plot():
        try:
            chosen = recorded("model", pick)
        except LookupError:
            chosen = "none"
        work(str(chosen))
        if store.left is None:
            store.left = 0
        return chosen

    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    second = open_hf()
    raising[0] = False
    with pytest.raises(DivergenceError, match="raised"):
        second.with_id("x").run(act(plot))
    raising[0] = True
    assert second.resume("x").result() == "none"


def test_what_cannot_be_stored_is_refused(hf, act):
    with pytest.raises(NotStorable, match="the value of model"):
        hf.run(act(lambda: recorded("model", lambda: object())))
    with pytest.raises(NotStorable):
        hf.run(act(lambda: recorded("token", lambda: Secret("token", "hush-hush"))))


def test_a_coroutine_or_a_step_in_the_function_is_refused(hf, act):
    with pytest.raises(BadInput, match="belongs into a step"):
        hf.run(act(lambda: recorded("model", lambda: awork.fn("x"))))
    with pytest.raises(BadInput, match="calls a step"):
        hf.run(act(lambda: recorded("model", lambda: work("x"))))
    with pytest.raises(BadInput, match="name"):
        hf.run(act(lambda: recorded("a model", lambda: 1)))


def test_outside_a_run_and_in_a_body_it_is_a_plain_call(hf, act):
    @step
    def body() -> int:
        return recorded("model", lambda: 7)

    assert recorded("model", lambda: 7) == 7
    assert hf.with_id("x").run(act(lambda: body())) == 7
    assert "ValueRecorded" not in [event.type for event in hf.events("x")]


def test_on_another_thread_it_is_refused(hf, act):
    async def plot():
        await asyncio.to_thread(recorded, "model", lambda: 1)

    with pytest.raises(WrongColour, match="another thread"):
        hf.run(act(plot))


def test_a_killed_process_repeats_its_choice(lab):
    """SIGKILL after the choice is on the disk: the resumed process does not choose again."""
    crash = lab(
        """
        import os
        from holdfast import Holdfast, recorded, step, workflow
        from holdfast.testing.crash import mark

        def pick():
            mark("picked")
            return os.getpid()

        @step
        def first(pid: int) -> int:
            return pid

        @step
        def second(pid: int) -> int:
            return pid

        @workflow
        def choose() -> bool:
            pid = recorded("pid", pick)
            first(pid)
            return second(pid) == pid

        with Holdfast() as hf:
            assert hf.with_id("x").run(choose) is True
        """
    )
    assert crash.run(kill=at_body("second#1")).killed
    done = crash.run()
    assert (done.exit_code, crash.bodies()["first#1"]) == (0, 1), done.stderr
    assert crash.marks().count("picked") == 1
