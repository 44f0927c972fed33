"""One line of a table: a figure, what it is to reach, and whether it does."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

HEAD = "| what | measured | reach | aim | spread | |\n|---|---|---|---|---|---|"


class Spread(msgspec.Struct, frozen=True):
    """The median of all rounds, the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


class Row(msgspec.Struct, frozen=True):
    """A figure in its `unit`; `beside` says what it comes from. Without `reach` it is told and not judged."""

    what: str
    found: Spread
    unit: str
    reach: float | None = None
    aim: float | None = None
    at_most: bool = False
    beside: str = ""

    @property
    def met(self) -> bool:
        if self.reach is None:
            return True
        return self.found.median <= self.reach if self.at_most else self.found.median >= self.reach

    @property
    def value(self) -> str:
        return f"{number(self.found.median)} {self.unit}"

    @property
    def measured(self) -> str:
        return f"{self.value} ({self.beside})" if self.beside else self.value

    @property
    def goal(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.reach:,g} {self.unit}" if self.reach is not None else ""

    def markdown(self) -> str:
        aim = f"{self.aim:g}" if self.aim is not None else ""
        spread = f"{number(self.found.low)} to {number(self.found.high)}"
        verdict = "" if self.reach is None else "✓" if self.met else "missed"
        return f"| {self.what} | {self.measured} | {self.goal} | {aim} | {spread} | {verdict} |"


def number(value: float) -> str:
    """Three digits that count, and thousands apart."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
