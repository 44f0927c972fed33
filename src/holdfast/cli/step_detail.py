"""One step of a run with everything that can be said of it: what it got, each attempt, what it gave."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.detail import Detail, step_fields
from holdfast.cli.gates import gate_fields
from holdfast.cli.points import missing
from holdfast.clock import instant
from holdfast.errors import BadInput, StepNotFound
from holdfast.kernel import events as e
from holdfast.operations import points
from holdfast.operations.lineage import live

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.cli.gates import GateView
    from holdfast.cli.steps import StepView
    from holdfast.kernel.state import StepState

_NAMED = 8  # so many steps are named where several are meant


class Attempt(msgspec.Struct):
    """One try. `status`: running, completed, failed, in_doubt or cut_off; `why` it is in doubt."""

    number: int
    started: datetime
    status: str = "cut_off"
    ended: datetime | None = None
    error: e.Failure | None = None
    retry: datetime | None = None
    why: str = ""


class Settlement(msgspec.Struct, frozen=True):
    """What a person, or the step's `verify`, said of it while it was in doubt."""

    outcome: str
    by: str
    at: datetime


class StepDetail:
    """A step of a run's live history. Everything that it gives is redacted.

    args      the arguments by name, as JSON data; None if they were too large to be kept, and then there
              are `preview` and `size` (bytes), or if it takes none
    output    of a command or a Python step: (version, piece)
    """

    def __init__(self, opened: Opened, detail: Detail, step: StepState) -> None:
        self.run = detail
        self.state = step
        self.view: StepView = detail.view(step)
        self.args: Any = None
        self.preview = ""
        self.size = 0
        self.attempts: list[Attempt] = []
        self.settled: list[Settlement] = []
        for event, _, at in live(detail.recorded, detail.state.generation):
            if getattr(event, "key", "") == step.key:
                self._take(event, instant(at))
        if self.attempts and step.status == "running" and detail.info.owner_pid is not None:
            self.attempts[-1].status = "running"
        self.output = (
            list(opened.reading.logs(detail.info.id, step.key)) if step.kind in ("command", "step") else []
        )

    def _take(self, event: e.Event, at: datetime) -> None:
        if isinstance(event, e.StepStarted):
            self._take_arguments(event)
            self.attempts.append(Attempt(event.attempt, at))
        elif isinstance(event, e.StepRan):
            self._take_arguments(event)
            self.attempts.append(Attempt(1, instant(event.started_at), "completed", at))
        elif isinstance(event, e.StepSettled):
            self.settled.append(Settlement(event.outcome, self.run.redact(event.by), at))
        elif self.attempts:
            self._end(self.attempts[-1], event, at)

    def _take_arguments(self, event: e.StepStarted | e.StepRan) -> None:
        self.args = self.run.data(event.args, "")
        self.preview, self.size = self.run.redact(event.preview), event.size

    def _end(self, last: Attempt, event: e.Event, at: datetime) -> None:
        if isinstance(event, e.StepCompleted):
            last.status, last.ended = "completed", at
        elif isinstance(event, (e.StepAttemptFailed, e.StepFailed)):
            last.status, last.ended, last.error = "failed", at, event.error
            last.retry = instant(event.retry_at) if isinstance(event, e.StepAttemptFailed) else None
        elif isinstance(event, e.StepInDoubt):
            last.status, last.ended, last.why = "in_doubt", at, self.run.redact(event.why)

    @property
    def has_result(self) -> bool:
        """Whether it gave something that is kept: a checkpoint its data, a gate the value of its signal."""
        kept = bool(self.state.blob or bytes(self.state.result))
        return self.state.status == "completed" and self.state.kind != "approval" and kept

    @property
    def result(self) -> Any:
        return self.run.data(self.state.result, self.state.blob) if self.has_result else None

    @property
    def gate(self) -> GateView | None:
        return self.run.gate(self.state) if self.state.kind in ("approval", "signal") else None


def find(opened: Opened, detail: Detail, text: str) -> StepDetail:
    """The step that `text` names: a whole key, a name or the beginning of one, where only one step has it.

    Raises `NotFound` with the nearest names, or with the child run that has such a step; `BadInput` if there
    are several.
    """
    run_id = detail.info.id
    try:
        return StepDetail(opened, detail, points.find(run_id, detail.state, text))
    except StepNotFound as error:
        begun = [view.key for view in detail.steps if text and _begins(view, text)]
        if len(begun) == 1:
            return StepDetail(opened, detail, detail.state.steps[begun[0]])
        if begun:
            listed = ", ".join(begun[:_NAMED]) + (", ..." if len(begun) > _NAMED else "")
            raise BadInput(f"{text!r} is {len(begun)} steps of run {run_id}: {listed}; name one") from None
        raise missing(opened, error, "step") from None


def _begins(step: StepView, text: str) -> bool:
    return any(name.startswith(text) for name in (step.key, step.key.rpartition("/")[2], step.name))


def fields(step: StepDetail) -> dict[str, Any]:
    """`show --step --json`, whose names do not change."""
    gate = step.gate
    return {
        "run": step.run.info.id,
        **step_fields(step.view),
        "args": step.args,
        "args_preview": step.preview or None,
        "args_bytes": step.size or None,
        "result": step.result,
        "secret": step.state.secret,
        "error": None if step.state.error is None else step.run.error_fields(step.state.error),
        "attempts": [_attempt_fields(step, one) for one in step.attempts],
        "settled": [
            {"outcome": one.outcome, "by": one.by or None, "at": one.at.isoformat()} for one in step.settled
        ],
        "gate": None if gate is None else gate_fields(gate),
        "output": [
            {"attempt": piece.attempt, "source": piece.source, "text": piece.text, "at": piece.at.isoformat()}
            for _, piece in step.output
        ],
    }


def _attempt_fields(step: StepDetail, one: Attempt) -> dict[str, Any]:
    return {
        "attempt": one.number,
        "status": one.status,
        "started_at": one.started.isoformat(),
        "ended_at": one.ended.isoformat() if one.ended else None,
        "retry_at": one.retry.isoformat() if one.retry else None,
        "error": None if one.error is None else step.run.error_fields(one.error),
        "why": one.why or None,
    }
