"""Runs as they were at an earlier moment, read from the log up to there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.clock import instant, microseconds
from holdfast.engine.outside.records import LogEvent
from holdfast.engine.ownership.owners import is_alive, last_seen_us
from holdfast.errors import BadInput, NotFound
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.operations import points
from holdfast.store.port import Recorded, Store
from holdfast.store.run_row import run_row
from holdfast.views.reader import Reader
from holdfast.views.records import LogLine, RunInfo
from holdfast.views.run_detail import OF_OTHERS

if TYPE_CHECKING:
    from holdfast.redaction import Redactor

At = int | datetime | str
"""A moment as a caller names it: a version of the run, a time, or a point of its history."""


class Moment(NamedTuple):
    """A moment of the whole log: up to a position in it, or up to a time. `at` is its time, in
    microseconds."""

    at: int
    position: int | None = None


def resolve(store: Store, run_id: str, at: At) -> Moment:
    """The moment that `at` names in a run: a version, a time (without an offset, the time here), or a
    checkpoint, a step (when it ended), `before:STEP` or `start`. Raises `NotFound` for a moment at which the
    run did not exist, and what `points.resolve` raises."""
    at = read(at)
    if isinstance(at, str):
        state = fold(store.history(run_id))
        assert state is not None, "a run that is known has a history"
        at = points.resolve(store, run_id, state, at).version
    return moment_in(store, run_id, f"run {run_id}", at)


def moment_in(store: Store, stream: str, what: str, at: int | datetime) -> Moment:
    """The moment in the log of a version of a stream, or of a time. Raises `NotFound` for a moment at which
    the stream did not exist; `what` describes the stream."""
    if isinstance(at, datetime):
        when = microseconds(at.astimezone())
        created = next((one.at for one in store.entries(stream)), 0)
        if when < created:
            raise NotFound(f"{what} did not exist then: it was created at {instant(created).isoformat()}")
        return Moment(when)
    last = 0
    for entry in store.entries(stream):
        last = entry.version
        if last == at:
            return Moment(entry.at, entry.position)
    raise NotFound(f"{what} has no event {at}; its versions are 1 to {last}")


def cut(store: Store, stream: str, moment: Moment) -> list[Recorded]:
    """The events of a stream up to a moment, with captured output."""
    whole = store.load(stream, output=True)
    if moment.position is None:
        # The times of a stream need not be in order: output may be written after an event that it preceded.
        return whole[: max((n for n, one in enumerate(whole, 1) if one.at <= moment.at), default=0)]
    return whole[: sum(entry.position <= moment.position for entry in store.entries(stream))]


def read(at: At) -> At:
    """Convert a text that is a version or a time; return anything else as it is."""
    if not isinstance(at, str):
        return at
    text = at
    if not text.strip():
        raise BadInput("`at` is empty; give a version, a time, a checkpoint or a step")
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


class PastReader(Reader):
    """Reads one store as it was at a moment. Texts are redacted as they are today."""

    def __init__(self, store: Store, home: Path, redactor: Callable[[], Redactor], moment: Moment) -> None:
        super().__init__(store, home, redactor)
        self.moment = self._moment = moment
        self._cut: dict[str, list[Recorded]] = {}

    def recorded(self, run_id: str) -> list[Recorded]:
        """The history up to the moment, with captured output."""
        if run_id not in self._cut:
            self._cut[run_id] = cut(self._store, run_id, self._moment)
        return self._cut[run_id]

    def history(self, run_id: str) -> Sequence[Recorded]:
        return [one for one in self.recorded(run_id) if type(one.event) is not e.OutputCaptured]

    def run(self, run_id: str) -> RunInfo | None:
        state = fold(self.recorded(run_id))
        now = self._store.run(run_id)
        if state is None or now is None:
            return None
        row = run_row(run_id, state.epoch, state, now.number)
        if row.owner:
            self._alive[row.owner] = self._lived(run_id, row.owner)
        return self._infos([row])[0]

    def _lived(self, run_id: str, owner: str) -> bool:
        """Whether the owner of the run was alive at the moment: its last sign of life, as the next owner
        recorded it, or its last event, was not before it."""
        seen = max(
            (one.at for one in self.recorded(run_id) if not isinstance(one.event, OF_OTHERS)), default=0
        )
        if seen >= self._moment.at:
            return True
        later = self._store.load(run_id, after=len(self.recorded(run_id)))
        for event, _, at in later:
            if isinstance(event, (e.RunClaimed, e.RunCancelled, e.RunPaused)) and event.seen_at:
                return event.seen_at >= self._moment.at
            if not isinstance(event, OF_OTHERS):
                return at >= self._moment.at
        return is_alive(self._home, owner) or last_seen_us(self._home, owner) >= self._moment.at

    def waiting_children(self, run_id: str) -> list[str]:
        children = [self.run(row.id) for row in self._store.runs(parent=run_id)]
        return [child.id for child in children if child is not None and child.status == "waiting"]

    def is_stray(self, run_id: str) -> bool:
        state = fold(self.history(run_id))
        while state is not None and state.parent:
            parent = fold(self.history(state.parent))
            if parent is None or all(step.child != run_id for step in parent.steps.values()):
                return True
            run_id, state = state.parent, parent
        return False

    def events(self, run_id: str, after: int = 0) -> Iterator[LogEvent]:
        last = len(self.recorded(run_id))
        return (event for event in super().events(run_id, after) if event.version <= last)

    def logs(self, run_id: str, step: str | None = None, after: int = 0) -> Iterator[LogLine]:
        last = len(self.recorded(run_id))
        return (line for line in super().logs(run_id, step, after) if line.version <= last)
