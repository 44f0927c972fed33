"""Budgets as the embedded store reads them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import typed_values

if TYPE_CHECKING:
    from holdfast.kernel.budget import BudgetState
    from holdfast.store.budget_port import BudgetRow, RunSpending


class BudgetQueries:
    """The queries of `SqliteStore` for budgets."""

    _read: Callable[..., list[tuple[Any, ...]]]

    def budget(self, name: str) -> BudgetRow | None:
        rows = self._read("budgets", (name,))
        return _budget_row(*rows[0]) if rows else None

    def budgets(self) -> list[BudgetRow]:
        return [_budget_row(*row) for row in self._read("budgets", (None,))]

    def budgets_holding(self, run: str) -> list[str]:
        return [row[0] for row in self._read("budgets_holding", (run,))]

    def run_spending(self, run: str) -> list[RunSpending]:
        from holdfast.kernel.amounts import Amounts
        from holdfast.store.budget_port import RunSpending

        return [
            RunSpending(name, Amounts(Decimal(usd), tokens, Decimal(seconds), steps), unknown)
            for name, usd, tokens, seconds, steps, unknown in self._read("run_spending", (run,))
        ]


def _budget_row(name: str, version: int, *row: Any) -> BudgetRow:
    from holdfast.store.budget_port import BudgetRow

    return BudgetRow(name, version, _state(*row))


def _state(
    is_set: int,
    limits: str,
    parent: str,
    by: str,
    usd: str,
    tokens: int,
    seconds: str,
    steps: int,
    unknown: int,
    created_at: int,
    updated_at: int,
    reservations: str,
) -> BudgetState:
    # Not at the top: commands that look at runs need none.
    from holdfast.kernel.amounts import ZERO, Amounts
    from holdfast.kernel.budget import BudgetState, Reservation

    reserved = ZERO
    held: dict[str, Reservation] = {}
    for one in msgspec.json.decode(reservations):
        held[one.pop("id")] = found = typed_values.convert(one, Reservation)
        reserved = reserved.plus(found.amounts)
    spent = Amounts(Decimal(usd), tokens, Decimal(seconds), steps)
    limit = typed_values.decode(limits, Amounts)
    return BudgetState(
        limit, parent, spent, reserved, held, unknown, bool(is_set), by, created_at, updated_at
    )
