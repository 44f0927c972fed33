"""The clock of a run's own code, which `loop.time()` returns there.

It shows the time by the log: since the run began, until the outcome was recorded that the code received last.
So a replay reads what the live code read, and code that decides by the clock, such as a rate limiter, takes
the same path. The clock stands still between two deliveries and never goes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_READINGS = 1000
"""Code that does nothing but look at the clock sees it move after so many readings."""
_GRID = 1 << 20
"""Readings are whole parts of a second, so many: their differences are exact, although the clock begins at
another time in every process."""


class CodeClock:
    def __init__(self, real: Callable[[], float], began_at: int) -> None:
        """`began_at` is when the run began, in microseconds of wall time."""
        self._real = real
        self._began_at = began_at
        self._began = self._now = math.floor(real() * _GRID) / _GRID
        self._readings = 0
        self._ahead = 0.0

    def read(self) -> float:
        self._readings += 1
        if self._readings > _READINGS:
            self._spin()
        return self._now

    def reach(self, at: int) -> None:
        """An outcome is delivered that was recorded at this wall time, in microseconds."""
        self._pass((at - self._began_at) / 1e6)

    def move_to(self, when: float) -> None:
        """A timer is delivered, which was set for then."""
        self._pass(when - self._began)

    def _pass(self, elapsed_s: float) -> None:
        self._readings = 0
        now = self._began + math.ceil(elapsed_s * _GRID) / _GRID
        if now > self._now:
            self._now = now

    def _spin(self) -> None:
        """Move with the real clock from here on."""
        real = self._real()
        if self._readings == _READINGS + 1:
            self._ahead = self._now - real
        self._now = max(self._now, real + self._ahead)
