"""Runs as people and programs read them. Everything that leaves the store passes the redactor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.clock import instant
from holdfast.engine.ownership import is_alive
from holdfast.engine.records import LogEvent, LogLine, RunInfo, StepInfo
from holdfast.errors import AmbiguousRunId, RunNotFound
from holdfast.store.port import RunRow, StepRow, Store

if TYPE_CHECKING:
    from holdfast.redaction import Redactor

UNFINISHED = ("pending", "running", "sleeping")
RESUMABLE = (*UNFINISHED, "waiting", "paused", "needs_attention", "failed")


class Reading:
    """Reads one store. Knows who is alive, so that an interrupted run shows as such."""

    def __init__(self, store: Store, home: Path, redactor: Callable[[], Redactor]) -> None:
        """`redactor` is asked for at the first text that needs it: its patterns cost more to load
        than a list of runs to read."""
        self._store = store
        self._home = home
        self._open_redactor = redactor
        self._opened_redactor: Redactor | None = None
        self._alive: dict[str, bool] = {}

    @property
    def redactor(self) -> Redactor:
        if self._opened_redactor is None:
            self._opened_redactor = self._open_redactor()
        return self._opened_redactor

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

    def find(self, text: str) -> str:
        """The id that `text` is, or is the only possible beginning of. Raises `RunNotFound` with the
        nearest ids, `AmbiguousRunId`."""
        if self._store.run(text) is not None:
            return text
        matches = self._store.run_ids(text, 9) if text else []
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise AmbiguousRunId(text, matches)
        from difflib import get_close_matches

        known = [row.id for row in self._store.runs(limit=500)]
        raise RunNotFound(text, get_close_matches(text, known, n=3, cutoff=0.5))

    def run(self, run_id: str) -> RunInfo | None:
        self._alive.clear()
        row = self._store.run(run_id)
        return None if row is None else self._info(row)

    def steps(self, run_id: str) -> list[StepInfo]:
        return [_step_info(row) for row in self._store.steps(run_id)]

    def events(self, run_id: str) -> Iterator[LogEvent]:
        for entry in self._store.entries(run_id):
            data = self.redactor.redact_value(msgspec.json.decode(entry.payload))
            yield LogEvent(entry.stream, entry.version, entry.type, instant(entry.at), data)

    def logs(self, run_id: str, step: str | None = None, after: int = 0) -> Iterator[tuple[int, LogLine]]:
        """(version, piece of output) of the run's commands, in order."""
        for entry in self._store.entries(run_id, after=after):
            if entry.type != "OutputCaptured":
                continue
            data: dict[str, Any] = msgspec.json.decode(entry.payload)
            if step is None or matches(data["key"], step):
                text = self.redactor.redact(data["text"])
                yield (
                    entry.version,
                    LogLine(data["key"], data["attempt"], data["source"], text, instant(entry.at)),
                )

    def _info(self, row: RunRow) -> RunInfo:
        alive = bool(row.owner) and self._is_alive(row.owner)
        owner = self._store.owner(row.owner) if alive else None
        return RunInfo(
            row.id,
            self._shown(row.workflow),
            row.status,
            self._shown(row.reason),
            row.status in UNFINISHED and not alive,
            owner.pid if owner else None,
            row.generation,
            row.parent,
            instant(row.created_at),
            instant(row.updated_at),
        )

    def _shown(self, text: str) -> str:
        # A function's name holds no secret; a command line may.
        return text if not text or text.replace(".", "").isidentifier() else self.redactor.redact(text)

    def _is_alive(self, owner: str) -> bool:
        known = self._alive.get(owner)
        if known is None:
            known = self._alive[owner] = is_alive(self._home, owner)
        return known


def matches(key: str, wanted: str) -> bool:
    """Whether a step's identity is what a person typed: whole, or its name, `ask` of `ask#1` and `ask@7`."""
    last = key.rpartition("/")[2]
    end = max(last.rfind("#"), last.rfind("@"))  # of the name; neither stands in what follows it
    return wanted in (key, last[:end])


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
