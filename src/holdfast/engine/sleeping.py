"""`sleep`: a pause that a crash does not lengthen.

When it ends is recorded before it begins; a run that is resumed after that moment goes on at once.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from holdfast.engine import drive
from holdfast.engine.execution import Execution
from holdfast.engine.policy import Seconds, seconds
from holdfast.engine.scope import Scope, current, on_this_thread
from holdfast.errors import BadInput, WrongColour
from holdfast.kernel import commands as c
from holdfast.kernel.state import StepState


class Sleep:
    """Call it in a `def` workflow; in an async one, `await sleep.aio(...)`."""

    def __call__(self, duration: Seconds) -> None:
        """Wait `duration` (seconds or a timedelta)."""
        scope = self._scope()
        if scope is None:
            import time

            time.sleep(_checked(duration))
            return
        if scope.execution.is_async:
            raise WrongColour("sleep() would block this async workflow: write `await sleep.aio(...)`")
        run = scope.execution
        key, ordinal, past = _recall(scope)
        if past is None:
            entry = run.entry([_start(run, key, ordinal, duration)])
            try:
                run.engine.store.append(entry)
            except Exception as error:
                raise run.lose(error) from None
            run.engine.tell(entry)
        elif past.status == "completed":
            return
        drive.pause(run, run.state.steps[key].due_at)
        run.note(c.EndSleep(key))

    def aio(self, duration: Seconds) -> Coroutine[Any, Any, None]:
        """The same for async workflows."""
        scope = self._scope()
        if scope is None:
            import asyncio

            return asyncio.sleep(_checked(duration))
        return _sleep_async(scope, duration, *_recall(scope))

    @staticmethod
    def _scope() -> Scope | None:
        scope = current.get()
        if type(scope) is not Scope:
            return None
        if not on_this_thread(scope):
            raise WrongColour("sleep() was called on another thread than the one of its scope")
        return scope


async def _sleep_async(
    scope: Scope, duration: Seconds, key: str, ordinal: int, past: StepState | None
) -> None:
    from holdfast.engine import aio

    run = scope.execution
    if past is None:
        cancelled = await aio.commit(run, run.entry([_start(run, key, ordinal, duration)]))
        if cancelled is not None:
            raise cancelled
    elif past.status == "completed":
        return
    await aio.pause(run, run.state.steps[key].due_at)
    run.note(c.EndSleep(key))


def _recall(scope: Scope) -> tuple[str, int, StepState | None]:
    key = scope.counters.key("sleep")
    ordinal = scope.counters.ordinal
    return key, ordinal, scope.execution.recall(key, "sleep", ordinal, "")


def _start(run: Execution, key: str, ordinal: int, duration: Seconds) -> c.StartSleep:
    return c.StartSleep(key, ordinal, run.engine.clock.now_us() + int(_checked(duration) * 1e6))


def _checked(duration: Seconds) -> float:
    wait = seconds(duration)
    if not 0 <= wait < 1e10:
        raise BadInput(f"sleep({wait:g}): a duration is not negative and ends within this millennium")
    return wait


sleep = Sleep()
