"""Measures of the attempts of a step, on their way into the log.

They are written with the outcome of the attempt, in the same commit. Measures of a running attempt that are
half a second old are written by the flusher as an event of their own, without waiting for the disk, so that
the log has them if the process is killed. The same event is written when a run stops in the middle of a body.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.kernel import commands as c
from holdfast.kernel.measures import Measured, added

if TYPE_CHECKING:
    from holdfast.engine.execution.call import Call

_AGE_S = 0.5
"""A measure that has waited this long is written."""


class Meter:
    """The measures of one call of a step. Thread-safe."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._clock = call.execution.engine.clock
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[Measured, ...]] = {}
        """Attempt → what it has used and the log does not have."""
        self._used: dict[int, tuple[Measured, ...]] = {}
        """Attempt → all that it has used."""
        self._since = 0.0

    def add(self, attempt: int, measured: Measured) -> None:
        with self._lock:
            if not self._waiting:
                self._since = self._clock.monotonic()
            self._waiting[attempt] = added(self._waiting.get(attempt, ()), (measured,))
            self._used[attempt] = (*self._used.get(attempt, ()), measured)

    def used(self, attempt: int) -> Sequence[Measured]:
        """All that the attempt has measured, each as it came: the log may have some of it already."""
        with self._lock:
            return self._used.get(attempt, ())

    def take(self) -> Sequence[c.MeasureStep]:
        """The measures that the caller must record now. The log must have the attempt before it."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return [c.MeasureStep(self._call.key, attempt, sums) for attempt, sums in waiting.items()]

    def tick(self) -> None:
        """Write the measures if they have waited for half a second."""
        if self._waiting and self._clock.monotonic() - self._since >= _AGE_S:
            try:
                self.flush()
            except Exception as error:  # a failed write for one run must not affect the others
                self._call.execution.lose(error)

    def flush(self) -> None:
        """Write the measures as an event of their own, without waiting for the disk."""
        run = self._call.execution
        with run.taking:
            if not run.state.owner:
                return
            commands = self.take()
            if not commands:
                return
            before = self._call.take()
            entry = run.append_of(commands, before=before, durable=False)
            run.engine.store.append_soon(entry, run.engine.flusher.outcome_for(run))
