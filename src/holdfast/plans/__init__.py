"""Plans: workflows written as data, in YAML or as a Markdown checklist.

from holdfast import Holdfast, plans

plan = plans.read("release.yaml")
with Holdfast() as hf:
    results = hf.run(plans.run_plan, plan, {"version": "1.2"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.errors import PlanFaults
    from holdfast.plans.comparison import differences
    from holdfast.plans.faults import Fault
    from holdfast.plans.interpreter import run_plan
    from holdfast.plans.model import Plan, PlanStep
    from holdfast.plans.plan_writing import write_plan
    from holdfast.plans.reading import check, read

_HOMES = {
    "Fault": "holdfast.plans.faults",
    "Plan": "holdfast.plans.model",
    "PlanFaults": "holdfast.errors",
    "PlanStep": "holdfast.plans.model",
    "check": "holdfast.plans.reading",
    "differences": "holdfast.plans.comparison",
    "read": "holdfast.plans.reading",
    "run_plan": "holdfast.plans.interpreter",
    "write_plan": "holdfast.plans.plan_writing",
}

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
    """Each name is loaded when it is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
