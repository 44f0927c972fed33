"""The part of the store port that reads outcomes: what routers and choosers of skills learn from."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple, Protocol

BILLIONTH: Final = Decimal(1).scaleb(-9)
"""Costs are kept in billionths of a dollar."""


class OutcomeRow(NamedTuple):
    """How a piece of work ended. `at` is in microseconds, `usd` in billionths of a dollar, -1 if it is not
    known; `error` names the exception that the work raised."""

    at: int
    ok: bool
    usd: int = -1
    error: str = ""


class OutcomeSums(NamedTuple):
    """All outcomes of one candidate for one kind of work. `priced` is how many of them have a cost, `usd`
    the sum of these, `failed` how many raised an exception; those are among `bad`."""

    kind: str
    candidate: str
    good: int
    bad: int
    failed: int
    usd: int
    priced: int
    last_at: int


class LearningStore(Protocol):
    """The queries of a store on outcomes."""

    def outcomes(self, family: str, kind: str, candidate: str, limit: int) -> list[OutcomeRow]:
        """The last outcomes of a candidate for a kind of work, the newest first. The cost does not grow with
        the number of outcomes in the store. Outcomes of runs that are archived or deleted are not among
        them, nor the copies that a fork has of another run's."""
        ...

    def outcome_sums(self, family: str, kind: str | None = None) -> list[OutcomeSums]:
        """The sums over all outcomes, by kind and candidate, of one kind if it is named."""
        ...
