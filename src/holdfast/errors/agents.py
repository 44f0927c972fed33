"""Errors of agents: their tools, models, budgets, evidence and deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from holdfast.errors.base import HoldfastError, NotFound
from holdfast.errors.runs import RunPaused
from holdfast.ways import VALUE, Way, quoted


class EvidenceNotFound(NotFound, LookupError):
    code = "evidence_not_found"

    def __init__(self, run_id: str, milestone: str = "", nearest: Sequence[str] = ()) -> None:
        self.run_id = run_id
        self.milestone = milestone
        self.nearest = tuple(nearest)
        if not milestone or not nearest:
            why = f"run {run_id} has no evidence: its code has reached no `milestone(...)`"
        else:
            why = f"run {run_id} has no milestone {milestone!r}; it has: {', '.join(self.nearest)}"
        super().__init__(why)


class AgentNotFound(NotFound):
    """No agent is configured under that name or for that role. The message has lines to copy."""

    code = "agent_not_found"


class AllFailed(RunPaused):
    """Raised by `router.failover`; the reason names each candidate and why it failed."""

    code = "all_failed"


class BudgetReached(RunPaused):
    """The run is paused before a step that its budget cannot pay. Raise the budget and resume: the step is
    tried again, and nothing that is recorded runs twice.

    budget  its name, or that of a parent of the one that pays
    unit    `usd`, `tokens`, `seconds` or `steps`; the other fields are amounts of it
    needed  None if the step does not say: then nothing is left
    short   by how much each unit is short; 0 if that is not known
    """

    code = "budget_reached"
    exit_code = 7

    def __init__(
        self,
        run_id: str,
        budget: str,
        *,
        unit: str,
        limit: str | int | None,
        spent: str | int | None,
        reserved: str | int | None,
        needed: str | int | None,
        step: str,
        short: Mapping[str, str | int | None],
    ) -> None:
        self.budget = budget
        self.unit = unit
        self.limit = limit
        self.spent = spent
        self.reserved = reserved
        self.needed = needed
        self.step = step
        self.short = dict(short)
        from holdfast.counts import unit_for  # every command loads this room, and few reach a limit

        needs = f"more {unit}" if needed is None else f"{needed} {unit_for(needed, unit)}"
        super().__init__(
            run_id,
            f"budget {budget} is reached: {step} needs {needs}; of its {limit}, {spent} are spent and "
            f"{reserved} reserved; {quoted(self.raise_(budget, self.short))} raises it",
        )

    def of_parent(self, run_id: str) -> BudgetReached:
        """The same for the run that waits for this one."""
        return BudgetReached(
            run_id, self.budget, unit=self.unit, limit=self.limit, spent=self.spent, reserved=self.reserved,
            needed=self.needed, step=self.step, short=self.short,
        )  # fmt: skip

    @staticmethod
    def raise_(budget: str, short: Mapping[str, str | int | None]) -> Way:
        """The command that raises a budget by as much as it is short of."""
        more = {unit: amount if Decimal(amount or 0) else VALUE for unit, amount in short.items()}
        return Way("budget raise", "", {"name": budget, **more}, "raises the budget")

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("resume", self.run_id, {}, "continues"), self.raise_(self.budget, self.short))


class NotDelivered(HoldfastError):
    """A delivery was sent back as often as its bounds allow, or a role gave no verdict. `point` is where a
    rewind lets it be tried again."""

    code = "not_delivered"
    exit_code = 1

    def __init__(self, run_id: str, stage: str, why: str, point: str) -> None:
        self.run_id = run_id
        self.stage = stage
        self.why = why
        self.point = point
        super().__init__(run_id, stage, why, point)

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("rewind", self.run_id, {"to": self.point}, "goes back to before that round"),)

    def __str__(self) -> str:
        return f"{self.why}; {quoted(self.ways[0])} goes back to before that round, and the files with it"


class ToolFailed(HoldfastError):
    """A tool could not do what it was asked for, and has changed nothing. The message is written for the
    model or
    person that called it: it names the fault and what to call instead."""

    code = "tool_failed"
    exit_code = 1


class AgentFailed(HoldfastError):
    """An agent reported that it could not do its job; `resume` lets it try again. `agent` is its name, `why`
    its own message."""

    code = "agent_failed"
    exit_code = 1

    def __init__(self, agent: str, why: str) -> None:
        self.agent = agent
        self.why = why
        super().__init__(agent, why)

    def __str__(self) -> str:
        return f"agent {self.agent} failed: {self.why}"


class ModelFailed(HoldfastError):
    """A model provider refused a request, or did not answer. `status` is that of HTTP, 0 if there was none;
    `temporary` says that the same request may succeed later."""

    code = "model_failed"
    exit_code = 1

    def __init__(
        self,
        model: str,
        why: str,
        status: int = 0,
        retry_after_s: float | None = None,
        *,
        temporary: bool = False,
    ) -> None:
        self.model = model
        self.why = why
        self.status = status
        self.retry_after_s = retry_after_s
        self.temporary = temporary
        super().__init__(model, why, status)

    def __str__(self) -> str:
        if self.status == 404:
            return f"{self.model} does not exist (404: {self.why}); name another model"
        if self.status in (401, 403):
            return f"{self.model} refuses the key ({self.status}: {self.why}); check the key"
        return f"{self.model} failed ({f'{self.status}: ' if self.status else ''}{self.why})"
