"""The learner behind router and skills: which candidate to try next, from how earlier work with each ended.

Pure: the caller reads the outcomes and gives the randomness.

For each candidate the success rate is drawn from its posterior, Beta(1 + good, 1 + bad), and the cost of
one try from a log-normal distribution around the mean cost, which narrows with the number of costs that are
known. A candidate is worth

    value = p / (cost + (1 - p) * failure)

successes per dollar: `p` and `cost` are the draws, `failure` is what a failure costs beside the try itself
(a person's time, another round). Its reciprocal is the expected price of one success when the work is
repeated until it succeeds. The candidates are ranked by their values. This is Thompson sampling: a
candidate that little is known of gets its share of the tries, and a worse one is tried ever less often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, Protocol

WINDOW: Final = 400
"""Only the last outcomes of a candidate count: what was learned about a model that has changed is forgotten,
and a choice costs the same after a million outcomes."""
_SPREAD: Final = 0.5
"""Assumed relative spread of the cost of one try. It keeps a candidate from being given up because its first
try was expensive."""
_LONGEST_REST: Final = 6
"""How often the rest is doubled at most."""


class Ended(Protocol):
    """One outcome, as the store has it."""

    @property
    def at(self) -> int: ...
    @property
    def ok(self) -> bool: ...
    @property
    def usd(self) -> int: ...
    @property
    def error(self) -> str: ...


class Record(NamedTuple):
    """The last outcomes of one candidate, summed. `usd` is the sum of the `priced` ones, in dollars.
    `in_a_row` is how many of the newest ended with an exception, one after the other, the last of them at
    `failed_at` (microseconds)."""

    good: int = 0
    bad: int = 0
    usd: float = 0.0
    priced: int = 0
    in_a_row: int = 0
    failed_at: int = 0


class Rest(NamedTuple):
    """When a candidate that fails is left alone: after so many exceptions in a row, for so long. Each
    further one doubles the time."""

    after: int = 3
    seconds: float = 60.0

    def until(self, record: Record) -> int:
        """When the candidate may be tried again, in microseconds; 0 if it does not rest."""
        beyond = record.in_a_row - self.after
        if beyond < 0:
            return 0
        return record.failed_at + round(self.seconds * float(1 << min(beyond, _LONGEST_REST)) * 1e6)


def summed(outcomes: Sequence[Ended]) -> Record:
    """The record of these outcomes, the newest first."""
    good = sum(one.ok for one in outcomes)
    costs = [one.usd for one in outcomes if one.usd >= 0]
    in_a_row = next((n for n, one in enumerate(outcomes) if not one.error), len(outcomes))
    failed_at = outcomes[0].at if in_a_row else 0
    return Record(good, len(outcomes) - good, sum(costs) / 1e9, len(costs), in_a_row, failed_at)


def rank(
    records: Mapping[str, Record], random: Random, now: int, failure_usd: float, rest: Rest | None = None
) -> list[str]:
    """The candidates, the one to try first first. Those that rest come last, the one that may be tried
    first in front."""
    rest = rest or Rest()
    means = [record.usd / record.priced for record in records.values() if record.priced]
    typical = sum(means) / len(means) if means else 0.0
    worth = {name: value(record, random, typical, failure_usd) for name, record in records.items()}
    resting = {name: until for name in records if (until := rest.until(records[name])) > now}
    awake = sorted((name for name in records if name not in resting), key=worth.__getitem__, reverse=True)
    return [*awake, *sorted(resting, key=lambda name: (resting[name], -worth[name]))]


def value(record: Record, random: Random, typical_usd: float, failure_usd: float) -> float:
    """One draw of what the candidate is worth; `typical_usd` stands in for costs that are not known."""
    p = random.betavariate(1 + record.good, 1 + record.bad)
    known = record.priced + 1
    cost = (record.usd + typical_usd) / known * math.exp(_SPREAD / math.sqrt(known) * random.gauss())
    return p / max(cost + (1 - p) * failure_usd, 1e-12)


def expected_value(record: Record, failure_usd: float) -> float:
    """The value of a candidate by its means, for display: successes per dollar."""
    p = (1 + record.good) / (2 + record.good + record.bad)
    cost = record.usd / record.priced if record.priced else 0.0
    return p / max(cost + (1 - p) * failure_usd, 1e-12)
