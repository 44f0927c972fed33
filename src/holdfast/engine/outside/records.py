"""What programs are told: events, steps and runs as plain data."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.engine.outside.run_input import RunInput
from holdfast.kernel.measures import Measured


class LogEvent(msgspec.Struct, frozen=True):
    """One event of a run, as `hf.events()` and the `on_event` callback give it."""

    run_id: str
    version: int
    type: str
    at: datetime
    data: dict[str, Any]


class LogLine(msgspec.Struct, frozen=True):
    """A piece of a command's output, as `hf.logs()` gives it."""

    step: str
    attempt: int
    source: str
    text: str
    at: datetime


class StepInfo(msgspec.Struct, frozen=True):
    """A step of a run's live history. `measured` is what its attempts have used, one for each model."""

    key: str
    name: str
    kind: str
    effect: str
    status: str
    attempt: int
    started_at: datetime | None
    ended_at: datetime | None
    due_at: datetime | None
    child: str
    measured: tuple[Measured, ...] = ()


class RunInfo(msgspec.Struct, frozen=True):
    """A run as the store knows it.

    interrupted   it has begun, has not ended, and has no live owner
    completed_at  when it completed, failed or was cancelled; None if it has not ended
    title         its workflow with what it was started with, on one line
    input         that as data; None if it is so large that it is stored beside the log
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
    completed_at: datetime | None = None
    title: str = ""
    input: RunInput | None = None


class RunPage(msgspec.Struct, frozen=True):
    """The newest of the runs that were asked for, and how many there are in all."""

    runs: list[RunInfo]
    total: int
