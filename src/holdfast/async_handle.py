"""`hf.aio`: the methods of a Holdfast that do I/O, as coroutines. Written by `tools/async_handle.py`: change
the façade, and write it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.coroutines import Coroutines
from holdfast.facade.keeping import ARCHIVE_AFTER
from holdfast.facade.steering import PATIENCE_S, UNSET

if TYPE_CHECKING:
    import os
    import threading
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta
    from typing import IO, Any

    from holdfast.engine.outside.records import LogEvent
    from holdfast.engine.runs.run import Run
    from holdfast.facade.serving import OnReplayed, OnServed
    from holdfast.operations.archiving import Archive
    from holdfast.operations.checkpoints import CheckpointInfo
    from holdfast.operations.disk_usage import Coverage, FilesVerified, Usage
    from holdfast.operations.forking import Fork
    from holdfast.operations.operation_log import OperationInfo
    from holdfast.operations.quota import Collected
    from holdfast.operations.replaying import Replay
    from holdfast.operations.restoring import Restored
    from holdfast.operations.rewinding import Rewind
    from holdfast.operations.undoing import Undo
    from holdfast.serving.resumption import Resumption
    from holdfast.serving.served import Served, Taken
    from holdfast.store.port import OwnerRow
    from holdfast.store.sqlite.backup import Backup, Progress
    from holdfast.views.audit import Audit, Repaired
    from holdfast.views.check import Check
    from holdfast.views.feed import FeedPage
    from holdfast.views.gate import Gate
    from holdfast.views.records import LogLine, RunInfo, RunPage, StepInfo
    from holdfast.views.restored_backup import RestoredBackup
    from holdfast.views.run_detail import RunDetail
    from holdfast.views.statistics import Statistics
    from holdfast.views.step_detail import StepDetail
    from holdfast.views.trusted import Granted, TrustRecord
    from holdfast.workspace.snapshots.file_diff import FileDiff


class AsyncHoldfast(Coroutines):
    """Coroutines, each of which calls the method of the same name in a thread."""

    async def recover(self) -> list[Run[Any]]:
        """Drive every run whose owner is dead to its end, a few at a time. Opening alone never does."""
        return await self._call(self._holdfast.recover)

    async def serve(
        self,
        *,
        follow: bool = False,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        on_started: Callable[[str], None] | None = None,
        on_served: OnServed | None = None,
        on_taken: Callable[[Taken], None] | None = None,
        on_note: Callable[[str], None] | None = None,
        stdout: IO[Any] | int | None = None,
        stop: threading.Event | None = None,
    ) -> Served:
        """Resume every run that can continue without a person: interrupted ones, those whose gate was
        decided, whose signal came or whose sleep is over. Failed runs, and those that wait for a person,
        are left alone."""
        return await self._call(
            self._holdfast.serve,
            follow=follow,
            python=python,
            root=root,
            on_started=on_started,
            on_served=on_served,
            on_taken=on_taken,
            on_note=on_note,
            stdout=stdout,
            stop=stop,
        )

    async def replay(
        self,
        run_id: str | None = None,
        *,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        on_note: Callable[[str], None] | None = None,
        on_progress: OnReplayed | None = None,
    ) -> list[Replay]:
        """Check the history of a run against the code as it is now, without running a step; without a run,
        of all that can be resumed, the oldest first."""
        return await self._call(
            self._holdfast.replay, run_id, python=python, root=root, on_note=on_note, on_progress=on_progress
        )

    async def resumption(
        self,
        run_id: str,
        *,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        passed_on: bool = False,
        on_note: Callable[[str], None] | None = None,
    ) -> Resumption:
        """What a process must be to resume this run alone: its interpreter and its working directory.
        `passed_on`: this process was started for this run, and is not replaced. Raises `CodeNotFound` if
        that directory is gone, `NotFound` if `python` cannot be used."""
        return await self._call(
            self._holdfast.resumption, run_id, python=python, root=root, passed_on=passed_on, on_note=on_note
        )

    async def approve(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
        *,
        snapshot: str | None = None,
    ) -> str:
        """Approve what a run shows; returns the gate's identity. `gate` is needed if several are open;
        `digest`, or its first characters, is that of what you have seen; `snapshot` that of the files: if
        the workspace differs from it now, `GateError` names the paths. Raises `GateError`."""
        return await self._call(self._holdfast.approve, run_id, gate, digest, by, comment, snapshot=snapshot)

    async def reject(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
    ) -> str:
        """Reject what a run shows; as `approve` otherwise."""
        return await self._call(self._holdfast.reject, run_id, gate, digest, by, comment)

    async def signal(self, run_id: str, name: str, value: Any = None, *, by: str | None = None) -> bool:
        """Give a run the value that its `wait_for(name)` waits for; returns whether one did. Otherwise it is
        kept for the next one."""
        return await self._call(self._holdfast.signal, run_id, name, value, by=by)

    async def pause(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        """Stop a run at its next step boundary, until it is resumed; returns its status, which is `paused`
        unless its owner took longer than `patience` seconds to get there."""
        return await self._call(self._holdfast.pause, run_id, reason, by=by, patience=patience)

    async def cancel(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        """End a run, the commands and async steps that run in it, and its child runs; returns its status,
        which is `cancelled` unless its owner took longer than `patience` seconds to end it."""
        return await self._call(self._holdfast.cancel, run_id, reason, by=by, patience=patience)

    async def settle(
        self,
        run_id: str,
        step: str,
        *,
        done: Any = UNSET,
        retry: bool = False,
        fail: str | None = None,
        by: str | None = None,
    ) -> str:
        """Settle a step in doubt: `done=VALUE`, `retry=True` or `fail="why"`; returns the step's key."""
        return await self._call(self._holdfast.settle, run_id, step, done=done, retry=retry, fail=fail, by=by)

    async def rewind(
        self,
        run_id: str,
        to: str,
        *,
        only: Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
        theirs: bool = False,
        files: bool = True,
        partial: bool = False,
        git: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Rewind:
        """Go back to the checkpoint or step `to`, which is kept: what was recorded after it no longer
        counts, and runs again, with other idempotency keys, when the run is resumed. The files of the
        workspace are restored with it, except those that another person or program changed. `undo`
        reverses it."""
        return await self._call(
            self._holdfast.rewind,
            run_id,
            to,
            only=only,
            keep=keep,
            theirs=theirs,
            files=files,
            partial=partial,
            git=git,
            rerun_once=rerun_once,
            dry_run=dry_run,
            plan=plan,
            by=by,
        )

    async def undo(
        self,
        operation: str | None = None,
        *,
        files: bool = True,
        partial: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Undo:
        """Undo an operation, also an undo, with its files; without its id, your own last one. The other
        arguments are those of `rewind`."""
        return await self._call(
            self._holdfast.undo,
            operation,
            files=files,
            partial=partial,
            rerun_once=rerun_once,
            dry_run=dry_run,
            plan=plan,
            by=by,
        )

    async def redo(
        self,
        *,
        files: bool = True,
        partial: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Undo:
        """Undo your last undo that still stands."""
        return await self._call(
            self._holdfast.redo,
            files=files,
            partial=partial,
            rerun_once=rerun_once,
            dry_run=dry_run,
            plan=plan,
            by=by,
        )

    async def fork(
        self,
        run_id: str,
        at: str,
        into: str | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Fork:
        """A new run, paused, that has the results of all that `run_id` had done before the step `at`, or up
        to and with the checkpoint `at`. Its id is `into`, or a new one; `resume` starts it."""
        return await self._call(
            self._holdfast.fork, run_id, at, into, directory=directory, dry_run=dry_run, plan=plan, by=by
        )

    async def restore(
        self,
        snapshot: str,
        *,
        only: Sequence[str] = (),
        partial: bool = False,
        dry_run: bool = False,
        by: str | None = None,
    ) -> Restored:
        """Make the files what they were in a snapshot: its id, or the beginning of it. What is overwritten
        is saved first, and `undo` brings it back."""
        return await self._call(
            self._holdfast.restore, snapshot, only=only, partial=partial, dry_run=dry_run, by=by
        )

    async def find(self, text: str) -> str:
        """The id that `text` is, or is the only possible beginning of. Raises `RunNotFound` with the nearest
        ids, `RunArchived`, `AmbiguousRunId`."""
        return await self._call(self._holdfast.find, text)

    async def ids(self, beginning: str, limit: int = 100) -> list[str]:
        """The ids of runs that begin so, at most `limit` of them."""
        return await self._call(self._holdfast.ids, beginning, limit)

    async def has(self, run_id: str) -> bool:
        """Whether there is a run with this id."""
        return await self._call(self._holdfast.has, run_id)

    async def get(self, run_id: str) -> RunDetail:
        """A run: its status, input, title and times; its steps, gates, result and error, which are read from
        its history when they are first used. Raises `RunNotFound`."""
        return await self._call(self._holdfast.get, run_id)

    async def runs(
        self,
        status: str | Sequence[str] | None = None,
        resumable: bool | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """Runs, the newest first. `resumable`: those that `resume` would move on, or those it would not."""
        return await self._call(self._holdfast.runs, status, resumable, limit)

    async def page(
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
        """The newest runs that fit, and how many fit."""
        return await self._call(
            self._holdfast.page,
            status=status,
            resumable=resumable,
            workflow=workflow,
            parent=parent,
            since=since,
            until=until,
            limit=limit,
        )

    async def waits(self, runs: Sequence[RunInfo]) -> dict[str, str]:
        """Run → what it waits for, in words, of those that wait at a gate of their own."""
        return await self._call(self._holdfast.waits, runs)

    async def steps(self, run_id: str, named: str | None = None) -> list[StepInfo]:
        """A run's steps, in the order in which they were last changed; those of one name, or raise
        `NotFound` with the nearest names."""
        return await self._call(self._holdfast.steps, run_id, named)

    async def step(self, run_id: str, step: str) -> StepDetail:
        """One step: its arguments, attempts, output and result. `step` is a key, a name, or the beginning of
        one. Raises `NotFound` with the nearest names, `BadInput` if several are meant."""
        return await self._call(self._holdfast.step, run_id, step)

    async def gates(self, run_id: str | None = None) -> list[Gate]:
        """The open gates of a run and of its child runs, or of all runs that wait: what each shows, its
        digest, and since when it is open."""
        return await self._call(self._holdfast.gates, run_id)

    async def events(self, run_id: str, after: int = 0) -> list[LogEvent]:
        """Everything that happened to a run, in order; what came after the version `after`."""
        return await self._call(self._holdfast.events, run_id, after)

    async def logs(self, run_id: str, step: str | None = None, after: int = 0) -> list[LogLine]:
        """What the commands and steps of a run printed, redacted; what came after the version `after`."""
        return await self._call(self._holdfast.logs, run_id, step, after)

    async def owners(self) -> list[OwnerRow]:
        """The live processes that execute runs of this store."""
        return await self._call(self._holdfast.owners)

    async def checkpoints(self, run_id: str, *, every: bool = False) -> list[CheckpointInfo]:
        """The named points to which the run can be rewound, in order; `every` one, also those of generations
        that were left, whose `live` is False."""
        return await self._call(self._holdfast.checkpoints, run_id, every=every)

    async def operations(self, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
        """Operations on runs, which can be undone, the newest first."""
        return await self._call(self._holdfast.operations, run_id, limit)

    async def stats(self, since: datetime | None = None) -> Statistics:
        """Counts of runs, durations, steps and attempts, of runs that changed since then."""
        return await self._call(self._holdfast.stats, since)

    async def diff(self, run_id: str, a: str, b: str | None = None) -> list[FileDiff]:
        """What changed in the files from `a` to `b`, or to what is on the disk. Each is a checkpoint, a step
        (as it left the files), `before:STEP`, or `disk`."""
        return await self._call(self._holdfast.diff, run_id, a, b)

    async def feed(
        self, after: str = "", limit: int = 1000, types: Sequence[str] | None = None, wait_s: float = 0.0
    ) -> FeedPage:
        """A page of the events of all streams, in the order of the log, redacted. It has only what is on the
        disk for good."""
        return await self._call(self._holdfast.feed, after, limit, types, wait_s)

    async def backup(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        force: bool = False,
        files: bool | None = None,
        on_progress: Progress | None = None,
    ) -> Backup:
        """Copy the store while runs continue, verify the copy, and return the `Backup`, which is a path. The
        files that runs have saved are in it, unless `files` or the setting `backup_files` says otherwise."""
        return await self._call(
            self._holdfast.backup, path, force=force, files=files, on_progress=on_progress
        )

    async def backups(
        self, directory: str | os.PathLike[str] | None = None, *, on_progress: Progress | None = None
    ) -> list[Backup]:
        """The backups in `directory`, or in the backup directory, the newest first. Each file is read from
        its beginning to its end: `fault` says which cannot be relied on. Raises `NotFound` if there is no
        such directory."""
        return await self._call(self._holdfast.backups, directory, on_progress=on_progress)

    async def archive(
        self,
        older_than: datetime | timedelta = ARCHIVE_AFTER,
        *,
        failed: bool = False,
        directory: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Archive:
        """Move runs that ended, with their child runs, out of the store into a new file. It is whole, and
        read back, before anything is removed; the log keeps a record of each run."""
        return await self._call(
            self._holdfast.archive,
            older_than,
            failed=failed,
            directory=directory,
            dry_run=dry_run,
            on_progress=on_progress,
        )

    async def verify(self, *, on_progress: Progress | None = None) -> Audit:
        """Check every event against its hash, and every head and table against the log. Returns how much
        there is, and each place that does not verify. `on_progress` is called once, with how many events
        there are."""
        return await self._call(self._holdfast.verify, on_progress=on_progress)

    async def repair(self, *, on_progress: Progress | None = None) -> Repaired:
        """Make the tables of runs, steps and operations again from the log, then verify all of it."""
        return await self._call(self._holdfast.repair, on_progress=on_progress)

    async def du(self) -> Usage:
        """How much the store takes on the disk: the log, what is saved of files, backups."""
        return await self._call(self._holdfast.du)

    async def gc(self, quota: float | None = None, *, dry_run: bool = False) -> Collected:
        """Remove what is saved of files and no snapshot in the log needs any more. Beyond the quota (in MB;
        the setting `workspace_quota_mb` if it is not given), the snapshots of ended runs go too, the
        oldest first: those runs can no longer be rewound with their files. Waits until no process saves
        files. With `dry_run` nothing is removed; returns what would be."""
        return await self._call(self._holdfast.gc, quota, dry_run=dry_run)

    async def coverage(self) -> Coverage:
        """What a snapshot of the workspace holds, and what it does not, with the reason."""
        return await self._call(self._holdfast.coverage)

    async def verify_files(self) -> FilesVerified:
        """Read all that is saved of files, and check that every snapshot of the log is whole."""
        return await self._call(self._holdfast.verify_files)

    async def doctor(self) -> list[Check]:
        """Check the store and the machine under it."""
        return await self._call(self._holdfast.doctor)

    async def restore_backup(
        self,
        file: str | os.PathLike[str],
        home: str | os.PathLike[str] | None,
        *,
        on_progress: Progress | None = None,
    ) -> RestoredBackup:
        """Verify a backup and make it the store in `home` (None: the project's own); the store that is there
        is kept aside. `file` is a path, or the name of one that `backups` gives."""
        return await self._call(self._holdfast.restore_backup, file, home, on_progress=on_progress)

    async def trust(self, directory: str | os.PathLike[str] | None = None) -> Granted:
        """Allow the settings of a project, or a store, that came from somewhere else: `directory`, or the
        project of the working directory. If its settings or its database change, it needs trust again.
        Raises `NotFound` if there is nothing that needs trust."""
        return await self._call(self._holdfast.trust, directory)

    async def untrust(self, directory: str | os.PathLike[str] | None = None) -> list[str]:
        """Undo `trust` for `directory`, which need not exist any more, or for the project of the working
        directory; returns what is no longer trusted. Raises `NotFound` if it was not."""
        return await self._call(self._holdfast.untrust, directory)

    async def trusted(self) -> list[TrustRecord]:
        """Every project and store that the user trusts, and whether each is still what was trusted."""
        return await self._call(self._holdfast.trusted)
