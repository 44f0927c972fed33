"""The clock of a run's own code, which `loop.time()` returns there.

It stands still between two deliveries. What the code does there must not depend on how fast the machine is,
and `asyncio.timeout` compares two readings. It never goes back: a timer that is delivered from the history
has passed, and so has the time that the recorded outcomes took. After the replay it runs with the real
clock, ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable

_READINGS = 1000
"""Code that does nothing but look at the clock sees it move after so many readings."""


class CodeClock:
    def __init__(self, real: Callable[[], float], created_at: int) -> None:
        self._real = real
        self._now = self._began = real()
        self._created_at = self._recorded_at = created_at
        self._passed = self._ahead = 0.0
        self._readings = 0
        self._stands = True

    def read(self) -> float:
        self._readings += 1
        if not self._stands or self._readings > _READINGS:
            self._set()
        return self._now

    def move(self) -> None:
        """An outcome is delivered: the next reading is a new one."""
        self._stands = False

    def move_to(self, when: float) -> None:
        """A timer is delivered, which was set for then."""
        self._passed = max(self._passed, when)
        self._stands = False

    def replay(self, at: int) -> None:
        """An outcome is delivered that was recorded at this wall time, in microseconds."""
        if at > self._recorded_at:
            self._recorded_at = at
        self._stands = False

    def _set(self) -> None:
        recorded = self._began + (self._recorded_at - self._created_at) / 1e6
        real = self._real()
        self._ahead = max(self._ahead, self._passed - real, recorded - real)
        self._now = max(self._now, real + self._ahead)
        self._readings, self._stands = 0, True
