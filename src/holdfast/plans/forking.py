"""A fork with another plan: which results of the old run count in the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import BadInput
from holdfast.operations.forking import Replaced
from holdfast.plans.comparison import unchanged
from holdfast.plans.interpreter import run_plan
from holdfast.plans.reading import read
from holdfast.plans.stored import stored_plan

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState, StepState


def with_plan(engine: Engine, run_id: str, file: Path) -> Callable[[RunState], Replaced]:
    """The arguments of a fork of this run with the plan in the file, and the input that the run had. Raises
    `BadInput` if the run is none of a plan, and `PlanFaults`."""
    stored = stored_plan(engine.store, run_id)
    if stored is None:
        raise BadInput(f"run {run_id} is no run of a plan; only those can be forked with another plan")
    given = dict(stored.inputs.items())
    plan = read(file, given)
    create, blobs = engine.creation(run_plan, (plan, given), {}, None)
    same = unchanged(stored.plan, plan, given)
    handlers = {step.id for step in plan.steps if "failed(" in step.when}

    def keeps(step: StepState) -> bool:
        """Failures and rejections are tried again; so is what was done because of a failure."""
        scope, slash, _ = step.key.partition("/")
        id = scope.partition("[")[0]
        if not slash or id not in same or id in handlers or step.status != "completed":
            return False
        return step.outcome not in ("rejected", "unanswered")

    return lambda _: Replaced(create, blobs, keeps)
