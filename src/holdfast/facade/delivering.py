"""The delivering side of `Holdfast`: a coding goal becomes a run with stages and approvals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadInput
from holdfast.facade.executing import Executing
from holdfast.facade.opened import blocking, texts

if TYPE_CHECKING:
    from holdfast.agents.deliver_options import DeliverOptions
    from holdfast.agents.policies import Policy
    from holdfast.engine.runs.run import Run

_NAME_CHARS = 120


class Delivering(Executing):
    """Methods that deliver goals."""

    @blocking
    def deliver(
        self,
        goal: str,
        *,
        run_id: str | None = None,
        task: str | None = None,
        agent: str = "",
        planner: str = "",
        developer: str = "",
        reviewer: str = "",
        verifier: str = "",
        checks: Sequence[str] = (),
        rounds: int | None = None,
        retries: int | None = None,
        policies: Sequence[Policy] = (),
        yes: bool = False,
        plan: str | os.PathLike[str] | None = None,
        budget: str = "",
        max_usd: Decimal | None = None,
    ) -> Run[dict[str, Any]]:
        """Start a run that plans, implements, reviews and verifies a goal, with an approval of the plan and
        one of the difference; durable when this returns. An id that exists resumes that run.

        task      claimed for the run; without one, a task is made of the goal
        agent     the agent of the planner, the developer and the reviewer, where no other is named
        planner, developer, reviewer  the agent of each role; without one, that of the settings
        verifier  an agent that judges after the checks have passed; none without one
        checks    command lines that must succeed; without one, those of the settings, else the command that
                  the project's files show
        rounds    so often a rejected plan, and a rejected implementation, is made again (default: 5)
        retries   so often objections and failed checks go back to the developer (default: 3)
        policies  decisions made beforehand, beside those of the settings; `yes` approves both gates
        plan      a plan file that replaces the stages; its input `goal` is the goal
        budget, max_usd  what the agents may cost

        Raises `BadInput`, `AgentNotFound`, `TaskHeld`, `RunExists`.
        """
        if not goal.strip():
            raise BadInput("the goal is empty: describe in a sentence what is to be done")
        from holdfast.agents.deliver import deliver
        from holdfast.agents.deliver_options import DeliverOptions
        from holdfast.agents.policies import YES

        options = DeliverOptions(
            planner=planner or agent,
            developer=developer or agent,
            reviewer=reviewer or agent,
            verifier=verifier,
            checks=texts(checks, "checks="),
            rounds=5 if rounds is None else rounds,
            retries=3 if retries is None else retries,
            policies=(*((YES,) if yes else ()), *policies),
            budget=budget,
            max_usd=max_usd,
        ).check()
        is_new = run_id is None or self._reader.run(run_id) is None
        if plan is not None:
            return self._deliver_by_plan(plan, goal, options, run_id, task, is_new=is_new)
        if is_new:
            self._find_agents(options)
            task = task or self._make_task(goal)
        run_id = self._claimed_for(run_id, task)
        return self._to_write().start(deliver, (goal, options), {}, run_id, task=task or "")

    def _deliver_by_plan(
        self,
        file: str | os.PathLike[str],
        goal: str,
        options: DeliverOptions,
        run_id: str | None,
        task: str | None,
        *,
        is_new: bool,
    ) -> Run[dict[str, Any]]:
        """Run the plan of the project with the goal, and with what else of the options its input names."""
        from holdfast.plans.inputs import filled
        from holdfast.plans.interpreter import run_plan
        from holdfast.plans.reading import read

        plan = read(Path(file))
        if "goal" not in plan.input:
            raise BadInput(f"plan {plan.name} takes no input `goal`; add it: `input: {{goal: }}`")
        values = {"goal": goal, **_inputs(options)}
        given = {name: value for name, value in values.items() if name in plan.input}
        filled(plan, given)
        if is_new:
            task = task or self._make_task(goal)
        run_id = self._claimed_for(run_id, task)
        return self._to_write().start(run_plan, (plan, given), {}, run_id, task=task or "")

    def _find_agents(self, options: DeliverOptions) -> None:
        """Raise `AgentNotFound` before anything is written."""
        agents = self._to_write().handler("agents")
        for role in ("planner", "developer", "reviewer"):
            agents.find(options.agent(role), role)
        if options.verifier:
            agents.find(options.verifier, "verifier")

    def _make_task(self, goal: str) -> str:
        from holdfast.tracker.creating import create

        name = " ".join(goal.split())
        fields = {"name": name[:_NAME_CHARS], "body": goal if len(name) > _NAME_CHARS else ""}
        return create(self._open_tracker(), fields)


def _inputs(options: DeliverOptions) -> dict[str, Any]:
    """What of the options a plan can have as its input; what was not given is left to its defaults."""
    found = {
        "checks": list(options.checks),
        "planner": options.planner,
        "developer": options.developer,
        "reviewer": options.reviewer,
        "verifier": options.verifier,
    }
    return {name: value for name, value in found.items() if value}
