"""`sleep`: its end is recorded before it begins, so a crash does not lengthen it."""

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from holdfast import RunWaiting, sleep, step
from holdfast.errors import BadInput, OwnershipLost, WrongColour
from holdfast.testing import FakeClock, at_mark


def test_a_sleep_takes_its_time(open_hf, act):
    """The clock is that much later; the log has beginning and end; nothing else waits."""
    clock = FakeClock()
    hf = open_hf(clock=clock)
    start = clock.now()

    def plot():
        sleep(timedelta(hours=8))
        sleep(30)

    async def aplot():
        await sleep.aio(60)

    hf.with_id("x").run(act(plot))
    assert clock.now() - start == timedelta(hours=8, seconds=30)
    hf.with_id("y").run(act(aplot))
    assert clock.now() - start == timedelta(hours=8, seconds=90)
    slept = [event.type for event in hf.events("x")][2:-1]
    assert slept == ["SleepStarted", "SleepEnded"] * 2


def test_a_sleeping_run_says_so_and_until_when(open_hf, act):
    """Its status is `sleeping`; `result(timeout)` raises `RunWaiting` instead of blocking on."""
    clock = FakeClock(jump=False)
    hf = open_hf(clock=clock)
    due = clock.now() + timedelta(seconds=90)
    run = hf.with_id("x").start(act(lambda: sleep(90)))
    assert clock.until_asleep() == due
    assert (hf.get("x").status, hf.steps("x")[0].due_at) == ("sleeping", due)
    with pytest.raises(RunWaiting, match="run x waits"):
        run.result(timeout=0.01)
    clock.advance(90)
    assert run.result(30) is None
    assert hf.get("x").status == "completed"


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_sleep_that_was_killed_at_a_third_ends_at_the_recorded_time(open_hf, act, crashes, colour):
    """The resumed run sleeps the other two thirds, not the whole again."""
    clock = FakeClock(jump=False)
    due = clock.now() + timedelta(seconds=90)

    def plot():
        sleep(90)

    async def aplot():
        await sleep.aio(90)

    chosen = plot if colour == "def" else aplot
    first = open_hf(clock=clock)
    first.with_id("x").start(act(chosen))
    clock.until_asleep()
    clock.advance(30)
    crashes.bury(first)
    second = open_hf(clock=clock)
    run = second.resume("x")
    assert clock.until_asleep() == due
    clock.advance(60)
    assert run.result(30) is None
    slept = [event.type for event in second.events("x") if event.type.startswith("Sleep")]
    assert slept == ["SleepStarted", "SleepEnded"]


def test_a_sleep_that_is_over_before_the_resume_is_not_slept(open_hf, act, crashes):
    """A run resumed after its time continues at once."""
    clock = FakeClock(jump=False)
    first = open_hf(clock=clock)
    first.with_id("x").start(act(lambda: sleep(90)))
    clock.until_asleep()
    crashes.bury(first)
    clock.advance(1000)
    assert open_hf(clock=clock).resume("x").result(30) is None


def test_a_real_process_killed_in_its_sleep(lab):
    """With a real clock and a real kill: the whole takes as long as the sleep, not longer."""
    job = lab("""
        import time
        from holdfast import Holdfast, sleep, step, workflow
        from holdfast.testing import mark

        @step
        def begin() -> float:
            return time.time()

        @workflow
        def nap() -> float:
            started = begin()
            sleep(1.5)
            return time.time() - started

        def tell(event):
            if event.type == "SleepStarted":
                mark("asleep")

        if __name__ == "__main__":
            with Holdfast(on_event=tell) as hf:
                print(hf.with_id("nap").run(nap))
    """)
    assert job.run(at_mark("asleep")).killed
    ended = job.run()
    assert ended.exit_code == 0, ended.stderr
    assert 1.49 <= float(ended.stdout) < 2.9


def test_several_branches_sleep_at_once(open_hf, act):
    """The status stays `sleeping` while any branch sleeps."""
    clock = FakeClock(jump=False)
    worked = []

    def tell(event):
        if event.type in ("StepRan", "StepCompleted"):
            worked.append(event.data["key"])

    hf = open_hf(clock=clock, on_event=tell)

    @step
    async def work() -> None: ...

    async def nap(seconds):
        await sleep.aio(seconds)
        await work()

    async def plot():
        await asyncio.gather(nap(10), nap(20))

    run = hf.with_id("x").start(act(plot))
    while len([info for info in hf.steps("x") if info.kind == "sleep"]) < 2:
        clock.until_asleep()
    clock.advance(10)
    deadline = time.monotonic() + 30
    while not worked and time.monotonic() < deadline:
        clock.until_asleep()
    assert worked == ["nap[1]/work#1"]
    assert hf.get("x").status == "sleeping"
    clock.advance(10)
    run.result(30)
    assert hf.get("x").status == "completed"


def test_wrong_sleeps(hf, act):
    """A negative duration and the wrong colour raise, with what to write."""

    async def plot():
        sleep(1)

    with pytest.raises(BadInput, match="not negative"):
        hf.run(act(lambda: sleep(-1)))
    with pytest.raises(WrongColour, match=r"await sleep\.aio"):
        hf.run(act(plot))


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_sleeper_whose_run_was_taken_over_begins_nothing(open_hf, act, ran, colour):
    """It looks before it continues: the step behind the sleep runs once, where the run is now."""
    clock = FakeClock(jump=False)

    @step
    def work() -> None:
        ran.append("work")

    def plot():
        sleep(90)
        work()

    async def aplot():
        await sleep.aio(90)
        await work.aio()

    first, second = open_hf(clock=clock), open_hf(clock=clock)
    stale = first.with_id("x").start(act(plot if colour == "def" else aplot))
    clock.until_asleep()
    taken = second.resume("x", take_over=True)
    clock.advance(90)
    taken.result(30)
    with pytest.raises(OwnershipLost):
        stale.result(30)
    assert ran == ["work"]


def test_a_cancel_at_the_moment_of_waking_up_leaves_no_trace(open_hf, act, monkeypatch):
    """The look at the store continues in its thread, and has nobody to tell."""
    asked, answer, complaints = threading.Event(), threading.Event(), []

    def slow_look(run):
        asked.set()
        answer.wait(30)

    monkeypatch.setattr("holdfast.engine.execution.thread_driver.look_for_takeover", slow_look)

    async def plot():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        sleeper = asyncio.ensure_future(sleep.aio(0.5))
        await asyncio.to_thread(asked.wait, 30)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper
        answer.set()
        await asyncio.sleep(0.05)
        return "well"

    assert open_hf().run(act(plot)) == "well"
    assert complaints == []
