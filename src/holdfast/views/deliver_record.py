"""The record of a delivery: what was asked, planned, made, reviewed and verified, and who decided.

It is read from the checkpoints, gates and stages of the run's live history; nothing else keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.clock import instant
from holdfast.json_view import View
from holdfast.views.gate import Gate

if TYPE_CHECKING:
    from holdfast.kernel.state import StepState
    from holdfast.views.run_detail import RunDetail


class StageRecord(View, frozen=True):
    """A stage, and when it was entered."""

    stage: str
    at: datetime

    JSON: ClassVar = {"stage": "its name", "at": "when it was entered"}


class ApprovalRecord(View, frozen=True):
    """A decision on a plan or an implementation. It is still open if `outcome` is empty."""

    gate: str
    stage: str
    outcome: str
    by: str
    reason: str
    at: datetime | None

    JSON: ClassVar = {
        "gate": "its identity in the run",
        "stage": "`plan` or `implementation`",
        "outcome": "`approved` or `rejected`; null while it waits",
        "by": "who decided, or `policy:NAME`; null while it waits",
        "reason": "the comment of who decided, or null",
        "at": "when, or null",
    }
    JSON_NULL: ClassVar = (
        "outcome",
        "by",
        "reason",
    )

    @classmethod
    def of(cls, gate: Gate) -> ApprovalRecord:
        stage = gate.key.partition("#")[0]
        return cls(gate.key, stage, gate.outcome, gate.by, gate.comment, gate.decided_at)


class DeliverRecord(View, frozen=True):
    """The record of a delivery. A part that has not been reached is empty.

    plan            `plan` (the text), `digest`, `files`, `round`, `snapshot` it was made on, `session`,
                    `rolled_back` (files), `commits`
    implementation  `text` of the developer, `files`, `lines`, `attempt`, `snapshot`, `session`
    review          `verdict`, `text`, `session`, `rolled_back`, `commits`
    verification    `passed` (None: nothing could verify it), `checks`, `text` and `session` of the verifier,
                    `rolled_back`, `commits`
    retries         how often each was sent back

    `session` is the one that a CLI agent names in its output; empty if it names none.
    """

    request: str
    task: str
    stage: str
    plan: dict[str, Any]
    implementation: dict[str, Any]
    review: dict[str, Any]
    verification: dict[str, Any]
    approvals: tuple[ApprovalRecord, ...]
    retries: dict[str, int]
    log: tuple[StageRecord, ...]
    error: str

    JSON: ClassVar = {
        "request": "the goal, in the words of the person who asked",
        "task": "the task that it was started for, or null",
        "stage": "the stage that it is in",
        "plan": "the last plan: `plan` (its text), `digest`, `files` it names, `round`, `snapshot` it was "
        "made on, `session` of the planner, `rolled_back` (files that it changed), `commits` (a line for "
        "each ref that it moved); null before there is one",
        "implementation": "the last one: `text` of the developer, `files`, `lines` added and removed, "
        "`attempt`, `snapshot`, `session`; or null",
        "review": "the last one: `verdict` (`approved` or `changes`), `text`, `session`, "
        "`rolled_back`, `commits`; or null",
        "verification": "the last one: `passed` (null: nothing could verify it), `checks` (each with "
        "`command`, `exit_code`, `duration_s`, `output`), `text` and `session` of the verifier, "
        "`rolled_back`, `commits`; or null",
        "approvals": "the decisions on plans and implementations, in their order",
        "retries": "how often `plan`, `implementation`, `review` and `verification` were sent back",
        "log": "the stages, in the order in which they were entered",
        "error": "the error that ended it, in one line, or null",
    }
    JSON_NULL: ClassVar = (
        "task",
        "stage",
        "plan",
        "implementation",
        "review",
        "verification",
        "error",
    )

    @classmethod
    def of(cls, detail: RunDetail) -> DeliverRecord:
        taken = _Taken(detail)
        start, error = taken.last("workflow_start"), detail.error
        gates = [ApprovalRecord.of(gate) for gate in detail.gates if gate.kind == "approval"]
        rejected = [one.stage for one in gates if one.outcome == "rejected"]
        retries = {
            "plan": rejected.count("plan"),
            "implementation": rejected.count("implementation"),
            "review": sum(one["verdict"] == "changes" for one in taken.each("after_review")),
            "verification": sum(one["passed"] is False for one in taken.each("after_verification")),
        }
        return cls(
            start.get("request") or detail.title,
            start.get("task", ""),
            detail.stage,
            taken.last("after_planning"),
            taken.last("after_implementation"),
            taken.last("after_review"),
            taken.last("after_verification"),
            tuple(gates),
            retries,
            tuple(_stages(detail)),
            "" if error is None else error.sentence,
        )


class _Taken:
    """The checkpoints of a run, with their data."""

    def __init__(self, detail: RunDetail) -> None:
        self._detail = detail
        self._steps = [step for step in detail.state.steps.values() if step.kind == "checkpoint"]

    def each(self, name: str) -> list[dict[str, Any]]:
        return [self._data(step) for step in self._steps if step.name == name]

    def last(self, name: str) -> dict[str, Any]:
        found = [step for step in self._steps if step.name == name]
        return self._data(found[-1]) if found else {}

    def _data(self, step: StepState) -> dict[str, Any]:
        data: dict[str, Any] = self._detail.data(step.result, step.blob) or {}
        return data


def _stages(detail: RunDetail) -> Iterator[StageRecord]:
    for step in detail.state.steps.values():
        if step.kind == "stage":
            yield StageRecord(detail.redact(step.name), instant(step.ended_at or step.started_at))
