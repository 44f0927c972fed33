"""The delivering side of `Holdfast`: a coding goal becomes a run with stages and approvals."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import wiring
from holdfast.errors import BadInput
from holdfast.facade.executing import Executing
from holdfast.facade.open_store import blocking, texts

if TYPE_CHECKING:
    from holdfast.agents.deliver.options import DeliverOptions
    from holdfast.agents.deliver.policies import Policy
    from holdfast.engine.execution.step_options import Seconds
    from holdfast.engine.runs.run import Run
    from holdfast.engine.runs.workflow import AsyncWorkflow
    from holdfast.facade.budgets import BudgetNamespace

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
        check_timeout: Seconds | None = None,
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
        rounds    how often a rejected plan, and a rejected implementation, is made again (default: 5)
        retries   how often objections and failed checks are returned to the developer (default: 3)
        check_timeout  seconds that one check may take (default: 1800)
        policies  decisions made beforehand, beside those of the settings; `yes` approves both gates
        plan      a plan file that replaces the stages; its input `goal` is the goal
        budget    the budget that pays; without one, `default`
        max_usd   the most that the run may cost: a budget of its own, below that one

        Raises `BadInput`, `AgentNotFound`, `ProgramNotFound`, `NotFound`, `TaskHeld`, `RunExists`. What is
        refused leaves neither a task nor a budget.
        """
        if not goal.strip():
            raise BadInput("the goal is empty: describe in a sentence what is to be done")
        from holdfast.agents.deliver import YES, DeliverOptions, deliver, verifying
        from holdfast.engine.execution.step_options import seconds

        wiring.refuse_untrusted_delivery(self._place)
        said = self.settings.deliver
        options = DeliverOptions(
            planner=planner or agent,
            developer=developer or agent,
            reviewer=reviewer or agent,
            verifier=verifier,
            checks=texts(checks, "checks=") or tuple(said.get("checks", ())),
            rounds=said.get("rounds", 5) if rounds is None else rounds,
            retries=said.get("retries", 3) if retries is None else retries,
            check_timeout_s=(
                said.get("check_timeout_s", 1800.0) if check_timeout is None else seconds(check_timeout)
            ),
            policies=(*((YES,) if yes else ()), *policies, *_policies(said)),
        ).check()
        plan = said.get("plan") if plan is None else plan
        is_new = run_id is None or self._reader.run(run_id) is None
        workflow: AsyncWorkflow[..., dict[str, Any]] = deliver
        args: tuple[Any, ...] = goal, options
        if plan is not None:
            workflow, args = _by_plan(plan, goal, options)
        elif is_new:
            self._find_agents(options)
            verifying.check_programs(options.checks, self._to_write().files.root)
        engine = self._to_write()
        # Whatever can be refused comes before the first write; of the writes, the claim comes first.
        run_id = run_id or engine.mint_id()
        engine.check_start(workflow, args, {}, run_id, task or "")
        if is_new:
            self._check_budget(budget, max_usd)
            task = task or self._make_task(goal)
        run_id = self._claimed_for(run_id, task)
        if is_new and max_usd is not None:
            budget = self._limited(run_id, budget, max_usd)
        return engine.start(workflow, args, {}, run_id, task=task or "", budget=budget)

    def _check_budget(self, budget: str, max_usd: Decimal | None) -> None:
        """Raise `NotFound` for a budget that was never set, `BadInput` for a name or an amount that is not
        valid."""
        from holdfast.kernel.amounts import Amounts, check_name
        from holdfast.kernel.budget import DEFAULT

        if budget and check_name(budget) != DEFAULT:
            self._budgets.get(budget)
        Amounts(usd=max_usd)

    def _limited(self, run_id: str | None, budget: str, max_usd: Decimal) -> str:
        """A budget of the run's own, below the one that is named."""
        from holdfast.kernel.budget import DEFAULT

        name = f"run:{run_id}"
        self._budgets.set(name, usd=max_usd, parent=budget or DEFAULT)
        return name

    @property
    def _budgets(self) -> BudgetNamespace:
        from holdfast.facade.budgets import BudgetNamespace

        return BudgetNamespace(self)

    def _find_agents(self, options: DeliverOptions) -> None:
        """Raise `AgentNotFound`, or `BadInput` for an object that is not an agent, before anything is
        written."""
        from holdfast.agents.protocol import check_agent

        agents = self._to_write().handler("agents")
        for role in ("planner", "developer", "reviewer"):
            check_agent(agents.find(options.agent(role), role))
        if options.verifier:
            check_agent(agents.find(options.verifier, "verifier"))

    def _make_task(self, goal: str) -> str:
        from holdfast.tracker.creating import create

        name = " ".join(goal.split())
        fields = {"name": name[:_NAME_CHARS], "body": goal if len(name) > _NAME_CHARS else ""}
        return create(self._open_tracker(), fields)


def _inputs(options: DeliverOptions) -> dict[str, Any]:
    """The options that a plan can have as its input; those not given are left to its defaults."""
    found = {
        "checks": list(options.checks),
        "planner": options.planner,
        "developer": options.developer,
        "reviewer": options.reviewer,
        "verifier": options.verifier,
    }
    return {name: value for name, value in found.items() if value}


def _by_plan(
    file: str | os.PathLike[str], goal: str, options: DeliverOptions
) -> tuple[AsyncWorkflow[..., dict[str, Any]], tuple[Any, ...]]:
    """The plan of the project, with the goal and the other options that its input names."""
    from holdfast.plans.inputs import filled
    from holdfast.plans.interpreter import run_plan
    from holdfast.plans.reading import read

    plan = read(Path(file))
    if "goal" not in plan.input:
        raise BadInput(f"plan {plan.name} takes no input `goal`; add it: `input: {{goal: }}`")
    values = {"goal": goal, **_inputs(options)}
    given = {name: value for name, value in values.items() if name in plan.input}
    filled(plan, given)
    return run_plan, (plan, given)


def _policies(said: Mapping[str, Any]) -> Iterator[Policy]:
    from holdfast.deliver_settings import policy

    for name, table in said.get("policy", {}).items():
        yield policy(name, table)
