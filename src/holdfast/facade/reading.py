"""The reading side of `Holdfast`: runs, steps, gates, events and output. Needs no engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.facade.opened import Opened, blocking

if TYPE_CHECKING:
    from holdfast.engine.outside.records import LogEvent
    from holdfast.operations.checkpoints import CheckpointInfo
    from holdfast.operations.diffing import Differing
    from holdfast.operations.operation_log import OperationInfo
    from holdfast.store.port import OwnerRow
    from holdfast.views.gate import Gate
    from holdfast.views.records import LogLine, RunInfo, RunPage, StepInfo
    from holdfast.views.run_detail import RunDetail
    from holdfast.views.statistics import Statistics
    from holdfast.views.step_detail import StepDetail
    from holdfast.workspace.snapshots.file_diff import FileDiff


class Reading(Opened):
    """Methods that change nothing."""

    @blocking
    def find(self, text: str) -> str:
        """The id that `text` is, or is the only possible beginning of. Raises `RunNotFound` with the nearest
        ids, `RunArchived`, `AmbiguousRunId`."""
        return self._reader.find(text)

    @blocking
    def ids(self, beginning: str, limit: int = 100) -> list[str]:
        """The ids of runs that begin so, at most `limit` of them."""
        return self._store.run_ids(beginning, limit)

    @blocking
    def has(self, run_id: str) -> bool:
        """Whether there is a run with this id."""
        return self._reader.run(run_id) is not None

    @blocking
    def get(self, run_id: str) -> RunDetail:
        """A run: its status, input, title and times; its steps, gates, result and error, which are read from
        its history when they are first used. Raises `RunNotFound`."""
        return self._reader.detail(self._known(run_id))

    @blocking
    def runs(
        self,
        status: str | Sequence[str] | None = None,
        resumable: bool | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """Runs, the newest first. `resumable`: those that `resume` would move on, or those it would not."""
        return self._reader.runs(status=_several(status), resumable=resumable, limit=limit)

    @blocking
    def page(
        self,
        *,
        status: str | Sequence[str] | None = None,
        resumable: bool = False,
        workflow: str | None = None,
        parent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> RunPage:
        """The newest runs that fit, and how many fit.

        status        any of these; `interrupted` counts as one
        resumable     what `resume` would move on
        workflow      a pattern with `*`, `?` and `[...]`
        parent        the children of that run; empty: runs that are no children
        since, until  runs that changed since, that were created before
        """
        return self._reader.page(
            status=_several(status), resumable=resumable, workflow=workflow, parent=parent, since=since,
            until=until, limit=limit,
        )  # fmt: skip

    @blocking
    def waits(self, runs: Sequence[RunInfo]) -> dict[str, str]:
        """Run → what it waits for, in words, of those that wait at a gate of their own."""
        return self._reader.wants(runs)

    @blocking
    def steps(self, run_id: str, named: str | None = None) -> list[StepInfo]:
        """A run's steps, in the order in which they were last changed; those of one name, or raise `NotFound`
        with the nearest names."""
        return self._reader.steps(self._known(run_id), named)

    @blocking
    def step(self, run_id: str, step: str) -> StepDetail:
        """One step: its arguments, attempts, output and result. `step` is a key, a name, or the beginning of
        one. Raises `NotFound` with the nearest names, `BadInput` if several are meant."""
        return self._reader.step(self._known(run_id), step)

    @blocking
    def gates(self, run_id: str | None = None) -> list[Gate]:
        """The open gates of a run and of its child runs, or of all runs that wait: what each shows, its
        digest, and since when it is open."""
        return self._reader.gates(None if run_id is None else self._known(run_id))

    @blocking
    def events(self, run_id: str, after: int = 0) -> list[LogEvent]:
        """Everything that happened to a run, in order; what came after the version `after`."""
        return list(self._reader.events(self._known(run_id), after))

    @blocking
    def logs(self, run_id: str, step: str | None = None, after: int = 0) -> list[LogLine]:
        """What the commands and steps of a run printed, redacted; what came after the version `after`."""
        return list(self._reader.logs(self._known(run_id), step, after))

    def follow(self, run_id: str, after: int | None = None) -> Iterator[LogEvent]:
        """The events of a run and of its child runs as they are written, whichever process executes it: those
        after the version `after`, or from now on. Ends when the run ends, stops, or waits for a person."""
        from holdfast.views.following import Following

        return Following(self._reader, self.get(run_id), after).events()

    def follow_logs(self, run_id: str, step: str | None = None, after: int = 0) -> Iterator[LogLine]:
        """What a run prints, as it prints it; ends when the run ends, stops, or needs a person."""
        from holdfast.views.following import output

        return output(self._reader, self._known(run_id), step, after)

    @blocking
    def owners(self) -> list[OwnerRow]:
        """The live processes that execute runs of this store."""
        return self._reader.live_owners()

    def pulse(self) -> int:
        """A number that changes with every commit to the store."""
        return self._reader.pulse()

    @blocking
    def checkpoints(self, run_id: str, *, every: bool = False) -> list[CheckpointInfo]:
        """The named points to which the run can be rewound, in order; `every` one, also those of generations
        that were left, whose `live` is False."""
        from holdfast.operations.checkpoints import checkpoints

        return checkpoints(self._store, self._reader.redactor, self._known(run_id), every=every)

    @blocking
    def operations(self, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
        """Operations on runs, which can be undone, the newest first."""
        from holdfast.operations import operation_log

        return operation_log.log(self._store, run_id=run_id, limit=limit)

    @blocking
    def stats(self, since: datetime | None = None) -> Statistics:
        """Counts of runs, durations, steps and attempts, of runs that changed since then."""
        from holdfast.views.statistics import statistics

        return statistics(self._reader, str(self._store.path), since)

    @blocking
    def diff(self, run_id: str, a: str, b: str | None = None) -> list[FileDiff]:
        """What changed in the files from `a` to `b`, or to what is on the disk. Each is a checkpoint, a step
        (as it left the files), `before:STEP`, or `disk`."""
        with self.differing(run_id, a, b) as found:
            return list(found.diffs())

    @contextmanager
    def differing(self, run_id: str, a: str, b: str | None = None) -> Iterator[Differing]:
        """The same for many files, which are read one at a time: `names` of both moments, `changes`,
        `diffs()`."""
        from holdfast.operations.diffing import differing
        from holdfast.views.unknown_point import explained

        with explained(self._reader), differing(self._engine, self._known(run_id), a, b) as found:
            yield found


def _several(status: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if status is None else (status,) if isinstance(status, str) else tuple(status)
