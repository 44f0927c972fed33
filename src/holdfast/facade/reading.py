"""The reading side of `Holdfast`: runs, steps, gates, events and output. Needs no engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, overload

from holdfast import typed_values
from holdfast.colour import refuse_in_loop
from holdfast.errors import BadInput, BadWorkspace
from holdfast.facade.open_store import OpenStore, blocking, several

if TYPE_CHECKING:
    from holdfast.engine.outside.records import LogEvent
    from holdfast.operations.checkpoints import CheckpointInfo
    from holdfast.operations.diffing import Differing
    from holdfast.operations.operation_log import OperationInfo
    from holdfast.plans.analyzer import Analysis
    from holdfast.plans.model import Plan
    from holdfast.store.port import OwnerRow
    from holdfast.views.gate import Gate
    from holdfast.views.records import LogLine, RunInfo, RunPage, StepInfo
    from holdfast.views.run_detail import RunDetail
    from holdfast.views.run_statistics import RunStatistics
    from holdfast.views.statistics import Statistics
    from holdfast.views.step_detail import StepDetail
    from holdfast.workspace.snapshots.file_diff import FileDiff


class Reading(OpenStore):
    """Methods that change nothing."""

    @blocking
    def find(self, text: str) -> str:
        """The id that `text` is, or is the only possible beginning of. `#42` is the run with that short
        number; so is `42`, if no id begins so. Raises `RunNotFound` with the nearest ids, `RunArchived`,
        `AmbiguousRunId`."""
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
    def get(self, run_id: str, *, at: int | datetime | str | None = None) -> RunDetail:
        """A run: its status, input, title and times; its steps, gates, result and error, which are read from
        its history when they are first used. With `at`, as it was then: at a version, a time (without an
        offset, the time here), a checkpoint, or when a step had ended (`before:STEP`: began). Raises
        `RunNotFound`, and `NotFound` if the run has no such moment."""
        known = self._known(run_id)
        return self._reader.detail(known) if at is None else self._reader.past(known, at)

    @blocking
    def plan(self, run_id: str) -> Plan | None:
        """The plan that a run executes, redacted; None if it is no run of a plan."""
        import msgspec

        from holdfast.plans.model import Plan
        from holdfast.plans.stored import stored_plan

        stored = stored_plan(self._store, self._known(run_id))
        if stored is None:
            return None
        shown = self._reader.redactor.redact_value(msgspec.to_builtins(stored.plan))
        return typed_values.convert(shown, Plan)

    @blocking
    def plan_changes(self, run_id: str) -> list[str]:
        """The differences between a run's plan and its file, one line for each step. The run continues with
        the plan that it was started with. Empty if the file is the same, or gone."""
        from holdfast.plans.stored import file_changes, stored_plan

        stored = stored_plan(self._store, self._known(run_id))
        return [] if stored is None else [self._reader.redactor.redact(one) for one in file_changes(stored)]

    @blocking
    def runs(
        self,
        status: str | Sequence[str] | None = None,
        resumable: bool | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """Runs, the newest first. `resumable`: those that `resume` would continue, or those it would not."""
        return self._reader.runs(status=several(status), resumable=resumable, limit=limit)

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
        resumable     those that `resume` would continue
        workflow      a pattern with `*`, `?` and `[...]`
        parent        the children of that run; empty: runs that are no children
        since, until  runs that changed since, that were created before
        """
        return self._reader.page(
            status=several(status), resumable=resumable, workflow=workflow, parent=parent, since=since,
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
        """The output of the commands and steps of a run after the version `after`, redacted."""
        return list(self._reader.logs(self._known(run_id), step, after))

    def follow(self, run_id: str, after: int | None = None) -> Iterator[LogEvent]:
        """The events of a run and of its child runs as they are written, whichever process executes it: those
        after the version `after`, or from now on. Ends when the run ends, stops, or waits for a person."""
        from holdfast.views.following import FollowedRun

        return FollowedRun(self._reader, self.get(run_id), after).events()

    def follow_logs(self, run_id: str, step: str | None = None, after: int = 0) -> Iterator[LogLine]:
        """The output of a run as it is printed; ends when the run ends, stops, or needs a person."""
        from holdfast.views.following import output

        refuse_in_loop("hf.follow_logs() blocks", "await hf.aio.logs(...)")
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

    @overload
    def stats(self, /, since: datetime | None = None, *, run_id: None = None) -> Statistics: ...
    @overload
    def stats(self, /, since: None = None, *, run_id: str) -> RunStatistics: ...
    @overload
    def stats(
        self, /, since: datetime | None = None, *, run_id: str | None = None
    ) -> Statistics | RunStatistics: ...
    @blocking
    def stats(
        self, since: datetime | None = None, *, run_id: str | None = None
    ) -> Statistics | RunStatistics:
        """Counts of runs, durations, steps and attempts, of runs that changed since then; with `run_id`, what
        that run has used: time, attempts, tokens, money, bytes and files, by step and in all."""
        if run_id is None:
            from holdfast.views.statistics import statistics

            return statistics(self._reader, str(self._store.path), since)
        if since is not None:
            raise BadInput("stats() of one run takes no `since`: it counts the whole run")
        from holdfast.operations import file_counts
        from holdfast.views.run_statistics import run_statistics

        detail = self._reader.detail(self._known(run_id))
        return run_statistics(detail, lambda before, after: file_counts.changed(self._engine, before, after))

    @blocking
    def diff(self, run_id: str, a: str, b: str | None = None) -> list[FileDiff]:
        """The changes of the files from `a` to `b`, or to the files on disk. Each is a checkpoint, a step
        (as it left the files), `before:STEP`, or `disk`."""
        with self.differing(run_id, a, b) as found:
            return list(found.diffs())

    @blocking
    def analyze(self, text: str, limit: int = 10) -> Analysis:
        """Analyze the text of a task, without a model: its keywords, the files it
        names, patterns to search for, and the `limit` files that are most likely to matter."""
        from holdfast.facade.analyzing import analysis_of

        root = self._engine.files.root
        if root is None:
            raise BadWorkspace(
                f"analyze(): {self._engine.files.why_none}; name one with the setting `workspace`"
            )
        return analysis_of(root, text, limit, self.home)

    @contextmanager
    def differing(self, run_id: str, a: str, b: str | None = None) -> Iterator[Differing]:
        """The same for many files, which are read one at a time: `names` of both moments, `changes`,
        `diffs()`."""
        from holdfast.operations.diffing import differing
        from holdfast.views.unknown_point import explained

        refuse_in_loop("hf.differing() blocks", "await hf.aio.diff(...)")
        with explained(self._reader), differing(self._engine, self._known(run_id), a, b) as found:
            yield found
