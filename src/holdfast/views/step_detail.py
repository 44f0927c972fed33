"""One step of a run in full: its arguments, each attempt, its result."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.clock import instant
from holdfast.errors import BadInput, StepNotFound
from holdfast.json_view import View
from holdfast.kernel import events as e
from holdfast.operations import points
from holdfast.operations.lineage import live
from holdfast.views.records import LogLine, RunError, StepInfo, iso
from holdfast.views.unknown_point import missing

if TYPE_CHECKING:
    from holdfast.kernel.state import StepState
    from holdfast.views.gate import Gate
    from holdfast.views.reader import Reader
    from holdfast.views.run_detail import RunDetail

_NAMED = 8  # so many steps are named where several are meant


class Attempt(msgspec.Struct):
    """One try. `status`: running, completed, failed, in_doubt or cut_off; `why` it is in doubt."""

    number: int
    started: datetime
    status: str = "cut_off"
    ended: datetime | None = None
    error: RunError | None = None
    retry: datetime | None = None
    why: str = ""

    JSON: ClassVar = {
        "attempt": "its number",
        "status": "`running`, `completed`, `failed`, `in_doubt`, or `cut_off` with its process",
        "started_at": "when it began",
        "ended_at": "when it ended; null if it has not",
        "retry_at": "when the next one was to begin, or null",
        "error": "null, or how it failed",
        "why": "why it is in doubt, or null",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "attempt": self.number,
            "status": self.status,
            "started_at": self.started.isoformat(),
            "ended_at": iso(self.ended),
            "retry_at": iso(self.retry),
            "error": None if self.error is None else self.error.to_json(),
            "why": self.why or None,
        }


class Settlement(View, frozen=True):
    """The outcome that a person, or the step's `verify`, gave it while it was in doubt."""

    outcome: str
    by: str
    at: datetime

    JSON: ClassVar = {
        "outcome": "`done`, `retry` or `fail`",
        "by": "a person, or `verify`",
        "at": "when",
    }
    JSON_NULL: ClassVar = ("by",)


class StepDetail(msgspec.Struct):
    """A step of a run's live history.

    args      the arguments by name, as JSON data; None if they were too large to be kept, and then there
              are `preview` and `size` (bytes), or if it takes none
    secret    its result is not kept
    gave      whether it gave something that is kept: a checkpoint its data, a gate the value of its signal
    output    of a command or a Python step
    """

    run: RunDetail
    info: StepInfo
    args: Any = None
    preview: str = ""
    size: int = 0
    result: Any = None
    gave: bool = False
    secret: bool = False
    error: RunError | None = None
    attempts: list[Attempt] = []
    settled: list[Settlement] = []
    gate: Gate | None = None
    output: list[LogLine] = []

    JSON: ClassVar = {
        **StepInfo.JSON,
        "run": "the run that it is of",
        "args": "its arguments by name, without those left at their defaults; null if there are none, or "
        "if they "
        "take more than 2 KB",
        "args_preview": "then: how they begin; else null",
        "args_bytes": "then: how large they were; else null",
        "result": "what it gave, tagged as the run's is; a checkpoint's data, a signal's value; null if it "
        "gave "
        "nothing",
        "secret": "true: its result is not kept",
        "error": "null, or how it failed",
        "attempts": "all attempts, in order",
        "settled": "how it was settled while it was in doubt, in order",
        "gate": "of an approval or a signal: the gate; else null",
        "output": "of a command or a Python step: `attempt`, `source`, `text`, `at` of each piece",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run.id,
            **self.info.to_json(),
            "args": self.args,
            "args_preview": self.preview or None,
            "args_bytes": self.size or None,
            "result": self.result,
            "secret": self.secret,
            "error": None if self.error is None else self.error.to_json(),
            "attempts": [one.to_json() for one in self.attempts],
            "settled": [one.to_json() for one in self.settled],
            "gate": None if self.gate is None else self.gate.to_json(),
            "output": [_piece(line) for line in self.output],
        }


def describe(reader: Reader, run: RunDetail, step: StepState) -> StepDetail:
    """The step as the live history has it."""
    kept = bool(step.blob or bytes(step.result))
    gave = step.status == "completed" and step.kind != "approval" and kept
    found = StepDetail(
        run,
        run.step_info(step),
        result=run.data(step.result, step.blob) if gave else None,
        gave=gave,
        secret=step.secret,
        error=None if step.error is None else run.failure(step.error),
        gate=run.gate(step) if step.kind in ("approval", "signal") else None,
        output=list(reader.logs(run.id, step.key)) if step.kind in ("command", "step") else [],
    )
    for event, _, at in live(run.recorded, run.state.generation):
        if getattr(event, "key", "") == step.key:
            _take(found, event, instant(at))
    if found.attempts and step.status == "running" and run.owner_pid is not None:
        found.attempts[-1].status = "running"
    return found


def _take(found: StepDetail, event: e.Event, at: datetime) -> None:
    if isinstance(event, (e.StepStarted, e.StepRan)):
        found.args = found.run.data(event.args, "")
        found.preview, found.size = found.run.redact(event.preview), event.size
        if isinstance(event, e.StepStarted):
            found.attempts.append(Attempt(event.attempt, at))
        else:
            found.attempts.append(Attempt(1, instant(event.started_at), "completed", at))
    elif isinstance(event, e.StepSettled):
        found.settled.append(Settlement(event.outcome, found.run.redact(event.by), at))
    elif found.attempts:
        _end(found, found.attempts[-1], event, at)


def _end(found: StepDetail, last: Attempt, event: e.Event, at: datetime) -> None:
    if isinstance(event, e.StepCompleted):
        last.status, last.ended = "completed", at
    elif isinstance(event, (e.StepAttemptFailed, e.StepFailed)):
        last.status, last.ended, last.error = "failed", at, found.run.failure(event.error)
        last.retry = instant(event.retry_at) if isinstance(event, e.StepAttemptFailed) else None
    elif isinstance(event, e.StepInDoubt):
        last.status, last.ended, last.why = "in_doubt", at, found.run.redact(event.why)


def _piece(line: LogLine) -> dict[str, Any]:
    """The fields of a line, without those of its step."""
    fields = line.to_json()
    return {name: fields[name] for name in ("attempt", "source", "text", "at")}


def find(reader: Reader, run: RunDetail, text: str) -> StepDetail:
    """The step that `text` names: a whole key, a name or the beginning of one, where only one step has it.

    Raises `NotFound` with the nearest names, or with the child run that has such a step; `BadInput` if there
    are several.
    """
    try:
        return describe(reader, run, points.find(run.id, run.state, text))
    except StepNotFound as error:
        begun = [step.key for step in run.steps if text and _begins(step, text)]
        if len(begun) == 1:
            return describe(reader, run, run.state.steps[begun[0]])
        if begun:
            listed = ", ".join(begun[:_NAMED]) + (", ..." if len(begun) > _NAMED else "")
            raise BadInput(f"{text!r} is {len(begun)} steps of run {run.id}: {listed}; name one") from None
        raise missing(reader, error, "step") from None


def _begins(step: StepInfo, text: str) -> bool:
    return any(name.startswith(text) for name in (step.key, step.key.rpartition("/")[2], step.name))
