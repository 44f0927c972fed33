"""The part of the store port that reads budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from holdfast.kernel.amounts import Amounts
    from holdfast.kernel.budget import BudgetState


class BudgetRow(NamedTuple):
    """A budget; `version` is that of its stream."""

    name: str
    version: int
    state: BudgetState


class RunSpending(NamedTuple):
    """The amounts that a run has spent in a budget; `unknown` is how often money was unknown."""

    budget: str
    spent: Amounts
    unknown: int


class BudgetStore(Protocol):
    """The queries of a store on budgets; every answer is of one moment."""

    def budget(self, name: str) -> BudgetRow | None:
        """A budget that was set, or that something was reserved in."""
        ...

    def budgets(self) -> list[BudgetRow]:
        """All of them, by name."""
        ...

    def budgets_holding(self, run: str) -> list[str]:
        """The names of the budgets in which the run has open reservations."""
        ...

    def run_spending(self, run: str) -> list[RunSpending]:
        """The amounts that a run has spent, by the name of the budget."""
        ...
