"""Fork: a new run with what another had done before a point."""

import msgspec
import pytest

from holdfast import RunExists, RunNotFound, idempotency_key, now, parallel, sleep, step
from holdfast.errors import BadRunId, StepNotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.operations.forking import fork
from holdfast.testing.histories import perform

done: list[tuple[int, str]] = []


@pytest.fixture(autouse=True)
def fresh():
    done.clear()


@step
def work(n: int) -> int:
    done.append((n, idempotency_key()))
    return n


@step(effect="once")
def pay(n: int) -> int:
    done.append((n, idempotency_key()))
    return n


def faults(hf):
    return list(hf._store.verify())


def test_a_fork_runs_the_step_again_and_what_follows(hf, act):
    """What came before is used as it was recorded; the other run is not touched; keys are the new run's."""
    hf.with_id("r").run(act(lambda: [work(1), work(2), work(3)]))
    before = hf.events("r")
    forked = hf.fork("r", at="work#2", into="s")
    assert (forked.id, forked.origin, forked.at, forked.kept) == ("s", "r", "work#2", ("work#1",))
    assert hf.events("s")[-1].data["origin"] == "r"
    info = hf.get("s")
    assert (info.status, info.reason, info.generation) == ("paused", "forked from r", 0)
    done.clear()
    assert hf.resume("s").result(30) == [1, 2, 3]
    assert done == [(2, "s:0:work#2"), (3, "s:0:work#3")]
    assert (hf.events("r"), faults(hf)) == (before, [])


def test_a_fork_without_a_name_gets_one(hf, act):
    hf.with_id("r").run(act(lambda: work(1)))
    one, two = hf.fork("r", "work"), hf.fork("r", "work")
    assert len({one.id, two.id, "r"}) == 3
    assert hf.resume(one.id).result(30) == 1


def test_everything_that_was_recorded_goes_along(hf, act):
    """Values, sleeps, failures that were caught, parallel branches, large results: none is made again."""

    def plot():
        at = now()
        sleep(0.001)
        try:
            fail()
        except ValueError as error:
            text = str(error)
        return [at, text, parallel(work, [1, 2]), len(large()), work(5)]

    first = hf.with_id("r").run(act(plot))
    hf.fork("r", "work#3", into="s")
    done.clear()
    assert hf.resume("s").result(30) == first
    assert done == [(5, "s:0:work#3")]
    assert faults(hf) == []


@step
def fail() -> None:
    raise ValueError("no")


@step
def large() -> str:
    return "x" * 100_000


def test_a_fork_of_a_rewound_run_has_what_counts_in_it(hf, act):
    """Not what the rewind took back: neither before nor after it was taken up again."""
    hf.with_id("r").run(act(lambda: [work(1), work(2), work(3)]))
    hf.rewind("r", "work#1")
    hf.resume("r").result(30)
    hf.undo()
    hf.undo()
    forked = hf.fork("r", "work#3", into="s")
    assert forked.kept == ("work#1", "work#2")
    steps = {one.key: one.generation for one in hf._store.steps("s")}
    assert steps == {"work#1": 0, "work#2": 0}
    copied = dict.fromkeys(one.data["key"] for one in hf.events("s") if "key" in one.data)
    assert list(copied) == ["work#1", "work#2"]
    done.clear()
    assert hf.resume("s").result(30) == [1, 2, 3]
    assert done == [(3, "s:0:work#3")]


def test_once_steps_that_would_run_again_are_named(hf, act):
    """Those from the point on, in the order of the steps; not those before it."""
    hf.with_id("r").run(act(lambda: [pay(1), work(2), pay(3)]))
    assert hf.fork("r", "pay#1").once == ("pay#1", "pay#2")
    assert hf.fork("r", "work").once == ("pay#2",)


def test_a_run_can_be_forked_while_it_runs(hf, act):
    """Only what has ended is taken along; the run itself continues."""
    kept = []

    def plot():
        first = work(1)
        kept.append(hf.fork("r", "work#1").kept)
        second = work(2)
        kept.append(hf.fork("r", "work#2", into="s").kept)
        return first + second

    assert hf.with_id("r").run(act(plot)) == 3
    assert kept == [(), ("work#1",)]


def test_gates_and_signals_keep_their_tie(hf):
    """A signal that a gate had taken is that gate's in the fork; one that nobody took is there; one that came
    after the point is not."""
    store, value = hf._store, msgspec.Raw(b'"x"')
    for command in (
        c.CreateRun("r", e.Code("flow"), "d"),
        c.ClaimRun("r", "ann"),
        c.StartStep("odd#1", "odd", ordinal=1),
        c.SendSignal("r", "free", value),
        c.SendSignal("r", "go", value),
        c.Record(e.GateOpened("go#1", 2, "signal", "go")),
        c.Record(e.GateOpened("send#1", 3, "approval", "send")),
        c.DecideGate("r", "approved", by="ann"),
        c.Record(e.CheckpointTaken("half#1", 4, "half", msgspec.Raw(b"{}"))),
        c.Record(e.PatchSeen("patched@x", "x")),
        c.SendSignal("r", "late", value),
    ):
        perform(store, "r", command)
    forked = fork(hf._engine, "r", "half", by="ann", into="s")
    assert forked.kept == ("go#1", "send#1", "half#1")
    state = fold(store.load("s"))
    assert state is not None
    assert [(one.name, one.taken_by) for one in state.signals.values()] == [("free", ""), ("go", "go#1")]
    assert (state.steps["send#1"].outcome, state.steps["send#1"].by) == ("approved", "ann")
    assert list(state.steps) == ["go#1", "send#1", "half#1"]
    assert faults(hf) == []


def test_bad_input_of_a_fork(hf, act):
    """No such step: the nearest; an id that is taken, or cannot be one; no such run. Nothing is written."""
    hf.with_id("r").run(act(lambda: [work(1), work(2)]))
    tail = hf._store.tail()
    with pytest.raises(StepNotFound) as caught:
        hf.fork("r", at="wrok#2")
    assert "work#2" in caught.value.nearest
    with pytest.raises(RunExists):
        hf.fork("r", "work#2", into="r")
    with pytest.raises(BadRunId):
        hf.fork("r", "work#2", into="a b")
    with pytest.raises(RunNotFound):
        hf.fork("x", "work#2")
    assert fork(hf._engine, "r", "work#2", by="", dry_run=True).id == ""
    assert hf._store.tail() == tail


def test_what_was_begun_once_before_the_point_and_has_not_ended_is_named(hf):
    """It is not kept, so the new run does it again: running, in doubt, or done in another generation."""
    for command in (
        c.CreateRun("r", e.Code("flow"), "d"),
        c.ClaimRun("r", "ann"),
        c.RunStep(e.StepRan("a#1", "a", 1, ordinal=1)),
        c.StartStep("old#1", "old", ordinal=2, effect="once"),
        c.CompleteStep("old#1"),
        c.RewindRun("r", "a#1", dead="ann", rerun_once=True),
        c.ClaimRun("r", "ann"),
        c.StartStep("runs#1", "runs", effect="once"),
        c.StartStep("doubt#1", "doubt", effect="once"),
        c.DoubtStep("r", "doubt#1", "was cut off"),
        c.StartStep("b#1", "b", ordinal=2),
        c.CompleteStep("b#1"),
    ):
        perform(hf._store, "r", command)
    forked = hf.fork("r", "b#1")
    assert (forked.kept, set(forked.once)) == (("a#1",), {"runs#1", "doubt#1", "old#1"})
