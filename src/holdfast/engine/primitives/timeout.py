"""`timeout`: a limit on several steps together that holds across crashes and replays.

    with timeout(60):
        draft = ask(q)
        final = polish(draft)

The moment is recorded at the entry, by the wall clock; however that clock is set back meanwhile, no process
gives it more than the time that it says. A step that is still running then fails with `StepTimeout`, one
that would begin later fails at once, and both are recorded, so replay takes the same way. (The time of a
plain `asyncio.timeout` begins anew when a run is resumed before it has fired.)
"""

from __future__ import annotations

from types import TracebackType

from holdfast.engine.execution.scope import NEVER, Deadline, Scope, current
from holdfast.engine.execution.step_options import Seconds, seconds
from holdfast.engine.primitives.values import now
from holdfast.errors import BadInput


class timeout:  # noqa: N801 - reads as a verb in `with timeout(60):`
    """Serves `with` in both colours: it does no I/O."""

    def __init__(self, duration: Seconds) -> None:
        self._duration = seconds(duration)
        if self._duration <= 0:
            raise BadInput(f"timeout({self._duration:g}): more than 0 seconds")
        self._before = NEVER

    def __enter__(self) -> None:
        scope = current.get()
        if type(scope) is not Scope:
            return
        self._before = scope.deadline
        clock = scope.execution.engine.clock
        at_us = now().timestamp() * 1e6 + self._duration * 1e6
        left_s = min(self._duration, (at_us - clock.now_us()) / 1e6)
        mine = Deadline(at_us, clock.monotonic() + left_s)
        scope.deadline = min(mine, self._before) if self._before else mine

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope = current.get()
        if type(scope) is Scope:
            scope.deadline = self._before
