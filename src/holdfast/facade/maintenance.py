"""The side of `Holdfast` that keeps the store: backups, archives, disk usage, checks."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import wiring
from holdfast.errors import BadInput
from holdfast.facade.open_store import OpenStore, blocking

if TYPE_CHECKING:
    from holdfast.operations.archiving import Archive
    from holdfast.operations.disk_usage import Coverage, FilesVerified, Usage
    from holdfast.operations.quota import Collected
    from holdfast.store.sqlite.backup import Backup, Progress
    from holdfast.views.audit import Audit, Repaired
    from holdfast.views.check import Check

_MB = 1024 * 1024
ARCHIVE_AFTER = timedelta(days=30)


class Maintenance(OpenStore):
    """Methods on the store as a whole."""

    @blocking
    def backup(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        force: bool = False,
        files: bool | None = None,
        on_progress: Progress | None = None,
    ) -> Backup:
        """Copy the store while runs continue, verify the copy, and return the `Backup`, which is a path. The
        files that runs have saved are in it, unless `files` or the setting `backup_files` says otherwise.

        `path` is a directory or a file; without it the backup goes to the backup directory, and the
        oldest ones there are removed. A file that is there and is no backup is overwritten only with
        `force`. `on_progress` is called with what is being done, how much of it is done, and of how much.
        Raises `StoreFull` if there is no room; then there is no file.
        """
        return wiring.back_up(
            self._place, self._store, path, force=force, files=files, clock=self._clock, progress=on_progress
        )

    @blocking
    def backups(
        self, directory: str | os.PathLike[str] | None = None, *, on_progress: Progress | None = None
    ) -> list[Backup]:
        """The backups in `directory`, or in the backup directory, the newest first. Each file is read from
        its beginning to its end: `fault` says which cannot be relied on. Raises `NotFound` if there is no
        such directory."""
        from holdfast.facade.storeless import backups_in

        return backups_in(wiring.backup_directory(self._place), directory, on_progress)

    @blocking
    def archive(
        self,
        older_than: datetime | timedelta = ARCHIVE_AFTER,
        *,
        failed: bool = False,
        directory: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Archive:
        """Move runs that ended, with their child runs, out of the store into a new file. It is whole, and
        read back, before anything is removed; the log keeps a record of each run.

        older_than   only runs that have not changed since then, or for so long
        failed       failed runs, too: they can no longer be resumed then
        directory    where the file goes (default: `archive` in the store's directory)
        dry_run      nothing is written; returns what would be moved
        on_progress  called with how many runs were written, and how many there are
        """
        from holdfast.clock import SystemClock
        from holdfast.operations import archiving

        before = older_than if isinstance(older_than, datetime) else datetime.now(UTC) - older_than
        if dry_run:
            return archiving.preview(self._store, self.home, before, failed=failed)
        self._refuse_read_only()
        to = (self.home / "archive" if directory is None else Path(directory)).absolute()
        return archiving.archive(
            self._store, self.home, before, to, self._clock or SystemClock(), failed=failed,
            progress=on_progress,
        )  # fmt: skip

    @blocking
    def verify(self, *, on_progress: Progress | None = None) -> Audit:
        """Check every event against its hash, and every head and table against the log. Returns how much
        there is, and each place that does not verify. `on_progress` is called once, with how many events
        there are."""
        from holdfast.store.sqlite.database_file import extent
        from holdfast.views.audit import Audit

        size = extent(self._store.path)
        if on_progress is not None:
            on_progress("checking", 0, size.events)
        return Audit(size.streams, size.events, tuple(self._store.verify()))

    @blocking
    def repair(self, *, on_progress: Progress | None = None) -> Repaired:
        """Rebuild all tables from the log, then verify the whole store."""
        from holdfast.views.audit import Repaired

        self._refuse_read_only()
        self._store.rebuild()
        return Repaired(self.verify(on_progress=on_progress))

    @blocking
    def du(self) -> Usage:
        """How much the store takes on the disk: the log, what is saved of files, backups."""
        from holdfast.operations.disk_usage import usage

        return usage(self._engine, wiring.quota_of(self._place))

    @blocking
    def gc(self, quota: float | None = None, *, dry_run: bool = False) -> Collected:
        """Make deletions final, so that `undo` no longer brings back what they deleted, and remove what is
        saved of files and no snapshot in the log needs any more. Beyond the quota (in MB;
        the setting `workspace_quota_mb` if it is not given), the snapshots of ended runs go too, the oldest
        first: those runs can no longer be rewound with their files. Waits until no process saves files. With
        `dry_run` nothing is removed; returns what would be."""
        from holdfast.operations import quota as quotas

        if quota is not None and quota < 0:
            raise BadInput(f"gc(quota={quota}): not less than 0 MB")
        limit = wiring.quota_of(self._place) if quota is None else int(quota * _MB)
        if dry_run:
            return quotas.preview(self._engine, limit)
        done = quotas.collect(self._to_write(), limit)
        if done.final:
            from holdfast.search.index_file import remove_index

            remove_index(self.home)  # it has the words of what is deleted now
        return done

    @blocking
    def coverage(self) -> Coverage:
        """The coverage of a snapshot of the workspace: what it holds, what it leaves out, and why."""
        from holdfast.operations.disk_usage import coverage

        return coverage(self._engine.files)

    @blocking
    def verify_files(self) -> FilesVerified:
        """Read all that is saved of files, and check that every snapshot of the log is whole."""
        from holdfast.operations.disk_usage import verify

        return verify(self._engine)

    @blocking
    def doctor(self) -> list[Check]:
        """Check the store and the machine under it."""
        from holdfast.facade.health import examine_open

        return list(examine_open(self._place, self._store))
