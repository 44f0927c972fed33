"""Runs, steps and output as plain data."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from holdfast.clock import optional_instant
from holdfast.json_view import View
from holdfast.kernel.measures import Measured, as_data
from holdfast.kernel.state import ENDED
from holdfast.kernel.state import HALTED as HALTED
from holdfast.kernel.state import PARKED as PARKED
from holdfast.kernel.state import STATUSES as RECORDED_STATUSES
from holdfast.kernel.state import UNDONE as UNDONE
from holdfast.kernel.state import UNFINISHED as UNFINISHED
from holdfast.views.run_input import RunInput

STATUSES = (*RECORDED_STATUSES, "interrupted")
"""The values of `RunInfo.shown_status`."""


class LogLine(View, frozen=True):
    """A piece of what a command or a step printed. `version` is that of its event."""

    step: str
    attempt: int
    source: str
    text: str
    at: datetime
    version: int = 0

    JSON: ClassVar = {
        "version": "of its event in the run; `--since-version` continues after it",
        "step": "the step that printed it",
        "attempt": "in which attempt",
        "source": "`stdout` or `stderr`",
        "text": "what was printed",
        "at": "when",
    }


class StepInfo(msgspec.Struct):
    """A step of a run's live history.

    started_at, ended_at  of the last attempt; None if it has not begun, has not ended
    due_at                when the next attempt begins, a sleep ends, or a gate is left unanswered
    duration_s            how long the last attempt took; None if it has not ended
    child                 the id of the child run, if it is the call of one
    note                  its error in one line, why it is in doubt, or how a gate was decided
    outcome               of a gate that was decided
    """

    key: str
    name: str = ""
    kind: str = "step"
    effect: str = "idempotent"
    status: str = "running"
    attempt: int = 1
    started_us: int = 0
    """Microseconds, as in the log, 0 for never: of a long run few are ever written as a time."""
    ended_us: int = 0
    due_us: int = 0
    child: str = ""
    note: str = ""
    outcome: str = ""
    measured: tuple[Measured, ...] = ()
    """The usage of its attempts, one for each model."""

    JSON: ClassVar = {
        "key": "its identity in the run: `branch[2]/ask#1`",
        "name": "the last part of that: `ask`",
        "kind": "`step`, `command`, `child`, `sleep`, `approval`, `signal` or `checkpoint`",
        "effect": "`idempotent`, `once` or `workspace`",
        "status": "`running`, `retrying`, `sleeping`, `waiting`, `completed`, `failed`, `in_doubt`, "
        "`reopened` or "
        "`abandoned` (a gate or a sleep that the code gave up)",
        "attempt": "how many attempts there were",
        "started_at": "when the last attempt began",
        "ended_at": "when it ended; null if it has not",
        "duration_seconds": "how long the last attempt took; null if it has not ended",
        "due_at": "when the next attempt begins, a sleep ends, or a gate is left unanswered; else null",
        "child": "the id of the child run, or null",
        "note": "its error in one line, why it is in doubt, or how a gate was decided; else null",
        "measured": "what its attempts used, an object for each model: `model` (null if none was named), "
        "`input_tokens`, `output_tokens`, `usd` and `units` (by name). `usd` is a decimal number as text, or "
        "null if no price was given; so are units that are not whole numbers",
    }

    @property
    def started_at(self) -> datetime | None:
        return optional_instant(self.started_us)

    @property
    def ended_at(self) -> datetime | None:
        return optional_instant(self.ended_us)

    @property
    def duration_s(self) -> float | None:
        return _seconds(self.started_at, self.ended_at)

    @property
    def due_at(self) -> datetime | None:
        return optional_instant(self.due_us)

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "name": self.name,
            "kind": self.kind,
            "effect": self.effect,
            "status": self.status,
            "attempt": self.attempt,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "duration_seconds": self.duration_s,
            "due_at": iso(self.due_at),
            "child": self.child or None,
            "note": self.note or None,
            "measured": as_data(self.measured),
        }


class RunInfo(msgspec.Struct, frozen=True):
    """A run as the store knows it.

    interrupted  it has begun, has not ended, and has no live owner
    ended_at     when it completed, failed or was cancelled; None if it has not ended
    duration_s   from its creation to then, in seconds; None if it has not ended
    title        its workflow with what it was started with, on one line
    input        that as data; None if it is so large that it is stored beside the log
    """

    id: str
    workflow: str
    status: str
    reason: str
    interrupted: bool
    owner_pid: int | None
    generation: int
    parent: str
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    title: str = ""
    input: RunInput | None = None
    owner: str = ""
    """The owner that the log names, alive or dead; empty if the run was released."""
    stage: str = ""
    """The last one that its code has entered with `stage(...)`; empty if none."""
    number: int = 0
    """Its short number in the store, which `find` accepts as `#42`; given once, and never to another."""

    JSON: ClassVar = {
        "id": "of the run",
        "number": "its short number in the store: `#42` is accepted wherever an id is",
        "workflow": "a function's name, or a command line",
        "status": "`pending`, `running`, `waiting`, `sleeping`, `paused`, `needs_attention`, `completed`, "
        "`failed` or `cancelled`",
        "interrupted": "true: it has not ended, and no process executes it; `resume` continues it",
        "reason": "why it needs attention or was cancelled, else empty",
        "stage": "the last one that its code has entered with `stage(...)`, or null",
        "parent": "the run that started it, or null",
        "owner_pid": "the process that executes it now, or null",
        "created_at": "the time of its first event",
        "updated_at": "the time of its last event",
        "completed_at": "when it completed, failed or was cancelled; null if it has not ended. An undo "
        "brings it back with the generation",
        "duration_seconds": "from `created_at` to `completed_at`; null if it has not ended",
        "title": "the title of its code, if it has one; else the workflow with its input, on one line: "
        '`report(["kelp"])`; a command line as it is',
        "input": "`args` and `kwargs` of the workflow, tagged as a result is; of a command its words as "
        "`args`. In a list null if it takes more than 32 KB",
    }

    @property
    def duration_s(self) -> float | None:
        return _seconds(self.created_at, self.ended_at)

    @property
    def ended(self) -> bool:
        """Whether it completed, failed or was cancelled."""
        return self.status in ENDED

    @property
    def shown_status(self) -> str:
        """Its status, or `interrupted`, which is none in the log."""
        return "interrupted" if self.interrupted else self.status

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "number": self.number,
            "workflow": self.workflow,
            "status": self.status,
            "interrupted": self.interrupted,
            "reason": self.reason,
            "stage": self.stage or None,
            "parent": self.parent or None,
            "owner_pid": self.owner_pid,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "completed_at": iso(self.ended_at),
            "duration_seconds": self.duration_s,
            "title": self.title,
            "input": msgspec.to_builtins(self.input),
        }


class RunPage(msgspec.Struct, frozen=True):
    """The newest of the runs that were asked for, and how many there are in all."""

    runs: list[RunInfo]
    total: int


class RunError(msgspec.Struct, frozen=True):
    """An error that ended a run, a step or an attempt, redacted.

    members  of a group, each in one line
    steps    the steps whose errors ended a run
    """

    type: str
    message: str
    traceback: str
    members: tuple[str, ...] = ()
    steps: tuple[str, ...] | None = None

    JSON: ClassVar = {
        "type": "the error's class",
        "message": "its text",
        "traceback": "as Python prints it",
        "members": "of a group of errors, each in one line",
        "steps": "of a run: the steps whose errors ended it",
    }

    @property
    def sentence(self) -> str:
        """As Python writes the last line of a traceback."""
        name = self.type.removeprefix("holdfast.errors.")
        return f"{name}: {self.message}" if self.message else name

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": self.type,
            "message": self.message,
            "traceback": self.traceback,
            "members": list(self.members),
        }
        return found if self.steps is None else found | {"steps": list(self.steps)}


def iso(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    return (end - begin).total_seconds() if begin is not None and end is not None else None
