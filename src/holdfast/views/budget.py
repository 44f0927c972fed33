"""A budget as `budget show` shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from holdfast.clock import instant
from holdfast.kernel.amounts import NOTHING, UNITS, ZERO, Amounts
from holdfast.store.budget_port import BudgetRow


class OpenReservation(msgspec.Struct, frozen=True):
    """An open reservation: what an attempt of a step may still use."""

    run_id: str
    step: str
    attempt: int
    amounts: Amounts
    at: datetime

    JSON: ClassVar = {
        "run": "the run that reserved",
        "step": "its step",
        "attempt": "of the step",
        "amounts": "what is reserved",
        "at": "since when",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run_id,
            "step": self.step,
            "attempt": self.attempt,
            "amounts": self.amounts.texts(),
            "at": self.at.isoformat(),
        }


class Budget(msgspec.Struct, frozen=True):
    """Limits, and what is spent and reserved of them, here and in all budgets below.

    parent    the budget that it is a part of; empty if none
    left      what can still be reserved; None where there is no limit
    unknown   settlements in which the price of a model was unknown: the true `spent.usd` is higher
    by        who set it last
    """

    name: str
    parent: str = ""
    limits: Amounts = NOTHING
    spent: Amounts = ZERO
    reserved: Amounts = ZERO
    left: Amounts = NOTHING
    unknown: int = 0
    reservations: tuple[OpenReservation, ...] = ()
    by: str = ""
    updated_at: datetime | None = None

    JSON: ClassVar = {
        "name": "of the budget",
        "parent": "the budget that it is a part of, or null",
        "limits": "an object with `usd`, `tokens`, `seconds` and `steps`; null where there is no limit. "
        "Money and seconds are text, because they are exact",
        "spent": "the same of what is spent",
        "reserved": "the same of what is reserved by steps under way",
        "left": "the same of what can still be reserved; null where there is no limit",
        "unknown": "how often the price of a model was unknown: more than `spent` says is spent then",
        "reservations": "the open ones, the oldest first",
        "by": "who set it last, or null",
        "updated_at": "when it last changed",
    }

    @classmethod
    def of(cls, row: BudgetRow) -> Budget:
        state = row.state
        used = state.spent.plus(state.reserved)
        left = {unit: state.limits.of(unit) for unit in UNITS}
        free = {
            unit: None if limit is None else Amounts(**{unit: limit}).minus(used).of(unit)  # type: ignore[arg-type]
            for unit, limit in left.items()
        }
        held = sorted(state.open.values(), key=lambda one: one.at)
        return cls(
            row.name,
            state.parent,
            state.limits,
            state.spent,
            state.reserved,
            Amounts(**free),  # type: ignore[arg-type]
            state.unknown,
            tuple(
                OpenReservation(one.run, one.step, one.attempt, one.amounts, instant(one.at)) for one in held
            ),
            state.by,
            instant(state.updated_at),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "parent": self.parent or None,
            "limits": self.limits.texts(),
            "spent": self.spent.texts(),
            "reserved": self.reserved.texts(),
            "left": self.left.texts(),
            "unknown": self.unknown,
            "reservations": [one.to_json() for one in self.reservations],
            "by": self.by or None,
            "updated_at": None if self.updated_at is None else self.updated_at.isoformat(),
        }
