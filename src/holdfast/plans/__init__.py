"""Plans: workflows written as data, in YAML or as a Markdown checklist.

from holdfast import Holdfast, plans

plan = plans.read("release.yaml")
with Holdfast() as hf:
    results = hf.run(plans.run_plan, plan, {"version": "1.2"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import PlanFaults
from holdfast.plans.comparison import differences
from holdfast.plans.faults import Fault
from holdfast.plans.interpreter import run_plan
from holdfast.plans.model import Plan, PlanStep
from holdfast.plans.reading import check, read

if TYPE_CHECKING:
    from holdfast.plans.plan_writing import write_plan as write_plan

__all__ = [
    "Fault",
    "Plan",
    "PlanFaults",
    "PlanStep",
    "check",
    "differences",
    "read",
    "run_plan",
    "write_plan",
]


def __getattr__(name: str) -> Any:
    """`write_plan` is imported when it is used: it needs agents."""
    if name != "write_plan":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.plans.plan_writing import write_plan

    return write_plan
