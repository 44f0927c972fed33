"""Rewind, undo and the journal of operations, through the Python API."""

import asyncio
import threading
import time

import pytest

from holdfast import (
    Holdfast,
    RunHeld,
    RunPaused,
    StoreError,
    approval,
    checkpoint,
    idempotency_key,
    parallel,
    step,
    wait_for,
)
from holdfast.engine.runs.child_run import child_id
from holdfast.errors import BadInput, GateError, NotFound, OnceAgain, Refused, RunNotFound, StepNotFound
from holdfast.kernel import events as e
from holdfast.store.port import Decision, new_event


@step
def work(n: int) -> int:
    done.append((n, idempotency_key()))
    return n


@step(effect="once")
def pay(n: int) -> int:
    done.append((n, idempotency_key()))
    return n


done: list[tuple[int, str]] = []


@pytest.fixture(autouse=True)
def fresh():
    done.clear()


def three():
    return [work(1), work(2), work(3)]


def faults(hf: Holdfast):
    return list(hf._store.verify())


def test_a_rewound_run_does_again_what_came_after_the_point_and_nothing_else(hf, act):
    """The step of the point is kept; those after it get other idempotency keys; the log keeps everything."""
    hf.with_id("r").run(act(three))
    before = hf.events("r")
    done.clear()
    rewound = hf.rewind("r", to="work#1")
    assert (rewound.to, rewound.again, rewound.generation) == ("work#1", ("work#2", "work#3"), 1)
    info = hf.get("r")
    assert (info.status, info.reason, info.generation) == ("paused", "rewound", 1)
    assert [one.key for one in hf.steps("r")] == ["work#1"]
    assert done == []
    assert hf.resume("r").result(30) == [1, 2, 3]
    assert done == [(2, "r:1:work#2"), (3, "r:1:work#3")]
    assert hf.events("r")[: len(before)] == before
    assert faults(hf) == []


def test_a_dry_run_writes_nothing(hf, act):
    """It says what would be done; the store is as it was."""
    hf.with_id("r").run(act(three))
    tail = hf._store.tail()
    planned = hf.rewind("r", "work#2", dry_run=True)
    assert (planned.again, planned.operation, hf._store.tail()) == (("work#3",), "", tail)
    done_now = hf.rewind("r", "work#2")
    assert done_now.operation and hf.operations()[0].id == done_now.operation
    assert hf.undo(dry_run=True).status == "completed"
    assert hf.get("r").status == "paused"


def test_undo_brings_the_old_generation_back_and_can_be_undone(hf, act):
    """The run is what it was, with its result; an undo is an operation like any other."""
    hf.with_id("r").run(act(three))
    steps, info = hf.steps("r"), hf.get("r")
    hf.rewind("r", "work#1")
    hf.resume("r").result(30)
    undone = hf.undo()
    assert (undone.kind, undone.generation, undone.status, undone.left) == (
        "rewind", 0, "completed", ("work#2", "work#3"),
    )  # fmt: skip
    assert (hf.steps("r"), hf.get("r").status, hf.get("r").generation) == (steps, info.status, 0)
    done.clear()
    assert hf.resume("r").result(30) == [1, 2, 3]
    assert done == []
    again = hf.undo()
    assert (again.kind, again.undoes, hf.get("r").generation) == ("undo", undone.operation, 1)
    assert [(one.kind, one.stands) for one in hf.operations()] == [
        ("undo", True), ("undo", False), ("rewind", True),
    ]  # fmt: skip
    assert faults(hf) == []


def test_a_restored_generation_goes_on_with_its_own_keys(open_hf, act, crashes):
    """A run that was interrupted, rewound and restored continues where it was: what it had begun keeps the
    key under which it may have happened."""
    first = open_hf()
    crashes.arm(first, 3)
    with pytest.raises(StoreError):
        first.with_id("r").run(act(three))
    crashes.bury(first)
    hf = open_hf()
    hf.rewind("r", "work#1")
    hf.undo()
    assert (hf.get("r").status, hf.get("r").interrupted) == ("running", True)
    done.clear()
    assert hf.resume("r").result(30) == [1, 2, 3]
    assert done == [(3, "r:0:work#3")]


def test_a_dead_owner_is_fenced_off(open_hf, act, crashes):
    """A rewind takes the run from it: nothing that it may still write is accepted."""
    first = open_hf()
    crashes.arm(first, 2)
    with pytest.raises(StoreError):
        first.with_id("r").run(act(three))
    crashes.bury(first)
    hf = open_hf()
    before = hf._store.run("r")
    hf.rewind("r", "work#1")
    after = hf._store.run("r")
    assert (after.epoch, after.owner) == (before.epoch + 1, "")


def test_a_live_run_is_not_rewound(hf, act, open_hf):
    """Neither by its own process nor by another; a dry run looks all the same."""
    seen: list[object] = []

    def plot():
        work(1)
        for one in (hf, other):
            with pytest.raises(RunHeld):
                one.rewind("r", "work#1")
        seen.append(other.rewind("r", "work#1", dry_run=True).again)
        return work(2)

    other = open_hf()
    assert hf.with_id("r").run(act(plot)) == 2
    assert (seen, hf.operations()) == ([()], [])


def test_once_steps_run_again_only_if_that_is_said(hf, act):
    """They are named in the plan and in the error; with `rerun_once` they run, under another key."""
    hf.with_id("r").run(act(lambda: [work(1), pay(2), work(3)]))
    assert hf.rewind("r", "work#1", dry_run=True).once == ("pay#1",)
    with pytest.raises(OnceAgain, match="pay#1") as caught:
        hf.rewind("r", "work#1")
    assert caught.value.steps == ("pay#1",)
    assert hf.rewind("r", "pay#1").once == ()
    hf.undo()
    hf.rewind("r", "work#1", rerun_once=True)
    done.clear()
    assert hf.resume("r").result(30) == [1, 2, 3]
    assert done == [(2, "r:2:pay#1"), (3, "r:2:work#2")]


def test_once_steps_of_child_runs_count_too(hf, act):
    """A child that was begun after the point begins anew, under another id: what it did once is named."""
    kid = act(lambda n: pay(n), "child")
    hf.with_id("r").run(act(lambda: [work(1), kid(7)]))
    planned = hf.rewind("r", "work#1", dry_run=True)
    assert (planned.children, planned.once) == (("r.child-1",), ("pay#1 of r.child-1",))
    with pytest.raises(OnceAgain, match=r"pay#1 of r\.child-1"):
        hf.rewind("r", "work#1")
    hf.rewind("r", "work#1", rerun_once=True)
    done.clear()
    hf.resume("r").result(30)
    (child,) = [run.id for run in hf.runs() if run.parent and "g1" in run.id]
    assert done == [(7, f"{child}:0:pay#1")]
    assert hf.get("r.child-1").status == "completed"


def test_once_steps_of_generations_that_were_put_aside_count_too(hf, act):
    """Also those of a child that was rewound by itself, and has not done them again."""
    hf.with_id("r").run(act(three))
    hf.rewind("r", "work#1")
    act(lambda: [work(1), pay(2)])
    hf.resume("r").result(30)
    hf.undo()
    with pytest.raises(OnceAgain, match="pay#1"):
        hf.rewind("r", "work#1")
    kid = act(lambda: [work(5), pay(6)], "child")
    hf.with_id("p").run(act(lambda: [work(1), kid()]))
    hf.rewind("p.child-1", "work#1", rerun_once=True)
    with pytest.raises(OnceAgain, match=r"pay#1 of p\.child-1"):
        hf.rewind("p", "work#1")


def test_a_child_of_a_generation_that_was_left_wakes_nobody(hf, act):
    """Nor can it be approved, or signalled, by mistake, until its generation is restored."""
    kid = act(lambda: approval("ok").outcome, "child")
    plot = act(lambda: [work(1), kid()])
    hf.with_id("r").start(plot)
    wait_until_parked(hf)
    hf.rewind("r", "work#1")
    for steer in (lambda: hf.approve("r.child-1"), lambda: hf.signal("r.child-1", "go")):
        with pytest.raises(GateError, match="child of a generation of run r that a rewind has left"):
            steer()
    run = hf.resume("r")
    new = child_id("r", 1, "child#1")
    wait_until_waiting(hf, new)
    wait_until_parked(hf)
    decide = Decision("run", [new_event(e.GateDecided("ok#1", "approved"), 1)])
    hf._store.command("r.child-1", lambda _: decide)  # as if it had been approved before the rewind
    claims = [one.type for one in hf.events("r")]
    assert hf._store.ready_runs(hf._engine.clock.now_us()) == []
    time.sleep(0.2)
    assert [one.type for one in hf.events("r")] == claims
    hf.approve(new)
    assert run.result(30) == [1, "approved"]


def test_a_child_that_was_begun_before_the_point_goes_on(hf, act):
    """It is the run that it was: what it has done is neither named nor done again."""
    kid = act(lambda: [pay(7), approval("ok").outcome], "child")
    begun = threading.Event()

    def branch(n):
        if n == 0:
            return kid()
        begun.wait(30)
        return [work(1), work(2), approval("b").outcome]

    run = hf.with_id("r").start(act(lambda: parallel(branch, [0, 1])))
    child = child_id("r", 0, "branch[1]/child#1")
    wait_until_waiting(hf, child)
    begun.set()
    wait_until_parked(hf)
    rewound = hf.rewind("r", "branch[2]/work#1")
    assert (rewound.once, rewound.children) == ((), ())
    done.clear()
    run = hf.resume("r")
    wait_until_waiting(hf)
    for one in (child, "r"):
        while not hf._store.open_gates([one]):
            time.sleep(0.005)
        hf.approve(one)
    assert run.result(30) == [[7, "approved"], [1, 2, "approved"]]
    assert [n for n, _ in done] == [2]
    assert len(hf.runs()) == 2


def test_what_was_done_once_since_is_not_done_again_by_an_undo(open_hf, act, crashes):
    """The old generation had not come to it: continuing there would."""
    first = open_hf()
    crashes.arm(first, 2)
    plot = act(lambda: [work(1), pay(2)])
    with pytest.raises(StoreError):
        first.with_id("r").run(plot)
    crashes.bury(first)
    hf = open_hf()
    hf.rewind("r", "work#1")
    hf.resume("r").result(30)
    with pytest.raises(OnceAgain, match="pay#1"):
        hf.undo()
    assert hf.undo(rerun_once=True).once == ("pay#1",)


def test_a_failed_run_is_rewound_to_before_its_failure(hf, act):
    """The failed step is forgotten; the run continues from the point."""
    good = False

    def plot():
        work(1)
        if not good:
            fail()
        return work(2)

    with pytest.raises(ZeroDivisionError):
        hf.with_id("r").run(act(plot))
    assert hf.rewind("r", "work#1").again == ("fail#1",)
    good = True
    assert hf.resume("r").result(30) == 2


@step
def fail() -> None:
    raise ZeroDivisionError


def test_points_are_named_as_people_name_them(hf, act):
    """A whole key, or a name that only one step has; otherwise what there is."""
    hf.with_id("r").run(act(lambda: [work(1), work(2), pay(3)]))
    assert hf.rewind("r", "pay", dry_run=True).to == "pay#1"
    with pytest.raises(BadInput, match=r"'work' is 2 points of run r: work#1, work#2"):
        hf.rewind("r", "work")
    with pytest.raises(StepNotFound) as caught:
        hf.rewind("r", "wrk#2")
    assert "work#2" in caught.value.nearest
    with pytest.raises(RunNotFound):
        hf.rewind("x", "work#1")
    assert hf.operations() == []


def test_whoever_waits_for_a_parked_run_is_told(hf, open_hf, act):
    """Of a rewind by somebody else, and of an undo that ends the run."""
    other = open_hf()
    run = hf.with_id("r").start(act(lambda: [work(0), approval("ok").outcome]))
    wait_until_parked(hf)
    other.rewind("r", "work#1")
    with pytest.raises(RunPaused, match="rewound"):
        run.result(30)
    act(lambda: [work(0), work(1)])
    assert hf.resume("r").result(30) == [0, 1]
    other.rewind("r", "work#1")
    act(lambda: [work(0), approval("ok").outcome])
    run = hf.resume("r")
    wait_until_parked(hf)
    other.undo()
    assert run.result(30) == [0, 1]


def test_a_child_that_is_rewound_by_itself_stops_the_parent_that_waits_for_it(hf, open_hf, act):
    """It is paused, as every run that was rewound; with its parent it continues."""
    other = open_hf()
    kid = act(lambda: [work(1), work(2), approval("ok").outcome], "child")
    go = threading.Event()

    def branch(n):
        if n == 0:
            return kid()
        go.wait(30)
        return work(3)

    run = hf.with_id("r").start(act(lambda: parallel(branch, [0, 1])))
    child = child_id("r", 0, "branch[1]/child#1")
    wait_until_waiting(hf, child)
    while hf._store.run(child).owner:
        time.sleep(0.005)
    other.rewind(child, "work#1")
    while hf._engine.live["r"][0].control is None:
        time.sleep(0.005)
    go.set()
    with pytest.raises(RunPaused, match=f"its child run {child} is paused"):
        run.result(30)
    assert hf.get(child).status == "paused"
    run = hf.resume("r")
    wait_until_waiting(hf, child)
    hf.approve(child)
    assert run.result(30) == [[1, 2, "approved"], 3]


def test_a_rewind_to_a_checkpoint_asks_again_for_what_was_decided_after_it(hf, act):
    """A checkpoint is a point by its name; an approval after it no longer counts, and waits again."""

    def plot():
        work(1)
        checkpoint("half", pages=2)
        decision = approval("send", show="text")
        return [decision.outcome, decision.by, work(2)]

    run = hf.with_id("r").start(act(plot))
    wait_until_waiting(hf)
    hf.approve("r", by="ann")
    assert run.result(30) == ["approved", "ann", 2]
    (point,) = hf.checkpoints("r")
    assert (point.name, point.key, point.data) == ("half", "half#1", {"pages": 2})
    rewound = hf.rewind("r", to="half")
    assert (rewound.to, rewound.again, rewound.decisions) == ("half#1", ("send#1", "work#2"), ("send#1",))
    run = hf.resume("r")
    wait_until_waiting(hf)
    hf.reject("r", by="bob")
    assert run.result(30) == ["rejected", "bob", 2]
    assert hf.undo().status == "completed"
    assert hf.resume("r").result(30) == ["approved", "ann", 2]


def test_a_signal_after_the_point_no_longer_counts(hf, act):
    """One that came before it is free again for whoever waits next."""

    def plot():
        work(1)
        return [wait_for("go"), work(2)]

    run = hf.with_id("r").start(act(plot))
    wait_until_waiting(hf)
    hf.signal("r", "go", "first")
    assert run.result(30) == ["first", 2]
    hf.rewind("r", "work#1")
    hf.signal("r", "go", "second")
    assert hf.resume("r").result(30) == ["second", 2]


def wait_until_waiting(hf, run="r"):
    deadline = time.monotonic() + 30
    while (info := hf._store.run(run)) is None or info.status != "waiting":
        assert time.monotonic() < deadline
        time.sleep(0.005)


def wait_until_parked(hf):
    wait_until_waiting(hf)
    deadline = time.monotonic() + 30
    while hf._store.run("r").owner:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_operations_are_found_by_the_beginning_of_their_id(hf, act):
    """Nothing to take back, none of that name, and one that is not the last on its run are told apart."""
    with pytest.raises(NotFound, match="nothing that can be undone"):
        hf.undo()
    for run in ("r", "s"):
        hf.with_id(run).run(act(three))
    first = hf.rewind("r", "work#2").operation
    hf.rewind("s", "work#2")
    second = hf.rewind("r", "work#1").operation
    with pytest.raises(NotFound, match="no operation 'zz'"):
        hf.undo("zz")
    with pytest.raises(Refused, match=f"rewind {second} came after it"):
        hf.undo(first)
    assert hf.undo(second[:6]).undoes == second
    assert hf.undo(first).status == "completed"
    assert [one.kind for one in hf.operations("r")] == ["undo", "undo", "rewind", "rewind"]
    assert [one.run_id for one in hf.operations(limit=3)] == ["r", "r", "r"]


def test_the_callback_is_told_of_a_rewind(open_hf, act):
    """As of every event that this Holdfast writes."""
    told: list[str] = []
    hf = open_hf(on_event=lambda event: told.append(event.type))
    hf.with_id("r").run(act(three))
    told.clear()
    hf.rewind("r", "work#1")
    hf.undo()
    assert told == ["Rewound", "GenerationRestored"]


def test_rewind_and_undo_in_an_event_loop(hf, act):
    """Under `hf.aio`; the plain calls refuse to block the loop."""
    hf.with_id("r").run(act(three))

    async def main():
        with pytest.raises(BadInput):
            hf.rewind("r", "work#1")
        rewound = await hf.aio.rewind("r", "work#1")
        assert (await hf.aio.undo()).undoes == rewound.operation
        return await hf.aio.operations()

    assert len(asyncio.run(main())) == 2
