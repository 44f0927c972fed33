"""Budgets as the oracle answers: each time from the whole log, without tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kernel import budget as b
from holdfast.kernel.amounts import ZERO
from holdfast.store.budget_port import BudgetRow, RunSpending

if TYPE_CHECKING:
    import threading

    from holdfast.store.oracle import Stream
    from holdfast.store.port import Recorded


class BudgetFolds:
    """The part of `OracleStore` that answers about budgets."""

    streams: dict[str, Stream]
    _lock: threading.RLock

    if TYPE_CHECKING:

        def _open(self, name: str) -> Stream | None: ...

    def budget(self, name: str) -> BudgetRow | None:
        return next((row for row in self.budgets() if row.name == name), None)

    def budgets(self) -> list[BudgetRow]:
        rows = [
            BudgetRow(stream.name.removeprefix(b.PREFIX), recorded[-1].version, b.fold(recorded))
            for stream, recorded in self._budget_streams()
        ]
        return sorted(row for row in rows if row.state.created_at)

    def budgets_holding(self, run: str) -> list[str]:
        return [row.name for row in self.budgets() if run in {one.run for one in row.state.open.values()}]

    def run_spending(self, run: str) -> list[RunSpending]:
        found = []
        for stream, recorded in self._budget_streams():
            state, spent, unknown, settlements = b.EMPTY, ZERO, 0, 0
            for one in recorded:
                event = one.event
                held = state.open.get(event.id) if isinstance(event, b.BudgetSettled) else None
                if isinstance(event, b.BudgetSettled) and held is not None and held.run == run:
                    spent = spent.plus(event.amounts)
                    unknown += event.unknown
                    settlements += 1
                state = b.evolve(state, one)
            if settlements:
                found.append(RunSpending(stream.name.removeprefix(b.PREFIX), spent, unknown))
        return sorted(found, key=lambda one: one.budget)

    def _budget_streams(self) -> list[tuple[Stream, list[Recorded]]]:
        with self._lock:
            self._open("")
            named = [one for one in self.streams.values() if one.name.startswith(b.PREFIX)]
            return [(stream, stream.recorded()) for stream in named]
