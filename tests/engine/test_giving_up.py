"""Waits that the code gives up: plain asyncio cancels them, and every replay goes the same way."""

import asyncio
import gc
import threading

import pytest
from tests.engine.test_gates import Bodies, parked, until

from holdfast import DivergenceError, GateError, RunCancelled, approval, sleep, step, wait_for, workflow
from holdfast.clock import SystemClock
from holdfast.engine.execution.execution import Execution
from holdfast.errors import HoldfastError, RunInterrupted, StoreFull
from holdfast.operations.replaying import replay

PATIENCE_S = 20
HOUR_S = 3600


class Ahead(SystemClock):
    """The machine's clock, set forward by the test."""

    by_s = 0.0

    def now_us(self) -> int:
        return super().now_us() + int(self.by_s * 1e6)


@pytest.fixture
def ran():
    return Bodies()


@pytest.fixture
def clock():
    return Ahead()


def statuses(hf, run_id="x"):
    return {info.key: info.status for info in hf.steps(run_id)}


async def first_of(*branches):
    """The names of the branches that were done when the first one was; the others are cancelled."""
    tasks = [asyncio.create_task(branch()) for branch in branches]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return [branch.__name__ for branch, task in zip(branches, tasks, strict=True) if task in done]


async def paid():
    return await wait_for.aio("paid")


async def late():
    await sleep.aio(HOUR_S)


async def soon():
    await sleep.aio(0.05)


async def decided():
    return (await approval.aio("early")).outcome


# Races


def test_a_sleep_that_lost_a_race_does_not_win_the_replay(open_hf, act, clock, ran):
    """It is over when the run is replayed, and given up all the same; the run is not ready at its time."""
    hf = open_hf(clock=clock)

    async def plot():
        won = await first_of(paid, late)
        await ran.astep("+".join(won))
        return won, (await approval.aio("ship")).outcome

    run = hf.with_id("x").start(act(plot))
    until(lambda: "paid[1]/paid#1" in statuses(hf))
    hf.signal("x", "paid", 1)
    until(lambda: statuses(hf).get("ship#1") == "waiting")
    parked(hf, "x")
    assert statuses(hf)["late[1]/sleep#1"] == "abandoned"
    clock.by_s = 2 * HOUR_S
    assert hf._store.ready_runs(clock.now_us()) == []
    assert replay(hf._engine, "x").verdict == "matches"
    hf.approve("x")
    assert run.result(PATIENCE_S) == (["paid"], "approved")
    assert ran == ["paid"]


@pytest.mark.parametrize("branch", [paid, decided])
def test_a_gate_that_lost_a_race_takes_nothing(open_hf, act, ran, branch):
    """Neither a signal, which is kept for the next one, nor a decision, which is refused."""
    hf = open_hf()

    async def plot():
        won = await first_of(branch, soon)
        await ran.astep("+".join(won))
        return won, (await approval.aio("ok")).outcome, await wait_for.aio("paid")

    run = hf.with_id("x").start(act(plot))
    until(lambda: statuses(hf).get("ok#1") == "waiting")
    parked(hf, "x")
    assert hf.signal("x", "paid", 7) is False
    with pytest.raises(GateError, match=r"was given up|no gate"):
        hf.approve("x", "early")
    hf.approve("x", "ok")
    assert run.result(PATIENCE_S) == (["soon"], "approved", 7)
    assert ran == ["soon"]


def test_a_signal_that_came_as_its_gate_was_given_up_goes_to_the_next_one(open_hf, act):
    """To another that waits for it, or to one that will: what nobody was given is not lost."""
    hf = open_hf()

    given_up = []

    async def plot():
        tasks = [asyncio.create_task(paid()) for _ in range(2)]
        if not given_up:
            gates = hf._engine.live["x"][0].state.steps
            while [gate.status for gate in gates.values()] != ["waiting", "waiting"]:
                await asyncio.sleep(0.005)
            hf._engine.follower.ensure()
            first = next(iter(gates))
            sender = threading.Thread(target=hf.signal, args=("x", "paid", 7))
            sender.start()
            until(lambda: gates[first].status == "completed")  # and its task has not been woken
            sender.join()
            given_up.append(int(first != "paid[1]/paid#1"))
        else:
            await asyncio.sleep(0)  # both make their calls, as before
        tasks[given_up[0]].cancel()
        values = await asyncio.gather(*tasks, return_exceptions=True)
        return values[1 - given_up[0]], await wait_for.aio("paid")

    run = hf.with_id("x").start(act(plot))
    until(lambda: statuses(hf).get("paid#1") == "waiting")
    hf.signal("x", "paid", 8)
    assert run.result(PATIENCE_S) == (7, 8)
    assert list(hf._store.verify()) == []


# Groups and times


def test_a_group_that_fails_gives_up_its_waits(open_hf, act, clock):
    """The run continues to a gate; when the time of the sleep comes, it is not woken over and over."""
    hf = open_hf(clock=clock)

    @step
    async def fails():
        raise ValueError("no")

    async def failing():
        await asyncio.to_thread(until, lambda: "late[1]/sleep#1" in statuses(hf))
        await fails()

    async def plot():
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(failing())
                group.create_task(late())
        except* ValueError:
            pass
        return (await approval.aio("go")).outcome

    run = hf.with_id("x").start(act(plot))
    until(lambda: statuses(hf).get("go#1") == "waiting")
    parked(hf, "x")
    before = len(hf.events("x"))
    clock.by_s = 2 * HOUR_S
    hf.with_id("other").run(act(lambda: None, "child"))  # a follower looks when something is written
    threading.Event().wait(0.2)
    assert len(hf.events("x")) == before
    hf.approve("x")
    assert run.result(PATIENCE_S) == "approved"


def test_a_plain_timeout_gives_up_its_gate(open_hf, act, ran):
    """In the replay it is waited for as long, and given up again."""
    hf = open_hf()
    go = threading.Event()

    @step
    async def busy():
        await asyncio.to_thread(go.wait, PATIENCE_S)

    async def plot():
        beside = asyncio.create_task(busy())
        try:
            async with asyncio.timeout(0.1):
                await approval.aio("quick")
        except TimeoutError:
            await ran.astep("too-late")
        go.set()
        await beside
        return (await approval.aio("slow")).outcome

    run = hf.with_id("x").start(act(plot))
    until(lambda: statuses(hf).get("slow#1") == "waiting")
    parked(hf, "x")
    assert statuses(hf)["quick#1"] == "abandoned"
    hf.approve("x")
    assert run.result(PATIENCE_S) == "approved"
    assert ran == ["too-late"]


def test_a_sleep_that_no_branch_comes_to_again_is_reported(open_hf, act, clock):
    """Its branch takes another way in the replay, and waits for a time that the history does not have."""
    hf = open_hf(clock=clock)
    first = []

    async def branch():
        if first:
            await asyncio.sleep(PATIENCE_S)
        await sleep.aio(HOUR_S)

    async def plot():
        asyncio.create_task(branch())  # noqa: RUF006
        return await wait_for.aio("go"), await wait_for.aio("end")

    run = hf.with_id("x").start(act(plot))
    until(lambda: "sleeping" in statuses(hf).values())
    parked(hf, "x")
    first.append(True)
    hf.signal("x", "go", 1)
    with pytest.raises(DivergenceError, match=r"recorded is branch\[1\]/sleep#1 next, the code calls end#1"):
        run.result(PATIENCE_S)


# What is no giving up


def test_a_loop_that_is_shut_down_gives_up_nothing(open_hf, act, ran):
    """The run is interrupted: its waits stay open, and its code records nothing while it unwinds."""
    hf = open_hf()

    async def plot():
        beside = asyncio.create_task(paid())
        try:
            outcome = (await approval.aio("go")).outcome
        finally:
            await ran.astep("cleanup")
        return outcome, await beside

    chosen = act(plot)

    async def main():
        run = hf.with_id("x").start(chosen)
        await asyncio.to_thread(until, lambda: hf._store.run("x") and len(hf._store.steps("x")) == 2)
        return run

    run = asyncio.run(main())
    with pytest.raises(RunInterrupted):
        run.result(PATIENCE_S)
    assert set(statuses(hf).values()) == {"waiting"}
    again = hf.resume("x")
    parked(hf, "x")
    hf.approve("x")
    hf.signal("x", "paid", 3)
    assert again.result(PATIENCE_S) == ("approved", 3)
    assert ran == ["cleanup"]


def test_a_function_that_ends_gives_up_nothing(open_hf, act):
    """What it leaves behind is of a run that has ended."""
    hf = open_hf()

    async def plot():
        task = asyncio.create_task(late())
        await asyncio.to_thread(until, lambda: "sleeping" in statuses(hf).values())
        task.cancel()
        return "end"

    assert hf.with_id("x").run(act(plot)) == "end"
    assert [event.type for event in hf.events("x")][-1] == "RunCompleted"


# Other code


@workflow
async def flow():
    given_up = asyncio.create_task(approval.aio("early"))
    await asyncio.to_thread(until, lambda: "early#1" in seen())
    given_up.cancel()
    return await wait_for.aio("go")


in_tasks, seen = flow, dict


@workflow
def flow():
    return approval("early").outcome, wait_for("go")


def test_code_that_cannot_give_up_a_wait_diverges(open_hf, monkeypatch):
    """A `def` workflow does not take the gate for decided."""
    hf = open_hf()
    monkeypatch.setattr(f"{__name__}.seen", lambda: statuses(hf))
    hf.with_id("x").start(in_tasks)
    until(lambda: statuses(hf).get("go#1") == "waiting")
    parked(hf, "x")
    hf.close()
    with pytest.raises(DivergenceError, match="given up"):
        open_hf().with_id("x").start(flow).result(PATIENCE_S)


@pytest.mark.parametrize("how", ["pause", "cancel", "lose"])
def test_tasks_of_a_run_that_stops_end_quietly(open_hf, act, ran, caplog, how):
    """Nobody waits for them: asyncio would say so of each, with a traceback."""
    hf = open_hf()
    go = threading.Event()

    @step
    async def held():
        await asyncio.to_thread(go.wait, PATIENCE_S)

    async def plot():
        left = asyncio.ensure_future(paid())
        await held()
        await ran.astep("after")
        left.cancel()

    run = hf.with_id("x").start(act(plot))
    until(lambda: "paid[1]/paid#1" in statuses(hf))
    execution = hf._engine.live["x"][0]
    if how == "lose":
        execution.lose(StoreFull("no room"))
    else:
        getattr(open_hf(), how)("x", patience=0)
        until(lambda: execution.control is not None)
    go.set()
    with pytest.raises(HoldfastError):
        run.result(timeout=PATIENCE_S)
    gc.collect()
    assert "never retrieved" not in caplog.text
    assert ran == []


def test_a_wait_in_a_child_is_not_given_up_by_a_cancel_of_its_parent(open_hf, act, monkeypatch):
    """Also if its task is cancelled before the child has heard of it: it waits again when both continue."""
    real = Execution.stop_with

    def stop_late(self, parent):
        threading.Event().wait(0.2)
        real(self, parent)

    @step
    async def beside():
        await asyncio.to_thread(go.wait, PATIENCE_S)

    async def waits():
        return (await approval.aio("ok")).outcome

    async def both():
        return (await asyncio.gather(waits(), beside()))[0]

    async def plot():
        return await kid()

    go = threading.Event()
    hf, other = open_hf(), open_hf()
    kid = act(both, "child")
    run = hf.with_id("x").start(act(plot))
    until(
        lambda: [
            event for info in other.runs() for event in other.events(info.id) if event.type == "GateOpened"
        ]
    )
    monkeypatch.setattr(Execution, "stop_with", stop_late)
    assert other.cancel("x", patience=0) == "running"
    with pytest.raises(RunCancelled):
        run.result(timeout=PATIENCE_S)
    go.set()
    (child,) = [info.id for info in other.runs() if info.id != "x"]
    assert "WaitAbandoned" not in [event.type for event in other.events(child)]
    again = hf.resume("x")
    until(lambda: other.get(child).status == "waiting")
    other.approve(child)
    assert again.result(timeout=PATIENCE_S) == "approved"
