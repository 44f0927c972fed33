"""The side of `Holdfast` that keeps the store: backups, archives, disk usage, checks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import wiring
from holdfast.facade.opened import Opened, blocking

if TYPE_CHECKING:
    from holdfast.store.sqlite.backup import Progress


class Keeping(Opened):
    """Methods on the store as a whole."""

    @blocking
    def backup(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        force: bool = False,
        files: bool | None = None,
        on_progress: Progress | None = None,
    ) -> Path:
        """Copy the store while runs continue, verify the copy, and return its path. The files that runs have
        saved are in it, unless `files` or the setting `backup_files` says otherwise.

        `path` is a directory or a file; without it the backup goes to the backup directory, and the
        oldest ones there are removed. A file that is there and is no backup is overwritten only with
        `force`. Raises `StoreFull` if there is no room; then there is no file.
        """
        made, _ = wiring.back_up(
            self._place, self._store, path, force=force, files=files, clock=self._clock, progress=on_progress
        )
        return made.path
