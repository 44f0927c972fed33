"""Errors of plan files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors.base import BadInput, HoldfastError
from holdfast.ways import Way, quoted


class PlanFaults(BadInput):
    """A plan file cannot run. `faults` has all that is wrong with it, in the order of its lines."""

    code = "plan_faults"

    def __init__(self, plan: str, faults: Sequence[Any]) -> None:
        self.plan = plan
        self.faults = tuple(faults)
        count = f"{len(self.faults)} faults" if len(self.faults) != 1 else "a fault"
        super().__init__(f"{plan} has {count}: {'; '.join(map(str, self.faults[:20]))}")


class BadExpression(BadInput):
    """An expression of a plan that cannot be read, or has no value."""

    code = "bad_expression"


class NotApproved(HoldfastError):
    """An approval of a plan was rejected, or not answered in time. `key` is that of its gate: a rewind to
    it asks again."""

    code = "not_approved"
    exit_code = 1

    def __init__(self, run_id: str, key: str, why: str) -> None:
        self.run_id = run_id
        self.key = key
        self.why = why
        super().__init__(run_id, key, why)

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("rewind", self.run_id, {"to": f"before:{self.key}"}, "asks again"),)

    def __str__(self) -> str:
        return f"{self.why}; {quoted(self.ways[0])} asks again"
