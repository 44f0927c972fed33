"""The clock of a run's own code: what `loop.time()` says to it.

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
        self._began = real()
        self._created_at = created_at
        self._ahead = 0.0
        self._readings = 0
        self.now = self._began

    def read(self) -> float:
        self._readings += 1
        if self._readings > _READINGS:
            self.move()
        return self.now

    def move(self) -> None:
        """An outcome is delivered."""
        self.now = max(self.now, self._real() + self._ahead)
        self._readings = 0

    def move_to(self, when: float) -> None:
        """A timer is delivered, which was set for then."""
        self._ahead = max(self._ahead, when - self._real())
        self.move()

    def replay(self, at: int) -> None:
        """An outcome is delivered that was recorded at this wall time, in microseconds."""
        self.move_to(self._began + (at - self._created_at) / 1e6)
