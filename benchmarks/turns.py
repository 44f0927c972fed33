"""holdfast and raw SQLite in turns, some dozens of steps and commits at a time.

The disk of a virtual machine changes its speed twofold from one tenth of a second to the next, because others use it too. Two rates
that are measured one after the other, each for as long, differ by the disk more than by the code. So a
round is cut into slices of some hundredths of a second: raw commits, then steps, then raw commits, and so on, and raw both first and last.
Whatever the disk does meets both; a drift over the round meets both alike, because the middle of all raw slices is the
middle of all others. Each side's rate is its count over its own seconds, and the ratio of a round is one rate over the other.

Neither side is favoured: each has its own database and pays its own checkpoints in its own slices, nothing of either continues during the
other's, and both find the caches as the other left them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from raw import Raw

Turn = Callable[[], None]


def nobody() -> None:
    """The turn of nobody: what is measured continues at once."""


class RawTurns:
    """Raw commits, `commits` at each call; `rate` is that of all calls so far."""

    def __init__(self, raw: Raw, commits: int) -> None:
        self._raw = raw
        self._commits = commits
        self._made = 0
        self._seconds = 0.0

    def __call__(self) -> None:
        self._seconds += self._raw.commit(self._commits)
        self._made += self._commits

    @property
    def rate(self) -> float:
        return self._made / self._seconds


class Clock:
    """The seconds of a block, without those of the others' turns: one before, one after, and one at each `pause` in between."""

    def __init__(self, others: Turn) -> None:
        self._others = others
        self._began = 0.0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._others()
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pause()

    def pause(self) -> None:
        self.seconds += time.perf_counter() - self._began
        self._others()
        self._began = time.perf_counter()


def in_turns(slices: int, seconds: Callable[[], float], others: Turn) -> float:
    """The sum of `slices` calls of `seconds`, with others' turns before, between and after them."""
    total = 0.0
    others()
    for _ in range(slices):
        total += seconds()
        others()
    return total
