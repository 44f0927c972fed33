"""The budget of a plan's run: its steps count there, and its limits are those of the plan's `budget`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.budget import budget
from holdfast.kernel.amounts import Amounts
from holdfast.kernel.budget import DEFAULT
from holdfast.plans.keys import WHOLE
from holdfast.plans.model import Plan


def plan_budget(plan: Plan) -> AbstractContextManager[None]:
    """The budget `run:ID` of the run that executes the plan, if the plan has limits; `plan:ID` if the run was
    started with limits of its own, so that both count. It is a part of the budget that the run was started
    with. It is set when a step first asks to reserve in it, so that limits
    which a person has raised since stay raised."""
    scope = current.get()
    if not plan.budget or type(scope) is not Scope:
        return nullcontext()
    run = scope.execution
    above, name = run.state.budget or DEFAULT, f"run:{run.id}"
    return budget(f"plan:{run.id}" if above == name else name, limits=limits_of(plan.budget), parent=above)


def limits_of(given: Mapping[str, float]) -> Amounts:
    """The limits that a plan file gives; recorded plans have all numbers as floats."""
    whole = {unit: int(amount) for unit, amount in given.items() if unit in WHOLE}
    exact = {unit: repr(amount) for unit, amount in given.items() if unit not in WHOLE}
    return Amounts(**exact, **whole)  # type: ignore[arg-type]


def is_paid() -> bool:
    """Whether the scope, or the run, has a budget of its own: then each step of a plan counts there."""
    scope = current.get()
    return type(scope) is Scope and bool(scope.budget or scope.execution.state.budget)
