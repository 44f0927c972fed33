"""Plans: workflows written as data, in YAML or as a Markdown checklist.

from holdfast import Holdfast, plans

plan = plans.read("release.yaml")
with Holdfast() as hf:
    results = hf.run(plans.run_plan, plan, {"version": "1.2"})
"""

from holdfast.errors import PlanFaults
from holdfast.plans.comparison import differences
from holdfast.plans.faults import Fault
from holdfast.plans.interpreter import run_plan
from holdfast.plans.model import Plan, PlanStep
from holdfast.plans.reading import check, read

__all__ = ["Fault", "Plan", "PlanFaults", "PlanStep", "check", "differences", "read", "run_plan"]
