"""`sleep`: a pause that a crash does not lengthen.

When it ends is recorded before it begins; a run that is resumed after that moment continues at once. A run
in which nothing else happens is parked meanwhile: it holds no thread.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from holdfast.engine.execution import thread_driver
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.parking import IN_PLACE_S, Wait
from holdfast.engine.execution.scope import Scope, refuse_in_async, scope_of_caller
from holdfast.engine.execution.step_options import Seconds, seconds
from holdfast.errors import BadInput, StepTimeout
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.state import StepState


class Sleep:
    """Call it in a `def` workflow; in an async one, `await sleep.aio(...)`."""

    def __call__(self, duration: Seconds) -> None:
        """Wait `duration` (seconds or a timedelta)."""
        scope = scope_of_caller("sleep()")
        if scope is None:
            import time

            time.sleep(_checked(duration))
            return
        refuse_in_async(scope.execution, "sleep")
        run = scope.execution
        key, ordinal, past = _recall(scope)
        if past is not None:
            run.refuse_given_up(key)
        if past is not None and past.status == "completed":
            thread_driver.replayed(run, key)
        else:
            thread_driver.barrier(run, key, "sleep")
            _sleep_here(run, duration, scope.deadline, key, ordinal, past)
        _check(run.state.steps[key], scope.deadline)

    def aio(self, duration: Seconds) -> Coroutine[Any, Any, None]:
        """The same for async workflows."""
        scope = scope_of_caller("sleep()")
        if scope is None:
            import asyncio

            return asyncio.sleep(_checked(duration))
        from holdfast.engine.execution.task_driver import abandonable

        run = scope.execution
        key, ordinal, past = _recall(scope)
        wait = partial(_sleep_async, run, duration, scope.deadline, key, ordinal, past)
        return run.unawaited.expect("sleep.aio()", "", abandonable(run, key, wait))


def _sleep_here(
    run: Execution, duration: Seconds, deadline: float, key: str, ordinal: int, past: StepState | None
) -> None:
    assert run.threads_delivery is not None
    with run.threads_delivery.aside() as turn:
        if past is None:
            thread_driver.commit(run, run.append_of([_start(run, key, ordinal, duration, deadline)]))
        until = _end(run.state.steps[key], deadline)
        if run.engine.clock.wait(until) <= IN_PLACE_S:
            thread_driver.pause(run, until)
        else:
            run.waiting.wait(Wait(until, _never))
        run.note(c.Record(e.SleepEnded(key)), turn)


async def _sleep_async(
    run: Execution, duration: Seconds, deadline: float, key: str, ordinal: int, past: StepState | None
) -> None:
    from holdfast.engine.execution import task_driver

    delivery = run.tasks_delivery
    assert delivery is not None
    if past is not None and past.status == "abandoned":
        await run.give_up_again(key)
    if past is not None and past.status == "completed":
        cancelled = await delivery.replayed(key)
    else:
        cancelled = await delivery.barrier(key) if delivery.guarded else None
        if past is None:
            start = run.append_of([_start(run, key, ordinal, duration, deadline)])
            cancelled = await task_driver.commit(run, start) or cancelled
        if cancelled is None:
            await _until_awake(run, run.state.steps[key], deadline)
            cancelled = await delivery.noted(c.Record(e.SleepEnded(key)), key)
    if cancelled is not None:
        raise cancelled
    _check(run.state.steps[key], deadline)


async def _until_awake(run: Execution, sleeping: StepState, deadline: float) -> None:
    from holdfast.engine.execution import task_driver

    until = _end(sleeping, deadline)
    if run.engine.clock.wait(until) <= IN_PLACE_S:
        await task_driver.pause(run, until)
    else:
        await run.waiting.wait_async(Wait(until, _never))


def _never() -> bool:
    return False


def _end(sleeping: StepState, deadline: float) -> int:
    """When to wake up: at its end, or at the deadline of the block that it is in."""
    return min(sleeping.due_at, int(deadline)) if deadline else sleeping.due_at


def _check(sleeping: StepState, deadline: float) -> None:
    """A sleep that reaches beyond the deadline fails there. Both moments are recorded, so it does in
    every replay."""
    if deadline and sleeping.due_at > deadline:
        raise StepTimeout(sleeping.key, 0, "deadline")


def _recall(scope: Scope) -> tuple[str, int, StepState | None]:
    key = scope.counters.key("sleep")
    ordinal = scope.counters.ordinal
    return key, ordinal, scope.execution.recall(key, "sleep", ordinal, "", "sleep")


def _start(run: Execution, key: str, ordinal: int, duration: Seconds, deadline: float) -> c.Record:
    """A sleep that reaches beyond the deadline is over just behind it, in whichever process."""
    until = run.engine.clock.now_us() + int(_checked(duration) * 1e6)
    return c.Record(e.SleepStarted(key, ordinal, min(until, int(deadline) + 1) if deadline else until))


def _checked(duration: Seconds) -> float:
    wait = seconds(duration)
    if not 0 <= wait < 1e10:
        raise BadInput(f"sleep({wait:g}): a duration is not negative and ends within this millennium")
    return wait


sleep = Sleep()
