"""`approval` and `wait_for`: decided from anywhere, once; a run that waits holds no thread and no owner."""

import asyncio
import threading
import time

import pytest

from holdfast import (
    Decision,
    GateError,
    RunPaused,
    RunWaiting,
    StepTimeout,
    approval,
    gather,
    parallel,
    sleep,
    step,
    timeout,
    wait_for,
)
from holdfast.engine.execution.parking import Waiting
from holdfast.engine.runs import launching
from holdfast.errors import BadInput, Refused, WrongColour
from holdfast.kernel import commands as c
from holdfast.testing.histories import CODE, perform


class Bodies(list):
    """Steps that say that they ran."""

    def step(self, name):
        @step(name=name)
        def body():
            self.append(name)
            return name

        return body()

    def astep(self, name):
        @step(name=name)
        async def body():
            self.append(name)
            return name

        return body()


@pytest.fixture
def ran():
    return Bodies()


def until(condition, seconds=20.0):
    """Wait until it holds, and give what it gave."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)
    return found


def parked(hf, run_id, status="waiting"):
    """Wait until the run is parked."""

    def is_parked():
        info = next((info for info in hf.runs() if info.id == run_id), None)
        return info and info.status == status and info.owner_pid is None and info

    return until(is_parked)


def run_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-run")]


def outcomes(hf, run_id):
    return [event.data["outcome"] for event in hf.events(run_id) if event.type == "GateDecided"]


def test_a_run_waits_for_a_decision(hf, open_hf, act, ran):
    """Parked: no thread, no owner. Decided elsewhere, it continues; the steps before are not repeated."""

    def plot():
        draft = ran.step("draft")
        decision = approval("send it", show=draft)
        return decision, ran.step("send")

    run = hf.with_id("x").start(act(plot))
    parked(hf, "x")
    until(lambda: run_threads() == [])
    with pytest.raises(RunWaiting):
        run.result(timeout=0.01)
    gate = open_hf().approve("x", by="ann", comment="fine")
    assert gate == "send-it#1"
    decision, sent = run.result(timeout=20)
    assert (decision.outcome, decision.by, decision.comment, sent) == ("approved", "ann", "fine", "send")
    assert ran == ["draft", "send"]
    assert hf.with_id("x").run(act(plot))[0] == decision


def test_the_callers_thread_waits_and_goes_on(hf, open_hf, act, ran):
    """`run` stays in its thread, before the gate and after it."""
    threads = []

    def plot():
        threads.append(threading.get_ident())
        return approval("ok").outcome

    other = open_hf()
    deciding = threading.Thread(target=lambda: (parked(other, "x"), other.reject("x")))
    deciding.start()
    assert hf.with_id("x").run(act(plot)) == "rejected"
    deciding.join()
    assert set(threads) == {threading.get_ident()}
    assert len(threads) == 2


def test_async_runs_wait_too(hf, open_hf, act):
    """In their loop; it is the same loop afterwards."""
    loops = []

    async def plot():
        loops.append(asyncio.get_running_loop())
        first = await approval.aio("one", show={"a": 1})
        value = await wait_for.aio("go")
        return first.outcome, value

    async def main():
        run = hf.with_id("x").start(act(plot))
        while await hf.aio.runs(status="waiting") == []:
            await asyncio.sleep(0.005)
        await hf.aio.approve("x", "one")
        while not await hf.aio.signal("x", "go", [1, 2]):
            await asyncio.sleep(0.02)
            break
        return await run

    assert asyncio.run(main()) == ("approved", [1, 2])
    assert len(set(map(id, loops))) == 1


def test_decided_while_nobody_lives(open_hf, act, ran):
    """The decision is in the log; `resume` finds it there."""
    first = open_hf()
    first.with_id("x").start(act(lambda: (approval("ok").outcome, ran.step("after"))))
    parked(first, "x")
    first.close()
    second = open_hf()
    second.approve("x")
    assert second.get("x").status in ("pending", "running")
    assert second.resume("x").result(timeout=20) == ("approved", "after")
    assert ran == ["after"]


def test_a_gate_is_decided_once(hf, act):
    """The second decision is refused, whoever comes first; so is one on a run that has ended."""
    run = hf.with_id("x").start(act(lambda: approval("ok").outcome))
    parked(hf, "x")
    hf.reject("x", by="ann")
    with pytest.raises(GateError, match=r"rejected by ann|has ended"):
        hf.approve("x", "ok")
    assert run.result(timeout=20) == "rejected"
    with pytest.raises(GateError, match="has ended"):
        hf.approve("x")
    assert outcomes(hf, "x") == ["rejected"]


def test_a_digest_says_what_was_seen(hf, act):
    """Another content than the one shown is not approved."""
    hf.with_id("x").start(act(lambda: approval("ok", show="content").outcome))
    parked(hf, "x")
    shown = next(event.data["digest"] for event in hf.events("x") if event.type == "GateOpened")
    with pytest.raises(GateError, match="shows something else"):
        hf.approve("x", digest="000000")
    hf.approve("x", digest=shown[:6])
    assert outcomes(hf, "x") == ["approved"]


def test_several_gates_must_be_named(hf, act):
    """Branches wait together: each opens its gate before the run is parked, and each continues by itself."""
    run = hf.with_id("x").start(
        act(lambda: [d.outcome for d in parallel(approve_one, ["a", "b", "c"], limit=2)])
    )
    until(lambda: sum(event.type == "GateOpened" for event in hf.events("x")) == 2)
    parked(hf, "x")
    with pytest.raises(GateError, match="several open gates, say which"):
        hf.approve("x")
    with pytest.raises(GateError, match="no gate 'z'"):
        hf.approve("x", "z")
    hf.approve("x", "a")
    until(lambda: any(step.name == "c" and step.status == "waiting" for step in hf.steps("x")))
    hf.approve("x", "c")
    hf.reject("x", "b")
    assert run.result(timeout=20) == ["approved", "rejected", "approved"]


def approve_one(title):
    return approval(title)


def test_a_branch_waits_in_place_while_another_works(hf, act, ran):
    """What works is not torn down, and the gate is decided meanwhile."""
    go = threading.Event()

    @step
    def long() -> str:
        ran.append("long")
        go.wait(20)
        return "done"

    def branch(name):
        return (approval("ok").outcome, ran.step("after")) if name == "gate" else long()

    run = hf.with_id("x").start(act(lambda: parallel(branch, ["gate", "work"])))
    until(lambda: any(one.status == "waiting" for one in hf.steps("x")))
    hf.approve("x")
    until(lambda: "after" in ran)
    go.set()
    assert run.result(timeout=20) == [("approved", "after"), "done"]
    assert sorted(ran) == ["after", "long"]
    assert sum(event.type == "RunReleased" for event in hf.events("x")) == 0


def test_a_gate_can_be_unanswered(hf, act):
    """Its time is over: not denied. A signal that does not come is a `StepTimeout`, in every replay."""

    def plot():
        decision = approval("ok", timeout=0.05)
        try:
            wait_for("go", timeout=0.05)
        except StepTimeout:
            return decision.outcome, "late"

    assert hf.with_id("x").run(act(plot)) == ("unanswered", "late")
    assert hf.with_id("x").run(act(plot)) == ("unanswered", "late")
    assert outcomes(hf, "x") == ["unanswered", "unanswered"]


def test_a_parked_gate_wakes_up_at_its_time(hf, act):
    """Longer than what is waited for in place."""
    began = time.monotonic()
    assert hf.with_id("x").run(act(lambda: approval("ok", timeout=1.3).outcome)) == "unanswered"
    assert 1.3 <= time.monotonic() - began < 10
    assert [event.type for event in hf.events("x")].count("RunReleased") == 1


def test_the_deadline_of_a_block_ends_a_gate(hf, act):
    def plot():
        with timeout(0.05):
            return approval("ok").outcome

    assert hf.run(act(plot)) == "unanswered"


def test_signals_are_kept_until_somebody_waits(hf, act, ran):
    """In order, also when they come before the run waits, and each is taken once."""
    go = threading.Event()

    @step
    def long() -> None:
        go.wait(20)

    run = hf.with_id("x").start(act(lambda: (long(), wait_for("n"), wait_for("n"), wait_for("n"))))
    until(lambda: hf.steps("x"))
    assert hf.signal("x", "n", 1) is False
    hf.signal("x", "other", 9)
    hf.signal("x", "n", 2)
    go.set()
    parked(hf, "x")
    assert hf.signal("x", "n", 3) is True
    assert run.result(timeout=20) == (None, 1, 2, 3)


def test_a_signal_and_its_gate_never_miss_each_other(open_hf, act):
    """A signal that comes as the gate is opened is taken: before, after, or at the same moment."""
    hf, other = open_hf(), open_hf()
    for n in range(30):
        run_id = f"r{n}"
        run = hf.with_id(run_id).start(act(lambda: wait_for("go")))
        until(lambda run_id=run_id: other._store.run(run_id))
        other.signal(run_id, "go", n)
        assert run.result(timeout=20) == n


def test_large_values(hf, act):
    """What is shown, and what a signal brings, may be larger than a row of the log."""
    big = "x" * 100_000

    async def plot():
        shown = await approval.aio("ok", show=big)
        return shown.outcome, len(await wait_for.aio("go"))

    run = hf.with_id("x").start(act(plot))
    parked(hf, "x")
    hf.approve("x")
    hf.signal("x", "go", big)
    assert run.result(timeout=20) == ("approved", 100_000)


def test_long_sleeps_hold_no_thread(hf, act, ran):
    run = hf.with_id("x").start(act(lambda: (sleep(1.5), ran.step("after"))))
    parked(hf, "x", "sleeping")
    until(lambda: run_threads() == [])
    assert run.result(timeout=20)[1] == "after"
    assert sum(event.type == "SleepStarted" for event in hf.events("x")) == 1


def test_a_child_that_waits_parks_its_parent(hf, open_hf, act, ran):
    """And its decision continues both."""
    kid = act(lambda: (ran.step("kid"), approval("ok").outcome), "child")
    run = hf.with_id("x").start(act(lambda: (kid(), ran.step("after"))))
    parked(hf, "x")
    child = next(info.id for info in hf.runs() if info.parent == "x")
    parked(hf, child)
    until(lambda: run_threads() == [])
    open_hf().approve(child)
    assert run.result(timeout=20) == (("kid", "approved"), "after")
    assert ran == ["kid", "after"]


def test_an_async_child_that_waits(hf, act, ran):
    async def plot():
        return await approval.aio("ok"), "kid"

    kid = act(plot, "child")

    async def parent():
        return (await gather(kid(), ran.astep("beside")))[1]

    run = hf.with_id("x").start(act(parent))
    parked(hf, "x")
    child = next(info.id for info in hf.runs() if info.parent == "x")
    hf.approve(child)
    assert run.result(timeout=20) == "beside"
    assert ran == ["beside"]


def test_another_process_may_go_on(open_hf, act):
    """Whoever waits for the result gets it, also if somebody else brought the run to its end."""
    first, second = open_hf(), open_hf()
    run = first.with_id("x").start(act(lambda: (approval("ok").outcome, wait_for("go"))))
    parked(first, "x")
    second.approve("x")
    until(lambda: any(one.name == "go" for one in second.steps("x")))
    parked(first, "x")
    other = second.resume("x")
    second.signal("x", "go", 7)
    assert other.result(timeout=20) == run.result(timeout=20) == ("approved", 7)


def test_two_handles_of_one_run(hf, act):
    flow = act(lambda: approval("ok").outcome)
    first = hf.with_id("x").start(flow)
    parked(hf, "x")
    second = hf.with_id("x").start(flow)
    parked(hf, "x")
    hf.approve("x")
    assert first.result(timeout=20) == second.result(timeout=20) == "approved"


def test_closing_leaves_a_parked_run_where_it_is(open_hf, act):
    hf = open_hf()
    run = hf.with_id("x").start(act(lambda: approval("ok").outcome))
    parked(hf, "x")
    hf.close()
    with pytest.raises(RunWaiting, match="closed"):
        run.result(timeout=20)
    assert open_hf().get("x").status == "waiting"


def test_closing_leaves_a_parked_async_run_where_it_is(open_hf, act):
    """Whoever waits for it is told, in plain code and in the loop in which it was parked."""

    async def plot():
        return (await approval.aio("ok")).outcome

    hf = open_hf()
    run = hf.with_id("x").start(act(plot))
    parked(hf, "x")
    hf.close()
    with pytest.raises(RunWaiting, match="closed"):
        run.result(timeout=20)

    async def main():
        async with open_hf() as own:
            run = own.with_id("y").start(act(plot))
            await asyncio.to_thread(run.rested.wait, 20)
        await asyncio.wait_for(run, 20)

    with pytest.raises(RunWaiting, match="closed"):
        asyncio.run(main())
    assert {info.status for info in open_hf().runs()} == {"waiting"}


def test_a_run_whose_other_owner_died_goes_on_here(open_hf, act, crashes, ran, monkeypatch):
    """Two wait for it; the one that was faster dies in the next step, and the other takes it over."""
    first, second = open_hf(), open_hf()
    go = threading.Event()
    reclaim = launching._reclaim

    def be_second(engine, run_id):
        if engine is second._engine:
            until(lambda: ran)
        return reclaim(engine, run_id)

    @step
    def work():
        ran.append("work")
        if len(ran) == 1:
            go.wait(20)
        return "done"

    first.with_id("x").start(act(lambda: (approval("ok").outcome, work())))
    parked(first, "x")
    run = second.resume("x")
    parked(first, "x")
    monkeypatch.setattr(launching, "_reclaim", be_second)
    first.approve("x")
    until(lambda: ran)
    crashes.arm(first, 0)
    go.set()
    crashes.bury(first)
    assert run.result(timeout=20) == ("approved", "done")
    assert ran == ["work", "work"]


def test_what_others_write_is_no_reason_to_look_at_all_runs(open_hf, act, monkeypatch):
    """A follower looks once a second for whatever it may have missed, and when its own runs are concerned."""
    hf, other = open_hf(), open_hf()
    run = hf.with_id("x").start(act(lambda: approval("ok").outcome))
    parked(hf, "x")
    looks, real = [], hf._store.ready_runs
    monkeypatch.setattr(hf._store, "ready_runs", lambda now: looks.append(now) or real(now))
    kid = act(lambda: 1, "child")
    began = time.monotonic()
    for n in range(40):
        other.with_id(f"other-{n}").run(kid)
        time.sleep(0.01)
    assert len(looks) <= time.monotonic() - began + 2
    hf.approve("x")
    assert run.result(timeout=20) == "approved"


def test_the_ancestry_of_a_run_is_asked_once(open_hf, act, monkeypatch):
    """Many children of others that can continue: the next look does not ask for their parents again."""
    hf = open_hf()
    for n in range(5):
        parent, name = f"p{n}", f"c{n}"
        started = c.StartStep("kid#1", "kid", kind="child", child=name)
        perform(hf._store, parent, c.CreateRun(parent, CODE, "d"), c.ClaimRun(parent, "me"), started)
        perform(hf._store, name, c.CreateRun(name, CODE, "d", parent=parent, parent_step="kid#1"))
    hf.with_id("x").start(act(lambda: approval("ok").outcome))
    parked(hf, "x")
    hf._engine.follower._go_on(1)
    asked, real = [], hf._store.run
    monkeypatch.setattr(hf._store, "run", lambda run_id: asked.append(run_id) or real(run_id))
    hf._engine.follower._go_on(1)
    assert not [run_id for run_id in asked if run_id.startswith("p")]


def test_an_item_that_can_begin_keeps_the_run_from_being_parked(hf, act, ran, monkeypatch):
    """A thread between two items of `parallel` is about to begin one, however slow it is."""
    real = Waiting.end

    def end(self):
        real(self)
        if threading.current_thread().name.startswith("holdfast-parallel"):
            threading.Event().wait(0.02)

    monkeypatch.setattr(Waiting, "end", end)

    def branch(n):
        return approval("ok").outcome if n == 0 else ran.step(f"s{n}")

    run = hf.with_id("x").start(act(lambda: parallel(branch, range(6), limit=2)))
    assert run.rested.wait(20)
    assert sorted(ran) == [f"s{n}" for n in range(1, 6)]
    hf.approve("x")
    run.result(timeout=20)


def test_a_paused_run_waits_for_resume(hf, act):
    """Also a parked one; whoever waits for it is told."""
    run = hf.with_id("x").start(act(lambda: approval("ok").outcome))
    parked(hf, "x")
    assert hf.pause("x", "lunch") == "paused"
    with pytest.raises(RunPaused, match="lunch"):
        run.result(timeout=20)
    hf.approve("x")
    assert hf.get("x").status == "paused"
    assert hf.resume("x").result(timeout=20) == "approved"


def test_what_is_shown_is_part_of_the_history(open_hf, act):
    """Code that shows something else than the run did diverges: nobody approves what was never shown."""
    first = open_hf()
    first.with_id("x").start(act(lambda: approval("ok", show=1).outcome))
    parked(first, "x")
    first.approve("x")
    first.close()
    second = open_hf()
    act(lambda: approval("ok", show=2).outcome)
    with pytest.raises(Exception, match="other arguments"):
        second.resume("x").result(timeout=20)


@pytest.mark.parametrize("call", [lambda: approval("ok"), lambda: wait_for("go")])
def test_only_in_a_workflow(call):
    with pytest.raises(WrongColour, match="only be called in a workflow's run"):
        call()


def test_bad_input(hf, act):
    async def forgotten():
        approval("ok")

    for plot in (lambda: approval(" "), lambda: wait_for("a b"), lambda: approval("x", timeout=0)):
        with pytest.raises(BadInput):
            hf.run(act(plot))
    with pytest.raises(WrongColour, match=r"await approval\.aio"):
        hf.run(act(forgotten))
    hf.with_id("done").run(act(lambda: 1))
    with pytest.raises(Refused, match="has ended"):
        hf.signal("done", "go")


def test_a_decision_is_plain_data():
    assert Decision.__struct_fields__ == ("outcome", "by", "comment", "at")
