"""Runs as people and programs read them. Everything that leaves the store passes the redactor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from holdfast.clock import instant
from holdfast.engine.ownership import is_alive
from holdfast.engine.records import LogEvent, LogLine, RunInfo, StepInfo
from holdfast.redaction import Redactor
from holdfast.store.port import RunRow, StepRow, Store

UNFINISHED = ("pending", "running", "sleeping")
RESUMABLE = (*UNFINISHED, "waiting", "paused", "needs_attention", "failed")


class Reading:
    """Reads one store. Knows who is alive, so that an interrupted run shows as such."""

    def __init__(self, store: Store, home: Path, redactor: Redactor) -> None:
        self._store = store
        self._home = home
        self._redactor = redactor
        self._alive: dict[str, bool] = {}

    def runs(
        self, *, status: Sequence[str] = (), resumable: bool | None = None, limit: int | None = None
    ) -> list[RunInfo]:
        """Runs, the newest first. Resumable: what `resume` would move on, not what a live owner executes."""
        self._alive.clear()
        wanted = tuple(status)
        if resumable:
            wanted = tuple(s for s in RESUMABLE if not status or s in status)
        rows = self._store.runs(status=wanted, limit=None if resumable is not None else limit)
        found = [self._info(row) for row in rows]
        if resumable is not None:
            found = [run for run in found if self.is_resumable(run) is resumable][:limit]
        return found

    @staticmethod
    def is_resumable(run: RunInfo) -> bool:
        return run.status in RESUMABLE and (run.status not in UNFINISHED or run.interrupted)

    def run(self, run_id: str) -> RunInfo | None:
        self._alive.clear()
        row = self._store.run(run_id)
        return None if row is None else self._info(row)

    def steps(self, run_id: str) -> list[StepInfo]:
        return [_step_info(row) for row in self._store.steps(run_id)]

    def events(self, run_id: str) -> Iterator[LogEvent]:
        for entry in self._store.entries(run_id):
            data = self._redactor.redact_value(msgspec.json.decode(entry.payload))
            yield LogEvent(entry.stream, entry.version, entry.type, instant(entry.at), data)

    def logs(self, run_id: str, step: str | None = None, after: int = 0) -> Iterator[tuple[int, LogLine]]:
        """(version, piece of output) of the run's commands, in order."""
        for entry in self._store.entries(run_id, after=after):
            if entry.type != "OutputCaptured":
                continue
            data: dict[str, Any] = msgspec.json.decode(entry.payload)
            if step is None or matches(data["key"], step):
                text = self._redactor.redact(data["text"])
                yield (
                    entry.version,
                    LogLine(data["key"], data["attempt"], data["source"], text, instant(entry.at)),
                )

    def _info(self, row: RunRow) -> RunInfo:
        alive = bool(row.owner) and self._is_alive(row.owner)
        owner = self._store.owner(row.owner) if alive else None
        return RunInfo(
            row.id,
            row.workflow,
            row.status,
            self._redactor.redact(row.reason),
            row.status in UNFINISHED and not alive,
            owner.pid if owner else None,
            row.generation,
            row.parent,
            instant(row.created_at),
            instant(row.updated_at),
        )

    def _is_alive(self, owner: str) -> bool:
        known = self._alive.get(owner)
        if known is None:
            known = self._alive[owner] = is_alive(self._home, owner)
        return known


def matches(key: str, wanted: str) -> bool:
    """Whether a step's identity is what a person typed: whole, or just its name."""
    return key == wanted or key.rpartition("/")[2].partition("#")[0] == wanted


def _step_info(row: StepRow) -> StepInfo:
    return StepInfo(
        row.key,
        row.name,
        row.kind,
        row.effect,
        row.status,
        row.attempt,
        _at(row.started_at),
        _at(row.ended_at),
        _at(row.due_at),
        row.child,
    )


def _at(us: int) -> datetime | None:
    return instant(us) if us else None
