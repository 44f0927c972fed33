"""The backups of a place: where they are, and how one is made and restored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast import project
from holdfast.clock import Clock, SystemClock, instant
from holdfast.errors import NotFound
from holdfast.wiring.place import Place, may_have_store
from holdfast.wiring.place_trust import is_own, prove_own

if TYPE_CHECKING:
    from holdfast.store.sqlite.attachment import Attachment
    from holdfast.store.sqlite.backup import Backup, Progress
    from holdfast.store.sqlite.store import SqliteStore
    from holdfast.views.restored_backup import RestoredBackup


def backup_directory(place: Place) -> Path:
    """Where backups go that are made without a path."""
    chosen = place.resolved.settings.backup_dir
    if chosen is None:
        return place.home / "backups"
    return project.expand(chosen, environ=os.environ, cwd=Path.cwd())


def back_up(
    place: Place,
    store: SqliteStore,
    to: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    files: bool | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Backup:
    """Make a backup at `to`, a directory or a file; without it, in the backup directory, from which those
    beyond `backup_keep` are removed. `files` says whether the saved files go with it; without it, the setting
    does."""
    from holdfast.store.sqlite import backup
    from holdfast.workspace.contents.transfer import exporting

    if files is None:
        files = place.resolved.settings.backup_files
    store.tail()  # raises if the store is closed, or this is a forked child
    directory = backup_directory(place)
    if to is None:
        with backup.explained(directory):
            directory.mkdir(mode=0o700, exist_ok=True)
    elif os.fspath(to).endswith(os.sep) and not Path(to).is_dir():
        raise NotFound(f"there is no directory {os.fspath(to)} for the backup; make it, or name another")
    with exporting(saved_files(place)) as export:
        made = backup.create(
            store.path,
            directory if to is None else Path(to),
            instant((clock or SystemClock()).now_us()),
            force=force,
            incarnation=store.incarnation,
            files=export if files else None,
            progress=progress or backup.silent,
        )
    keep = place.resolved.settings.backup_keep
    removed = backup.rotate(directory, keep, made.path) if to is None else []
    return msgspec.structs.replace(made, removed=tuple(removed))


def back_up_changes(place: Place, store: SqliteStore, clock: Clock | None = None) -> None:
    """Make a backup if there is something in the log that the newest one does not have."""
    from holdfast.store.sqlite import backup

    newest = backup.find_of(store.path, backup_directory(place))[:1]
    files = place.resolved.settings.backup_files
    if store.tail() and not any(backup.holds(path, store.path, files=files) for path in newest):
        back_up(place, store, clock=clock)


def saved_files(place: Place) -> Path:
    """Where the files that runs have saved are."""
    return place.home / "workspace"


def restore_backup(
    place: Place, source: Path, at: datetime, *, refuse: Callable[[], None], progress: Progress
) -> RestoredBackup:
    """Make a backup that was inspected the store, with the files that it holds: they are read and compared
    first, and are there before the store is. The store is the user's own then, if it is new or was so before.
    Raises as `restore` does; then nothing has changed."""
    from holdfast.store.sqlite.attachment import read_attachment
    from holdfast.store.sqlite.backup import explained
    from holdfast.store.sqlite.restore import restore
    from holdfast.views.restored_backup import RestoredBackup
    from holdfast.workspace.contents.transfer import note_without_files

    refuse()
    is_users = not may_have_store(place.home) or is_own(place.home)
    with explained(source):
        attached = read_attachment(source)
    damaged: list[str] = []
    if attached is None:
        has_files = _still_has_files(place, source)
        done = restore(source, place.home, at, refuse=refuse, progress=progress)
    else:
        has_files = True
        files = _importing(place, source, attached, progress, damaged)
        done = restore(source, place.home, at, refuse=refuse, files=files, progress=progress)
    if is_users:
        prove_own(place.home)
    name = source.parent.name if source.name == project.DATABASE else source.name
    note_without_files(saved_files(place), "" if has_files else name)
    return RestoredBackup(source, place.home, done.events, done.kept, has_files, tuple(damaged))


@contextmanager
def _importing(
    place: Place, source: Path, attached: Attachment, progress: Progress, damaged: list[str]
) -> Iterator[Callable[[], None]]:
    """The files of a backup, read and compared; `damaged` gets the names of those that are not what they
    were. The function that is given adds them to the saved files."""
    from holdfast.store.sqlite.backup import refuse_without_room
    from holdfast.workspace.contents.transfer import importing

    refuse_without_room(place.home, attached.size + attached.offset)
    on_bytes = partial(progress, "copying files")
    with source.open("rb") as file:
        file.seek(attached.offset)
        with importing(file, saved_files(place), on_bytes, attached.size, attached.files) as files:
            damaged += files.damaged
            yield files.adopt


def _still_has_files(place: Place, source: Path) -> bool:
    """Whether all that the log of a backup without files names is among the saved files here."""
    from holdfast.operations.disk_usage import NAMING_FILES, has_files
    from holdfast.store.sqlite.kept_log import read_log

    return has_files(read_log(source, NAMING_FILES), saved_files(place))
