"""`@step(timeout=)`: a limit on one attempt."""

import asyncio
import threading

import pytest

from holdfast import InDoubt, Retry, step
from holdfast.errors import StepTimeout
from holdfast.testing import FakeClock


def test_a_step_in_time_is_not_disturbed(hf, act):
    """The result of a body that ends before its limit is the step's, in both colours."""

    @step(timeout=30)
    def ask() -> int:
        return 1

    @step(timeout=30)
    async def aask() -> int:
        return 2

    async def plot():
        return await aask()

    assert hf.run(act(lambda: ask())) == 1
    assert hf.run(act(plot)) == 2


def test_a_sync_attempt_that_takes_too_long_fails(hf, act):
    """`StepTimeout` is the step's recorded failure, and names step and limit."""
    done = threading.Event()

    @step(timeout=0.02)
    def ask() -> None:
        done.wait(30)

    with pytest.raises(StepTimeout) as caught:
        hf.with_id("x").run(act(lambda: ask()))
    done.set()
    assert (caught.value.step, caught.value.seconds) == ("ask#1", 0.02)
    assert [(info.key, info.status) for info in hf.steps("x")] == [("ask#1", "failed")]


def test_the_next_sync_attempt_waits_for_the_overdue_one(open_hf, act, ran):
    """A thread cannot be killed: two attempts of one step never run at the same time."""
    overdue = threading.Event()
    failed_once = threading.Event()
    hf = open_hf(
        clock=FakeClock(),
        on_event=lambda event: failed_once.set() if event.type == "StepAttemptFailed" else None,
    )

    @step(timeout=0.02, retry=Retry(attempts=2, initial=0))
    def ask() -> int:
        ran.append("begin")
        if len(ran) == 1:
            overdue.wait(30)
        ran.append("end")
        return len(ran)

    run = hf.start(act(lambda: ask()))
    assert failed_once.wait(30)
    assert ran == ["begin"]
    overdue.set()
    assert run.result(30) == 4
    assert ran == ["begin", "end", "begin", "end"]


def test_an_async_attempt_is_cancelled(hf, act, ran):
    """A coroutine that takes too long is cancelled before the next attempt begins."""

    @step(timeout=0.02, retry=Retry(attempts=2, initial=0))
    async def ask() -> str:
        ran.append("begin")
        if len(ran) > 1:
            return "second"
        try:
            await asyncio.sleep(30)
        finally:
            ran.append("cancelled")
        return "never"

    async def plot():
        return await ask()

    assert hf.run(act(plot)) == "second"
    assert ran == ["begin", "cancelled", "begin"]


def test_a_timeout_error_of_the_body_is_its_own(hf, act):
    """A `TimeoutError` that the body raises is not taken for ours."""

    @step(timeout=30)
    async def ask() -> None:
        raise TimeoutError("mine")

    async def plot():
        await ask()

    with pytest.raises(TimeoutError, match="mine") as caught:
        hf.run(act(plot))
    assert type(caught.value) is TimeoutError


def test_a_once_step_that_takes_too_long_is_in_doubt(hf, act):
    """Nobody knows whether it happened: the run stops and says so; nothing is tried again."""
    done = threading.Event()

    @step(effect="once", timeout=0.02)
    def pay() -> None:
        done.wait(30)

    @step(effect="once", timeout=0.02)
    async def apay() -> None:
        await asyncio.sleep(30)

    async def plot():
        await apay()

    with pytest.raises(InDoubt, match="pay#1 took too long"):
        hf.with_id("x").run(act(lambda: pay()))
    done.set()
    with pytest.raises(InDoubt, match="apay#1 took too long"):
        hf.with_id("y").run(act(plot))
    assert [(hf.get(run).status, hf.steps(run)[0].status) for run in "xy"] == [
        ("needs_attention", "in_doubt")
    ] * 2
