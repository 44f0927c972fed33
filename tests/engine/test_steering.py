"""Pause and cancel, from any process: what runs is reached, and what nobody owns is done at once."""

import asyncio
import os
import threading
import time

import pytest
from tests.engine.test_gates import parked, until

from holdfast import (
    RunCancelled,
    RunNotFound,
    RunPaused,
    StoreError,
    approval,
    checkpoint,
    command,
    gather,
    parallel,
    sleep,
    step,
)
from holdfast.engine.outside import steering
from holdfast.engine.runs import child_run, lifecycle
from holdfast.errors import Refused


def types(hf, run_id):
    return [event.type for event in hf.events(run_id)]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_cancel_ends_a_command_with_its_whole_tree(open_hf, act, tmp_path):
    """Also what it put into a session of its own, also what ignores SIGTERM, within a second."""
    pids = tmp_path / "pids"
    script = f"""
        trap '' TERM
        sh -c 'trap "" TERM; echo $$ >> {pids}; sleep 600' &
        (setsid sh -c 'trap "" TERM; echo $$ >> {pids}; sleep 600' &)
        echo $$ >> {pids}
        wait
    """
    hf, other = open_hf(), open_hf()
    run = hf.with_id("x").start(act(lambda: command(["sh", "-c", script], effect="idempotent")))
    until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    began = time.monotonic()
    assert other.cancel("x", "enough", by="ann") == "cancelled"
    assert time.monotonic() - began < 1.0
    assert not any(alive(int(pid)) for pid in pids.read_text().split())
    with pytest.raises(RunCancelled, match="enough"):
        run.result(timeout=20)
    assert types(hf, "x")[-2:] == ["CancelRequested", "RunCancelled"]


def test_a_once_step_that_was_cancelled_is_in_doubt(hf, act, tmp_path):
    """Nobody knows what it had done by then."""
    mark = tmp_path / "mark"
    script = f"echo > {mark}; sleep 600"
    hf.with_id("x").start(act(lambda: command(["sh", "-c", script], name="pay", effect="once")))
    until(mark.exists)
    assert hf.cancel("x") == "cancelled"
    assert [(one.key, one.status) for one in hf.steps("x")] == [("pay#1", "in_doubt")]


def test_cancel_reaches_an_async_body(hf, act, ran):
    @step
    async def long():
        ran.append("began")
        try:
            await asyncio.sleep(600)
        finally:
            ran.append("ended")

    async def plot():
        await long()

    run = hf.with_id("x").start(act(plot))
    until(lambda: ran)
    assert hf.cancel("x") == "cancelled"
    assert ran == ["began", "ended"]
    with pytest.raises(RunCancelled):
        run.result(timeout=20)


def test_a_plain_body_is_let_end(hf, act, ran):
    """A thread cannot be killed: its result is recorded, and no step follows."""
    go = threading.Event()

    @step
    def long():
        ran.append("long")
        go.wait(20)

    @step
    def after():
        ran.append("after")

    run = hf.with_id("x").start(act(lambda: (long(), after())))
    until(lambda: ran)
    assert hf.cancel("x", patience=0.2) == "running"
    until(lambda: hf._engine.live["x"][0].control is not None)
    go.set()
    with pytest.raises(RunCancelled):
        run.result(timeout=20)
    assert ran == ["long"]
    assert hf.get("x").status == "cancelled"


def test_what_nobody_owns_is_cancelled_at_once(hf, act):
    """A parked run, and its child with it."""
    kid = act(lambda: approval("ok").outcome, "child")
    run = hf.with_id("x").start(act(lambda: kid()))
    parked(hf, "x")
    assert hf.cancel("x", "enough") == "cancelled"
    assert {info.status for info in hf.runs()} == {"cancelled"}
    with pytest.raises(RunCancelled, match="enough"):
        run.result(timeout=20)


def test_a_live_child_is_cancelled_with_its_parent(hf, act, tmp_path):
    mark = tmp_path / "mark"
    kid = act(lambda: command(["sh", "-c", f"echo > {mark}; sleep 600"], effect="idempotent"), "child")
    hf.with_id("x").start(act(lambda: kid()))
    until(mark.exists)
    assert hf.cancel("x") == "cancelled"
    assert {info.status for info in hf.runs()} == {"cancelled"}


@pytest.mark.parametrize("is_async", [False, True])
def test_the_owner_cancels_what_nobody_owns(open_hf, act, ran, is_async):
    """Whoever asked is gone when the owner comes to it: a child that waits ends all the same, and its own."""
    hf, other = open_hf(), open_hf()
    go = threading.Event()
    long = a_long_step(ran, go)
    deep = act(lambda: approval("ok").outcome, "grandchild")

    async def awaits():
        return (await approval.aio("ok")).outcome

    async def plot():
        await gather(kid(), long.aio())

    kid = act(awaits if is_async else (lambda: deep()), "child")
    flow = act(plot if is_async else lambda: parallel(lambda one: one(), [kid, long]))
    run = hf.with_id("x").start(flow)
    until(lambda: ran and len(other.runs(status="waiting")) == (1 if is_async else 2))
    until(lambda: all(info.owner_pid is None for info in other.runs(status="waiting")))
    assert other.cancel("x", "enough", patience=0) == "running"
    until(lambda: hf._engine.live["x"][0].control is not None)
    go.set()
    with pytest.raises(RunCancelled):
        run.result(timeout=20)
    assert {(info.status, info.reason) for info in other.runs()} == {("cancelled", "enough")}


def test_a_cancelled_run_can_be_resumed(hf, act, ran):
    """`resume` takes it up where it was."""

    @step
    def once_more():
        ran.append("step")
        return len(ran)

    run = hf.with_id("x").start(act(lambda: (once_more(), approval("ok").outcome)))
    parked(hf, "x")
    hf.cancel("x")
    with pytest.raises(RunCancelled):
        run.result(timeout=20)
    again = hf.resume("x")
    parked(hf, "x")
    hf.approve("x")
    assert again.result(timeout=20) == (1, "approved")


def test_children_go_on_with_a_run_that_was_cancelled(hf, act, ran):
    """They ended with it: `resume` takes them up where they were, too."""

    @step
    def work():
        ran.append("work")

    kid = act(lambda: (work(), approval("ok").outcome)[1], "child")
    hf.with_id("x").start(act(lambda: kid()))
    parked(hf, "x")
    assert hf.cancel("x") == "cancelled"
    assert {info.status for info in hf.runs()} == {"cancelled"}
    again = hf.resume("x")
    (child,) = [info.id for info in hf.runs() if info.id != "x"]
    parked(hf, child)
    hf.approve(child)
    assert again.result(timeout=20) == "approved"
    assert ran == ["work"]


def test_pause_stops_at_the_next_step(hf, act, ran):
    go = threading.Event()

    @step
    def work(n):
        ran.append(n)
        go.wait(20)

    run = hf.with_id("x").start(act(lambda: [work(n) for n in range(3)] and "end"))
    until(lambda: ran)
    assert hf.pause("x", "lunch", by="ann", patience=0.5) == "running"
    go.set()
    with pytest.raises(RunPaused, match="lunch"):
        run.result(timeout=20)
    assert hf.get("x").status == "paused"
    assert ran == [0]
    assert hf.resume("x").result(timeout=20) == "end"
    assert ran == [0, 1, 2]


@pytest.mark.parametrize("how", ["run", "start", "await"])
def test_a_pause_holds_when_the_program_is_started_again(open_hf, act, ran, how):
    """The id of a paused run raises who paused it, why, and the command that resumes; `resume` continues."""

    def plot():
        approval("go")
        ran.append("continued")
        return "end"

    hf = open_hf()
    workflow = act(plot)
    hf.with_id("x").start(workflow)
    parked(hf, "x")
    assert hf.pause("x", "lunch", by="ann") == "paused"
    hf.approve("x")
    hf.close()
    hf = open_hf()

    async def await_it():
        await hf.with_id("x").start(workflow)

    with pytest.raises(
        RunPaused, match="run x is paused by ann: lunch; `holdfast resume x` continues"
    ) as caught:
        if how == "await":
            asyncio.run(await_it())
        else:
            getattr(hf.with_id("x"), how)(workflow)
    assert (caught.value.by, caught.value.reason, caught.value.exit_code) == ("ann", "lunch", 7)
    assert (hf.get("x").status, ran) == ("paused", [])
    assert hf.resume("x").result(timeout=20) == "end"


def test_a_pause_holds_again_after_a_rewind_was_undone(open_hf, act, ran):
    """A rewind of a paused run opens a generation that its program continues; an undo restores the pause."""

    def plot():
        checkpoint("here")
        return approval("go").outcome

    hf = open_hf()
    hf.with_id("x").start(act(plot))
    parked(hf, "x")
    hf.pause("x", "lunch", by="ann")
    hf.rewind("x", to="here")
    hf.undo()
    with pytest.raises(RunPaused, match="by ann: lunch"):
        hf.with_id("x").run(act(plot))


def test_a_rewound_or_forked_run_continues_when_its_program_is_started_again(hf, act, ran):
    """Nobody has asked it to stop: after a rewind, the program with its better code is started again."""

    def plot():
        checkpoint("here")
        ran.append("after")
        return "end"

    workflow = act(plot)
    hf.with_id("x").run(workflow)
    hf.rewind("x", to="here")
    assert hf.get("x").status == "paused"
    assert hf.with_id("x").run(workflow) == "end"
    hf.fork("x", at="here", into="y")
    assert hf.get("y").status == "paused"
    assert hf.with_id("y").run(workflow) == "end"
    assert ran == ["after"] * 3


def test_pause_of_a_sleeping_run(hf, act):
    run = hf.with_id("x").start(act(lambda: sleep(600)))
    parked(hf, "x", "sleeping")
    assert hf.pause("x") == "paused"
    with pytest.raises(RunPaused):
        run.result(timeout=20)


def test_a_look_that_fails_loses_nothing(hf, act, monkeypatch):
    """The follower hears of a pause, and the store cannot be read just then: it looks again."""
    run = hf.with_id("x").start(act(lambda: approval("ok").outcome))
    parked(hf, "x")
    failed = []
    read = hf._engine.store.run

    def fails_once(run_id):
        if threading.current_thread().name == "holdfast-follow" and not failed:
            failed.append(run_id)
            raise StoreError("the disk does not answer")
        return read(run_id)

    monkeypatch.setattr(hf._engine.store, "run", fails_once)
    assert hf.pause("x") == "paused"
    with pytest.raises(RunPaused):
        run.result(timeout=20)
    assert failed == ["x"]


@pytest.mark.parametrize("halt", ["pause", "rewind"])
def test_a_parked_parent_is_told_that_its_child_was_halted(open_hf, act, halt):
    """Somebody pauses or rewinds the child alone: the parent cannot continue, and whoever waits hears why."""
    hf, other = open_hf(), open_hf()

    def waits():
        checkpoint("begin")
        return approval("ok").outcome

    kid = act(waits, "child")
    run = hf.with_id("x").start(act(lambda: kid()))
    parked(hf, "x")
    (child_id,) = [info.id for info in other.runs() if info.parent]
    if halt == "pause":
        other.pause(child_id)
    else:
        other.rewind(child_id, "begin")
    with pytest.raises(RunPaused, match=f"its child run {child_id} is paused"):
        run.result(timeout=20)
    assert {info.status for info in other.runs()} == {"paused"}
    again = hf.resume("x")
    parked(hf, child_id)
    other.approve(child_id)
    assert again.result(timeout=20) == "approved"


def test_fast_steps_hear_of_a_cancel(hf, act, ran):
    """A run whose steps are all short is reached too."""

    @step
    def tick(n):
        ran.append(n)

    run = hf.with_id("x").start(act(lambda: [tick(n) for n in range(1_000_000)]))
    until(lambda: len(ran) > 50)
    assert hf.cancel("x", patience=20) == "cancelled"
    with pytest.raises(RunCancelled):
        run.result(timeout=20)


def test_branches_are_cancelled_together(hf, act, tmp_path):
    def branch(n):
        command(["sh", "-c", f"echo > {tmp_path}/{n}; sleep 600"], effect="idempotent")

    hf.with_id("x").start(act(lambda: parallel(branch, range(4))))
    until(lambda: len(list(tmp_path.glob("[0-9]"))) == 4)
    assert hf.cancel("x") == "cancelled"


# Requests that their owner could miss

STOPPED = {"cancel": ("cancelled", RunCancelled), "pause": ("paused", RunPaused)}


@pytest.mark.parametrize("steer", STOPPED)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_request_in_the_moment_of_parking(open_hf, act, steer, is_async):
    """A run that lets go to wait at a gate, and is asked just then: the request is heard all the same."""
    hf, other = open_hf(), open_hf()

    def plot():
        try:
            return approval("ok").outcome
        finally:
            getattr(other, steer)("x", "enough", patience=0)

    async def aplot():
        try:
            return (await approval.aio("ok")).outcome
        finally:
            await getattr(other.aio, steer)("x", "enough", patience=0)

    run = hf.with_id("x").start(act(aplot if is_async else plot))
    status, error = STOPPED[steer]
    with pytest.raises(error, match="enough"):
        run.result(timeout=20)
    assert hf.get("x").status == status


def test_a_request_between_the_claim_and_the_first_step(open_hf, act, ran, monkeypatch):
    """The follower has passed it when the run comes to be among those it tells: the run hears of it."""
    hf, other = open_hf(), open_hf()
    real = lifecycle._enlist

    def enlist(engine, run, claimed, **options):
        if run.id == "x":
            assert other.cancel("x", patience=0) == "running"
            cursor = hf._engine.follower._cursor
            until(lambda: hf._engine.follower._cursor != cursor)
        return real(engine, run, claimed, **options)

    go = threading.Event()
    long = a_long_step(ran, go)
    busy = hf.with_id("busy").start(act(lambda: long(), "child"))  # keeps the follower awake
    until(lambda: ran and hf._engine.follower._cursor)

    @step
    def tick():
        ran.append("tick")
        threading.Event().wait(0.01)

    monkeypatch.setattr(lifecycle, "_enlist", enlist)
    run = hf.with_id("x").start(act(lambda: [tick() for _ in range(10_000)]))
    with pytest.raises(RunCancelled):
        run.result(timeout=20)
    go.set()
    busy.result(timeout=20)


def test_a_child_that_is_claimed_while_its_parent_is_cancelled(open_hf, act, ran, monkeypatch):
    """It ends with it: no step of it begins."""
    hf, other = open_hf(), open_hf()
    real = child_run.claim

    def claim(engine, *args, **options):
        claimed = real(engine, *args, **options)
        assert other.cancel("x", patience=0) == "running"
        until(lambda: hf._engine.live["x"][0].control is not None)
        return claimed

    @step
    def work():
        ran.append("work")

    monkeypatch.setattr(child_run, "claim", claim)
    kid = act(lambda: work(), "child")
    run = hf.with_id("x").start(act(lambda: kid()))
    until(lambda: "x" in hf._engine.live)
    hf._engine.follower.ensure()
    with pytest.raises(RunCancelled):
        run.result(timeout=20)
    assert ran == []
    until(lambda: {info.status for info in other.runs()} == {"cancelled"})


@pytest.mark.parametrize("is_async", [False, True])
def test_a_once_step_whose_intent_is_written_is_not_begun_after_a_cancel(open_hf, act, ran, is_async):
    """What is asked for between the intent and the body keeps the body from beginning."""

    def tell(event):
        if event.type == "StepStarted":
            asking.start()
            execution = hf._engine.live["x"][0]
            hf._engine.follower.ensure()
            until(lambda: execution.control is not None)

    hf, other = open_hf(on_event=tell), open_hf()
    asking = threading.Thread(target=other.cancel, args=("x",))

    @step(effect="once")
    def pay():
        ran.append("pay")

    @step(effect="once")
    async def apay():
        ran.append("pay")

    async def plot():
        await apay()

    run = hf.with_id("x").start(act(plot if is_async else lambda: pay()))
    with pytest.raises(RunCancelled):
        run.result(timeout=20)
    asking.join(20)
    assert ran == []
    assert [one.status for one in hf.steps("x")] == ["in_doubt"]


@pytest.mark.parametrize("steer", STOPPED)
def test_a_stop_that_could_not_be_written_is_not_told_as_done(open_hf, act, crashes, ran, steer):
    """The caller gets the store's error: the run is not paused, and not cancelled."""
    go = threading.Event()
    long = a_long_step(ran, go)
    hf, other = open_hf(), open_hf()
    store = crashes.arm(hf)
    run = hf.with_id("x").start(act(lambda: long()))
    until(lambda: ran)
    assert getattr(other, steer)("x", patience=0) == "running"
    until(lambda: hf._engine.live["x"][0].control is not None)
    store.left = 0
    go.set()
    with pytest.raises(StoreError, match="the process is dead"):
        run.result(timeout=20)
    assert other.get("x").status == "running"


def dead_while_asked(open_hf, crashes, flow, ran, go, steer):
    """A run whose owner died in a step and had not heard what it was asked for; another Holdfast."""
    dead, other = open_hf(), open_hf()
    dead.with_id("x").start(flow)
    until(lambda: ran)
    dead._engine.follower.close()  # it hears nothing
    assert getattr(other, steer)("x", "enough", by="ann", patience=0) == "running"
    crashes.arm(dead, 0)
    go.set()
    crashes.bury(dead)
    return other


def a_long_step(ran, go):
    @step
    def long():
        ran.append("began")
        go.wait(20)
        return "end"

    return long


def test_a_cancel_outlives_the_owner_that_was_asked(open_hf, act, crashes, ran):
    """Whoever would continue the run ends it, and its child with it."""
    go = threading.Event()
    long = a_long_step(ran, go)
    kid = act(lambda: long(), "child")
    other = dead_while_asked(open_hf, crashes, act(lambda: kid()), ran, go, "cancel")
    with pytest.raises(RunCancelled, match="enough"):
        other.resume("x").result(timeout=20)
    assert ran == ["began"]
    assert {(info.status, info.reason) for info in other.runs()} == {("cancelled", "enough")}
    assert types(other, "x")[-2:] == ["CancelRequested", "RunCancelled"]


def test_a_family_that_nobody_executes_ends_as_one(open_hf, act, monkeypatch):
    """A process that dies while it cancels leaves no child behind that waits for ever."""
    hf, other = open_hf(), open_hf()
    kid = act(lambda: approval("go"), "grandchild")
    middle = act(lambda: kid(), "child")
    hf.with_id("x").start(act(lambda: middle()))
    parked(hf, "x")
    hf.close()

    def die(*_):
        raise SystemExit

    monkeypatch.setattr(steering, "_wait", die)
    with pytest.raises(SystemExit):
        other.cancel("x", "enough")
    assert [info.status for info in other.runs()] == ["cancelled"] * 3


def test_a_pause_outlives_the_owner_that_was_asked(open_hf, act, crashes, ran):
    """Programs that continue runs unasked pause it; a person's resume continues."""
    go = threading.Event()
    long = a_long_step(ran, go)
    other = dead_while_asked(open_hf, crashes, act(lambda: long()), ran, go, "pause")
    (run,) = other.recover()
    with pytest.raises(RunPaused, match="enough"):
        run.result(timeout=20)
    assert (other.get("x").status, ran) == ("paused", ["began"])
    assert other.resume("x").result(timeout=20) == "end"


def test_starting_the_id_does_not_undo_a_pause_that_a_dead_owner_was_asked_for(open_hf, act, crashes, ran):
    """The owner died before it came to the pause: it is paused now."""
    go = threading.Event()
    long = a_long_step(ran, go)
    workflow = act(lambda: long())
    other = dead_while_asked(open_hf, crashes, workflow, ran, go, "pause")
    with pytest.raises(RunPaused, match="enough"):
        other.with_id("x").run(workflow)
    assert (other.get("x").status, ran) == ("paused", ["began"])
    assert other.resume("x").result(timeout=20) == "end"


@pytest.mark.parametrize("steer", ["cancel", "pause"])
def test_bad_input(hf, act, steer):
    hf.with_id("done").run(act(lambda: 1))
    with pytest.raises(Refused, match=r"run done has ended \(completed\)"):
        getattr(hf, steer)("done")
    with pytest.raises(RunNotFound, match="done"):
        getattr(hf, steer)("don")
