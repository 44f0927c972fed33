"""Backups: copies of a live store, read back from the disk and checked before they get their name.

A backup is one SQLite file with nothing beside it, the files that runs have saved attached to it
(`attachment.py`), and a seal at its end (`seal.py`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, Literal, Protocol

import apsw
import msgspec

from holdfast.durable_file import sync_directory
from holdfast.errors import (
    BadInput,
    NotFound,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreVanished,
    store_error_for,
)
from holdfast.file_lock import holding, open_lock
from holdfast.sizes import amount
from holdfast.store.sqlite import audit, sql
from holdfast.store.sqlite.attachment import Attachment, attach, read_attachment
from holdfast.store.sqlite.connection import connect, has_hot_journal, translate
from holdfast.store.sqlite.seal import is_whole, read_seal, seal

Progress = Callable[[str, int, int], None]
"""Called now and then with what is being done, how much of it is done, and the total."""

BESIDE: Final = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite puts beside a database; the write-ahead log first."""

_NAME: Final = re.compile(r"holdfast-(\d{8}T\d{6}Z)(?:-(\d+))?\.db", re.ASCII)
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_PAGES_AT_ONCE: Final = 4096


class Backup(msgspec.Struct, frozen=True):
    """A backup as its file says; as a path, and as text, it is that file. `fault` says why it cannot be
    relied on; empty if it can."""

    path: Path
    at: datetime
    size: int
    events: int
    fault: str = ""
    files: Attachment | None = None
    """Its saved files; None if it was made without them."""
    removed: tuple[Path, ...] | None = None
    """For a new backup: the older ones that were removed for it."""

    JSON: ClassVar = {
        "path": "its file",
        "at": "when it was made",
        "bytes": "its size",
        "events": "how many events it has",
        "files": "whether it holds the files that runs have saved",
        "file_bytes": "how much of its size they are",
        "ok": "whether it can be relied on",
        "fault": "why not, or null",
        "removed": "of `create`: the older backups that were removed for it",
    }

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "path": str(self.path),
            "at": f"{self.at.replace(tzinfo=None).isoformat(timespec='seconds')}Z",
            "bytes": self.size,
            "events": self.events,
            "files": self.files is not None,
            "file_bytes": 0 if self.files is None else self.files.size,
            "ok": not self.fault,
            "fault": self.fault or None,
        }
        return found if self.removed is None else found | {"removed": [str(one) for one in self.removed]}


class Files(Protocol):
    """The files for a backup. They must hold all that the log names, until they are written."""

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        ...

    def write(self, file: BinaryIO, progress: Callable[[int, int], None]) -> int:
        """Append it to the file → how many files it is. `progress` is called with bytes done and in all."""
        ...


def silent(what: str, done: int, total: int) -> None:
    """A callback for progress that is not shown."""


# Making one


def create(
    store: Path,
    to: Path,
    at: datetime,
    *,
    force: bool = False,
    incarnation: str = "",
    files: Files | None = None,
    progress: Progress = silent,
) -> Backup:
    """Copy the database `store` as it is at one moment, while others continue writing to it.

    `files` are attached to the copy, as they are after the moment that is copied: none of those that the
    log names then is missing.

    `to` is a directory, where the backup is named by its time, or a file; one that is there is
    overwritten only if it is a backup, or by `force`. The backup appears under its name with mode 0600,
    synced and verified, or not at all. Raises BadInput for a place that cannot be taken, NotFound for a
    directory that is not there, StoreFull, StoreCorrupt if the copy does not verify, and StoreVanished
    if the store has another `incarnation` than the given one.
    """
    with explained(to.parent):
        to = to.resolve()
        directory = to if to.is_dir() else to.parent
        if not directory.is_dir():
            raise NotFound(f"there is no directory {directory} for the backup; make it, or name another")
        if directory is not to:
            _refuse_target(store, to, force)
    with alone(store.parent), explained(directory):
        # One at a time for each store: a file of this name was left by a process that died.
        partial = directory / f".holdfast-{_tag(store)}.partial"
        remove(partial)
        try:
            room = 0 if files is None else files.size
            events = _copy_store(store, partial, incarnation, progress, room)
            if files is not None:
                attach(partial, lambda file: files.write(file, functools.partial(progress, "copying files")))
            seal(partial, events)
            _check(partial, store, events, progress)
            if directory is to:
                target = _free_name(directory, at)
            else:
                _refuse_target(store, to, force)
                target = to
            partial.replace(target)
            sync_directory(directory)
        finally:
            remove(partial)
        return Backup(target, at, target.stat().st_size, events, files=read_attachment(target))


def _refuse_target(store: Path, target: Path, force: bool) -> None:
    """Raise `BadInput` if the target is a store, or, without `force`, a file that is not a backup."""
    home = store.parent.resolve()
    if target.parent == home and target.name.startswith(store.name):
        raise BadInput(f"{target} belongs to the store itself; name another file for the backup")
    if not os.path.lexists(target):
        return
    if not target.is_file():
        raise BadInput(f"{target} is no regular file; name another one for the backup")
    # Before the file is opened: that is not for the file of a store.
    if target.samefile(store) or any(beside(target, suffix).exists() for suffix in BESIDE):
        raise BadInput(f"{target} is a store in use; name another file for the backup")
    if read_seal(target) is None and (target.parent == home or not force):
        way_out = "" if target.parent == home else ", or overwrite it with --force"
        raise BadInput(f"{target} exists and is no backup; name another file{way_out}")


def _copy_store(store: Path, partial: Path, incarnation: str, progress: Progress, room: int) -> int:
    source = connect(store)
    try:
        if incarnation and source.execute(sql.query("incarnation")).get != incarnation:
            raise StoreVanished(f"the store {store} was replaced while it was open; nothing was copied")
        return copy(source, partial, progress, room)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise translate(error, store) from None
    finally:
        source.close()


def copy(source: apsw.Connection, target: Path, progress: Progress = silent, room: int = 0) -> int:
    """Put one snapshot of `source` into a new file of mode 0600 that needs no file beside it; how many
    events it has. Writers of the source continue; its log does not begin anew until this has ended. Nothing
    is written unless `room` more bytes are free."""
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    source.execute("BEGIN")
    try:
        events = count_events(source)
        size = source.pragma("page_count") * source.pragma("page_size")
        refuse_without_room(target.parent, size + room)
        db = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            # No other process knows the file, and after a crash it is thrown away.
            db.execute("PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF")
            with db.backup("main", source, "main") as pages:
                while not pages.done:
                    pages.step(_PAGES_AT_ONCE)
                    # Bit by bit: a commit that meets the sync of 200 MB waits up to 440 ms for the disk.
                    os.fsync(fd)
                    progress("copying", pages.page_count - pages.remaining, pages.page_count)
            db.pragma("journal_mode", "delete")
            # A copy is another store. Deleted bytes are overwritten: a reader of the copy must not see them.
            db.pragma("secure_delete", True)
            db.execute(sql.query("remove_token"))
        finally:
            db.close(True)
    finally:
        os.close(fd)
        if source.in_transaction:  # SQLite has ended it by itself after some errors of the disk
            source.execute("ROLLBACK")
    return events


def count_events(db: apsw.Connection) -> int:
    count: int = db.execute("SELECT count(*) FROM events").get
    return count


def refuse_without_room(directory: Path, needed: int) -> None:
    """Before the first byte: a disk that is filled up to the last one stops the runs on it."""
    found = os.statvfs(directory)
    free = found.f_bavail * found.f_frsize
    if free < needed:
        raise StoreFull(
            f"no room on the disk of {directory}: {amount(needed)} are needed, {amount(free)} are free; "
            "nothing was changed: free some space, or name another place"
        )


def _check(partial: Path, store: Path, events: int, progress: Progress) -> None:
    progress("checking", 0, events)
    fault = "" if is_whole(partial) else "it is not what was written"
    fault = fault or first_fault(partial, events)
    if fault:
        raise StoreCorrupt(
            f"the copy of {store} does not hold ({fault}), so no backup was made; `holdfast audit verify` "
            "says whether the store itself is damaged"
        )


def first_fault(path: Path, events: int | None = None) -> str:
    """The first place of a copy that does not hold, in words; empty if all of it does. `events` is how many
    the copy must have."""
    try:
        fault = next(audit.verify(path), None)
    except (StoreFull, StoreReadOnly):
        raise
    except StoreError as error:
        # What SQLite says; the advice around it is for a store.
        return str(error.__context__ or error)
    if fault is not None:
        return f"{fault.stream}: {fault.what}" if fault.stream else fault.what
    if events is not None:
        with closing(connect(path)) as db:
            if count_events(db) != events:
                return f"it does not have the {events} events that were copied"
    return ""


# The backups of a directory


def find(directory: Path) -> list[Path]:
    """The files that have a name of ours, the newest first."""
    try:
        named = [(_parsed(path), path) for path in directory.iterdir() if path.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError(f"the backups in {directory} cannot be listed: {error.strerror}") from None
    return [path for parsed, path in sorted(named, reverse=True) if parsed]


def find_of(store: Path, directory: Path) -> list[Path]:
    """Those whose log began with the same event as that of `store`; several stores may share a directory."""
    beginning = _end(store, "ASC")[0]
    return [path for path in find(directory) if beginning is not None and _begins(path, beginning)]


def _begins(path: Path, event: object) -> bool:
    try:
        return _end(path, "ASC")[0] == event
    except (StoreError, apsw.Error):
        return False  # damaged: its store is not known


def examine(path: Path) -> Backup:
    """Read the whole file: is it what was written?"""
    size, events, fault, files = 0, 0, "", None
    try:
        size = path.stat().st_size
        found = read_seal(path)
        if found is None:
            fault = "not whole: it has no seal at its end"
        else:
            events = found.events
            fault = "" if is_whole(path) else "damaged: it is not what was written"
            files = read_attachment(path)
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    return Backup(path, time_of(path), size, events, fault, files)


def rotate(directory: Path, keep: int, made: Path) -> list[Path]:
    """Remove all but the newest `keep` backups of the store of `made`; returns those removed. `made` itself
    stays even if a clock was set back, and so do the backups of other stores."""
    others = [path for path in find_of(made, directory) if path.name != made.name]
    old = others[max(keep - 1, 0) :]
    with explained(directory):
        for path in old:
            path.unlink(missing_ok=True)
    return old


def holds(path: Path, store: Path, *, files: bool = False) -> bool:
    """Whether this backup is whole and has all of the store's log, and with `files` those too."""
    found = examine(path)
    if found.fault or (files and found.files is None):
        return False
    try:
        return _end(path, "DESC") == _end(store, "DESC")
    except (StoreError, apsw.Error):
        return False


def is_ahead(path: Path, store: Path) -> bool:
    """Whether this backup has events behind the end of the store's log, in the same life of the store."""
    try:
        beginning, _ = _end(path, "ASC")
        last, incarnation = _end(path, "DESC")
        known, current = _end(store, "DESC")
        same = incarnation == current and beginning == _end(store, "ASC")[0]
        return same and isinstance(last, tuple) and (not isinstance(known, tuple) or last[0] > known[0])
    except (StoreError, apsw.Error):
        return False


def _end(path: Path, order: Literal["ASC", "DESC"]) -> tuple[object, object]:
    """The first or the last event of a log, and its incarnation."""
    if has_hot_journal(path):
        raise StoreCorrupt(f"{path} has a rollback journal beside it that holdfast did not write; remove it")
    db = connect(path)
    try:
        event = db.execute(f"SELECT position, hash FROM events ORDER BY position {order} LIMIT 1").get
        return event, db.execute(sql.query("incarnation")).get
    finally:
        db.close()


def time_of(path: Path) -> datetime:
    """When a backup was made: by its name, or else by the file's own time."""
    parsed = _parsed(path)
    try:
        return _instant(parsed[0]) if parsed else datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return datetime.fromtimestamp(0, UTC)


def stamp(at: datetime) -> str:
    """A time as it is written in file names, whose order is that of the times."""
    return at.astimezone(UTC).strftime(_STAMP)


def _parsed(path: Path) -> tuple[str, int] | tuple[()]:
    match = _NAME.fullmatch(path.name)
    if match is None:
        return ()
    try:
        _instant(match[1])
    except ValueError:
        return ()
    return match[1], int(match[2] or 1)


def _instant(stamped: str) -> datetime:
    return datetime.strptime(stamped, _STAMP).replace(tzinfo=UTC)


def _free_name(directory: Path, at: datetime) -> Path:
    """A name after all others of the same second: one that rotation has freed would sort as an older
    backup."""
    here = [parsed for parsed in map(_parsed, directory.iterdir()) if parsed and parsed[0] == stamp(at)]
    number = max((number for _, number in here), default=0) + 1
    target = directory / f"holdfast-{stamp(at)}{f'-{number}' if number > 1 else ''}.db"
    while os.path.lexists(target):
        number += 1
        target = directory / f"holdfast-{stamp(at)}-{number}.db"
    return target


# The disk


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """One backup or restore of a store at a time; the next one waits."""
    with explained(home):
        fd = open_lock(home / "backup.lock")
    with holding(fd):
        yield


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Turn an error of the disk under `directory` into the sentence that says what to do."""
    try:
        yield
    except (OSError, apsw.Error) as error:
        if isinstance(error, OSError):
            kind, what = store_error_for(error), error.strerror
        else:
            kind, what = StoreFull if isinstance(error, apsw.FullError) else StoreError, str(error)
        if kind is StoreFull:
            raise StoreFull(
                f"no room left on the disk of {directory}; nothing was changed: free some space, or name "
                "another place"
            ) from None
        raise kind(f"{directory} cannot be used ({what}); fix that, or name another place") from None


def remove(path: Path) -> None:
    """Remove a file of ours, and what SQLite put beside it."""
    for suffix in ("", *BESIDE):
        beside(path, suffix).unlink(missing_ok=True)


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _tag(store: Path) -> str:
    return hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:12]
