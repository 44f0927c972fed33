"""`runs/ID.json`: a run as a file, written when its status changes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.kernel import events as e

if TYPE_CHECKING:
    from holdfast.store.port import Store
    from holdfast.views.reader import Reader
    from holdfast.views.records import RunInfo, StepInfo

DIRECTORY: Final = "runs"
MOST_STEPS: Final = 1000
"""How many steps are listed, the last ones; the others are counted."""
MOST_RESULT: Final = 256 << 10
"""A larger result is left out: `holdfast show ID --json` prints it."""

CHANGES: Final = (
    e.RunCreated,
    e.RunClaimed,
    e.RunReleased,
    e.RunReopened,
    e.RunNeedsAttention,
    e.RunCompleted,
    e.RunFailed,
    e.RunCancelled,
    e.RunPaused,
    e.Rewound,
    e.GenerationRestored,
    e.GateOpened,
    e.GateDecided,
    e.SleepStarted,
    e.StepInDoubt,
    e.StepSettled,
    e.StageEntered,
)
"""The events after which the file is written again. No event of an ordinary step is among them."""


class StepLine(msgspec.Struct, frozen=True):
    """A step of the run's live history."""

    key: str
    kind: str
    status: str
    attempts: int
    started_at: datetime | None
    ended_at: datetime | None
    child: str | None


class RunError(msgspec.Struct, frozen=True):
    """The error that ended the run."""

    type: str
    message: str


class RunFile(msgspec.Struct, frozen=True):
    """A run as of its last change of status.

    result         null if it has none, or if that is too large for the file
    left_out       `result`, `input`, if they are too large for the file
    steps_before   how many earlier steps are not listed
    """

    id: str
    workflow: str
    title: str
    status: str
    reason: str
    stage: str | None
    parent: str | None
    generation: int
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    input: Any
    result: Any
    error: RunError | None
    left_out: list[str]
    steps_before: int
    steps: list[StepLine]
    version: int
    sha256: str


def file_name(run_id: str) -> str:
    """Ids of runs hold letters, digits, `.`, `_` and `-`."""
    return f"{run_id}.json"


def render(store: Store, reader: Reader, run_id: str) -> dict[str, Any] | None:
    """The file of a run; None if there is no such run. It reads the table of steps and does not fold the
    history."""
    row, info = store.run(run_id), reader.run(run_id)
    if row is None or info is None:
        return None
    steps = reader.steps(run_id)
    left_out: list[str] = []
    result = _result(store, reader, info, left_out)
    if info.input is None:
        left_out.append("input")
    found = RunFile(
        info.id,
        info.workflow,
        info.title,
        info.status,
        info.reason,
        info.stage or None,
        info.parent or None,
        info.generation,
        info.created_at,
        info.updated_at,
        info.ended_at,
        msgspec.to_builtins(info.input),
        result,
        _error(store, reader, info),
        left_out,
        max(0, len(steps) - MOST_STEPS),
        [_line(step) for step in steps[-MOST_STEPS:]],
        row.version,
        "",
    )
    body: dict[str, Any] = msgspec.to_builtins(found)
    return body


def _line(step: StepInfo) -> StepLine:
    return StepLine(
        step.key,
        step.kind,
        step.status,
        step.attempt,
        step.started_at,
        step.ended_at,
        step.child or None,
    )


def _result(store: Store, reader: Reader, info: RunInfo, left_out: list[str]) -> Any:
    event = _last(store, info, "completed", "RunCompleted")
    if not isinstance(event, e.RunCompleted):
        return None
    if event.blob or len(bytes(event.result)) > MOST_RESULT:
        left_out.append("result")
        return None
    data = bytes(event.result)
    return reader.redactor.redact_value(msgspec.json.decode(data)) if data else None


def _error(store: Store, reader: Reader, info: RunInfo) -> RunError | None:
    event = _last(store, info, "failed", "RunFailed")
    if not isinstance(event, e.RunFailed):
        return None
    return RunError(event.error.type_name, reader.redactor.redact(event.error.message))


def _last(store: Store, info: RunInfo, status: str, type: str) -> e.Event | None:
    """The last event of that type, if the run is in the status that it leads to."""
    if info.status != status:
        return None
    found = list(store.entries(info.id, type=type))
    return e.decode(found[-1].type, found[-1].payload) if found else None
