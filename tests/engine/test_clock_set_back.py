"""The wall clock is set back while something waits: it takes no longer than it says. (Sleeps follow the wall
clock wherever it goes.)"""

import asyncio
import threading

import pytest

from holdfast import Retry, StoreError, approval, sleep, step, timeout
from holdfast.clock import SystemClock, microseconds
from holdfast.engine.execution.inbox import Inbox
from holdfast.errors import StepTimeout

DAY_US = 86_400_000_000
PATIENCE_S = 30


class SetBack(SystemClock):
    """The machine's clock, until it is set back by a day."""

    back_us = 0

    def now_us(self) -> int:
        return super().now_us() - self.back_us


@pytest.fixture
def clock() -> SetBack:
    return SetBack()


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_retry_is_not_put_off(open_hf, act, ran, clock, colour):
    """The next attempt comes after its delay, not a day later."""

    def fail_once() -> str:
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("no")
        return "yes"

    @step(retry=Retry(attempts=2, initial=0.2, jitter=0))
    def ask() -> str:
        return fail_once()

    @step(retry=Retry(attempts=2, initial=0.2, jitter=0))
    async def aask() -> str:
        return fail_once()

    async def aplot():
        return await aask()

    def set_back(event):
        if event.type == "StepAttemptFailed":
            clock.back_us = DAY_US

    hf = open_hf(clock=clock, on_event=set_back)
    assert hf.start(act(ask if colour == "def" else aplot)).result(PATIENCE_S) == "yes"


def test_a_retry_in_the_next_process_is_not_put_off(open_hf, act, ran, clock, crashes):
    """The delay that the log has counts, whatever the clock says by then."""

    @step(retry=Retry(attempts=2, initial=0.2, jitter=0))
    def ask() -> str:
        ran.append(1)
        if len(ran) == 1:
            raise ValueError("no")
        return "yes"

    def die(event):
        if event.type == "StepAttemptFailed":
            clock.back_us = DAY_US
            store.left = 0

    first = open_hf(clock=clock, on_event=die)
    store = crashes.arm(first)
    with pytest.raises(StoreError):
        first.with_id("x").run(act(ask))
    crashes.bury(first)
    assert open_hf(clock=clock).with_id("x").start(act(ask)).result(PATIENCE_S) == "yes"


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_time_limit_does_not_grow(open_hf, act, clock, colour):
    """A step that begins after that is cut when the time of the block is over."""
    done = threading.Event()

    @step
    def first() -> None:
        clock.back_us = DAY_US

    @step
    def slow() -> None:
        done.wait(PATIENCE_S)

    @step
    async def aslow() -> None:
        await asyncio.sleep(PATIENCE_S)

    def plot():
        with timeout(0.3):
            first()
            slow()

    async def aplot():
        with timeout(0.3):
            await first.aio()
            await aslow()

    run = open_hf(clock=clock).start(act(plot if colour == "def" else aplot))
    with pytest.raises(StepTimeout, match="slow#1"):
        run.result(PATIENCE_S)
    done.set()


def test_a_time_limit_allows_no_retry_after_it(open_hf, act, ran, clock):
    """Attempts do not continue for the day that the wall clock has won."""

    @step(retry=Retry(attempts=99, initial=0.15, factor=1, jitter=0))
    def ask() -> None:
        ran.append(1)
        clock.back_us = DAY_US
        raise ValueError("no")

    def plot():
        with timeout(0.4):
            ask()

    with pytest.raises(ValueError, match="no"):
        open_hf(clock=clock).start(act(plot)).result(PATIENCE_S)
    assert 1 <= len(ran) <= 3


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_gate_whose_clock_is_set_back_at_its_end_waits_on(open_hf, act, colour):
    """By a second, as its time comes: it is not taken for decided, and it is over a second later."""

    class SetBackOnce(SystemClock):
        back_us = 0

        def now_us(self) -> int:
            return super().now_us() - self.back_us

        def wait(self, until_us: int) -> float:
            left = super().wait(until_us)
            if left <= 0 and not self.back_us:
                self.back_us = 1_000_000
            return left

    async def aplot():
        return (await approval.aio("go", timeout=0.2)).outcome

    hf = open_hf(clock=SetBackOnce())
    run = hf.with_id("x").start(
        act((lambda: approval("go", timeout=0.2).outcome) if colour == "def" else aplot)
    )
    assert run.result(PATIENCE_S) == "unanswered"
    assert len(hf.events("x")) < 12


def test_a_sleep_ends_at_its_time_when_the_clock_is_set_forwards(open_hf, act, clock, monkeypatch):
    """Just when its run is parked: that it is over then, and when it was, is one look at the clock."""
    take_in = Inbox.take_in

    def jump(self, recorded, *, sure):
        clock.back_us = 0 if sure else -DAY_US
        return take_in(self, recorded, sure=sure)

    monkeypatch.setattr(Inbox, "take_in", jump)
    hf = open_hf(clock=clock)
    hf.with_id("x").start(act(lambda: sleep(60))).result(PATIENCE_S)
    began, ended = (event for event in hf.events("x") if event.type in ("SleepStarted", "SleepEnded"))
    assert microseconds(ended.at) >= began.data["until"]
