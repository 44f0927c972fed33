"""The governor: no step that costs begins before its budget and all parents of that have room for it.

A reservation is named after the attempt (run, generation, step, attempt). If a process dies between the
reservation and the intent, nothing was begun, and the resumed attempt reserves anew. If it dies later,
the attempt was begun, and its reservation is charged in full: by the run's next reservation, by
`cancel`, or by another run that needs what it holds.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from holdfast.agents.governor.budgets import Budgets, asked_amounts
from holdfast.engine.outside.unknown_run import gone
from holdfast.engine.ownership.owners import is_alive
from holdfast.errors import BudgetReached
from holdfast.kernel.amounts import Amounts
from holdfast.kernel.budget import BudgetReserved, Reservation, used
from holdfast.kernel.events import StepMeasured, StepStarted

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.call import Call
    from holdfast.engine.execution.execution import Execution
    from holdfast.engine.execution.reserving import Paying
    from holdfast.kernel.measures import Measured
    from holdfast.settings import Settings
    from holdfast.store.port import Companion


class Reserved(NamedTuple):
    """A reservation of an attempt that is under way, and the budgets that it is open in."""

    id: str
    epoch: int
    budgets: tuple[str, ...]
    limited: bool
    """Whether one of them has a limit of money or tokens."""


class Governor:
    """The governor of an engine, as `engine.execution.reserving.Governor` describes it. Thread-safe."""

    def __init__(self, engine: Engine, settings: Settings) -> None:  # noqa: ARG002 - as every handler is made
        self._engine = engine
        self._budgets = Budgets(engine.store, engine.clock)
        self._seen: weakref.WeakSet[Execution] = weakref.WeakSet()
        """Executions whose run has no open reservations of earlier ones."""
        self._lock = threading.Lock()

    def reserve(self, call: Call, amounts: Amounts, paying: Paying) -> Reserved:
        """Raises `BudgetReached` if the budget that pays, or a parent of it, has not enough left. A budget
        that is made for the run is there by then, so that it can be raised."""
        run = call.execution
        generation = run.state.generation
        past = run.state.steps.get(call.key)
        attempt = 1 if past is None else past.attempt + 1
        asked = BudgetReserved(
            f"{run.id}:{generation}:{call.key}:{attempt}", run.id, call.key, attempt, asked_amounts(amounts),
            generation, self._engine.owner_id, run.epoch,
        )  # fmt: skip
        with self._lock:
            if run not in self._seen:
                self._end_earlier(run)
                self._seen.add(run)
        try:
            budgets = self._budgets.reserve(asked, paying)
        except BudgetReached:
            self.open(paying)
            if not self._end_cut_off(self._budgets.names_of(paying)):
                raise
            budgets = self._budgets.reserve(asked, paying)
        return Reserved(asked.id, asked.epoch, budgets, self._budgets.have_limit(budgets, "usd", "tokens"))

    def open(self, paying: Paying) -> None:
        """Set a budget that is made for a run, unless it is set; any other is left as it is."""
        if paying.limits is not None:
            self._budgets.open(paying)

    def settle(
        self, held: Reserved, measured: Sequence[Measured], seconds: Decimal, *, begun: bool, cut_off: bool
    ) -> Sequence[Companion]:
        """Charge what was measured. What was not is charged as reserved, also to an attempt that failed: its
        request may have been billed, and only the body could know. One that was cut off is charged as
        reserved, or more."""
        if not begun:
            return self._budgets.releasing(held.budgets, held.id, held.epoch)
        amounts, unknown = used(measured, seconds)
        return self._budgets.settlement(
            held.budgets, held.id, held.epoch, amounts, unknown=unknown, cut_off=cut_off
        )

    def end(self, run_id: str) -> None:
        """End what a run and its child runs left open, as far as no process works on it any more: no attempt
        of a cancelled run follows that would."""
        store = self._engine.store
        for id, one in self._budgets.open_in(store.budgets_holding(run_id)):
            if one.run == run_id and self._is_cut_off(one):
                self._end(id, one)
        for child in store.runs(parent=run_id):
            self.end(child.id)

    def _end_earlier(self, run: Execution) -> None:
        """End what earlier executions of the run left open. That of an attempt which was never begun is
        released and reserved anew: another budget may pay by now."""
        if run.epoch <= 1:
            return
        for id, one in self._budgets.open_in(self._engine.store.budgets_holding(run.id)):
            if one.run == run.id and one.epoch < run.epoch:
                self._end(id, one)

    def _end_cut_off(self, names: Sequence[str]) -> bool:
        """End the reservations in these budgets that no process works on any more. Whether there were any."""
        found = [(id, one) for id, one in self._budgets.open_in(names) if self._is_cut_off(one)]
        for id, one in found:
            self._end(id, one)
        return bool(found)

    def _is_cut_off(self, one: Reservation) -> bool:
        """Whether the execution that reserved is over. That never changes: epochs only rise, and a dead owner
        does not come back."""
        if not is_alive(self._engine.home, one.owner):
            return True
        row = self._engine.store.run(one.run)
        if row is None:  # it is gone, or not yet written: a run is with its first append
            return gone(self._engine.store, one.run) is not None
        return (row.owner, row.epoch) != (one.owner, one.epoch)

    def _end(self, id: str, one: Reservation) -> None:
        """Charge it in full if its attempt was begun, or if that cannot be known any more; and more if the
        log has more of it."""
        store = self._engine.store
        of_it = [
            event
            for event, *_ in store.history(one.run)
            if isinstance(event, StepStarted | StepMeasured)
            and (event.key, event.attempt, event.generation) == (one.step, one.attempt, one.generation)
        ]
        if not of_it and gone(store, one.run) is None:
            self._budgets.end(id, one.epoch, one.run, None)
            return
        measures = [item for event in of_it if isinstance(event, StepMeasured) for item in event.measures]
        known, unknown = used(measures, Decimal(0))
        charged = Amounts(usd=known.usd, tokens=known.tokens)  # it was cut off: how long it took is not known
        self._budgets.end(id, one.epoch, one.run, (charged, unknown))
