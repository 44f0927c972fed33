"""Restoring: a backup becomes the store, and the store that was there is kept aside whole.

The copy is made and verified beside the store; then, while the write lock is held, one rename puts it in
the place of the old one. Killed at any moment, the directory has the old store or the new one.

The write-ahead log of the old store must never be read with the new file. So all of it is brought into
the old file first, and log and index are moved away before the new file is put in place. A process that still
has the old store open continues to use the moved files, and its next commit finds that the file was replaced.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import apsw

from holdfast.durable_file import sync_directory
from holdfast.errors import BadInput, NotFound, StoreCorrupt, StoreForeign, StoreHeld, StoreNewer
from holdfast.project import DATABASE
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.backup import (
    BESIDE,
    Progress,
    alone,
    beside,
    copy,
    explained,
    first_fault,
    remove,
    silent,
    stamp,
)
from holdfast.store.sqlite.connection import (
    APPLICATION_ID,
    BUSY_MS,
    has_hot_journal,
    migrate,
    refuse_network,
    translate,
)
from holdfast.store.sqlite.seal import is_whole, read_seal, sync
from holdfast.store.sqlite.write_lock import WriteLock
from holdfast.ways import Way, quoted

KEPT: Final = "before-restore-"
REPAIRED: Final = "before-repair-"
"""Prefixes of the directories that keep the files which a restore, or a repair, has replaced."""
Files = AbstractContextManager[Callable[[], None]]
"""Prepares the files of a backup; the function that it yields puts them in place."""
_NO_FILES: Final[Files] = nullcontext(lambda: None)


class Restored(NamedTuple):
    """How many events the store has now, and the directory that keeps the one that was there, if any."""

    events: int
    kept: Path | None


def restore(
    source: Path,
    home: Path,
    at: datetime,
    *,
    refuse: Callable[[], None] = lambda: None,
    files: Files = _NO_FILES,
    progress: Progress = silent,
) -> Restored:
    """Make the backup `source` the store of `home`. The store gets a fresh incarnation, so that cursors
    of the feed say Resync; a process that has the old one open gets StoreVanished at its next commit.

    `refuse` raises if the store is in use; it is asked again when no other process can commit. `files` is
    entered when no other restore or backup of this store is under way; the function that it gives is called
    when the new store is verified, and before it takes its place. Raises NotFound, StoreForeign, StoreNewer,
    StoreCorrupt, StoreFull, StoreHeld; nothing has changed then.
    """
    path = (home / DATABASE).resolve()
    if source.exists() and path.exists() and source.samefile(path):
        raise BadInput(f"{source} is the store itself; name a backup")
    inspect(source)
    refuse()
    refuse_network(home)
    with explained(home):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with alone(home), explained(path.parent):
        _clear(path)
        partial = path.with_name(f".{path.name}.partial")
        remove(partial)
        incarnation = os.urandom(8).hex()
        try:
            with files as adopt:
                events = _bring(source, partial, incarnation, progress)
                adopt()
                return Restored(events, _put(partial, path, home, at, incarnation, refuse))
        finally:
            remove(partial)


# The backup


def inspect(source: Path) -> None:
    """Refuse what cannot be restored, as far as one look at the file shows."""
    if not source.exists():
        raise NotFound(f"there is no backup {source}; {quoted(Way('backup list'))} shows those there are")
    if not source.is_file():
        raise BadInput(f"{source} is no regular file; name the file of a backup")
    with explained(source):
        if not _is_store(source) and read_seal(source) is not None and not is_whole(source):
            raise StoreCorrupt(_damaged(source, "it is not what was written"))
        with _opened(source):
            pass


def _is_store(source: Path) -> bool:
    """Whether it is a store that a process has open, or had when it was killed."""
    return any(beside(source, suffix).exists() for suffix in BESIDE)


@contextmanager
def _opened(source: Path) -> Iterator[apsw.Connection]:
    """The database, opened without changes: SQLite makes no file beside that of a backup."""
    if has_hot_journal(source):
        raise StoreCorrupt(_damaged(source, "a rollback journal that holdfast did not write lies beside it"))
    try:
        if _is_store(source):
            db = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
            db.set_busy_timeout(BUSY_MS)
        else:
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            db = apsw.Connection(f"file:{quote(os.fsencode(source.resolve()))}?immutable=1", flags=flags)
        try:
            _check_ours(db, source)
            yield db
        finally:
            db.close(True)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        if isinstance(translate(error, source), StoreForeign):
            raise StoreForeign(_foreign(source)) from None
        raise StoreCorrupt(_damaged(source, str(error))) from None


def _check_ours(db: apsw.Connection, source: Path) -> None:
    if db.pragma("application_id") != APPLICATION_ID:
        raise StoreForeign(_foreign(source))
    schema, known = db.pragma("user_version"), sql.schema_version()
    if schema > known:
        raise StoreNewer(
            f"{source} was written by a newer holdfast (schema {schema}, this one knows {known}); "
            "upgrade holdfast to restore it"
        )


def _bring(source: Path, partial: Path, incarnation: str, progress: Progress) -> int:
    """Copy the backup, make a store of the copy, and verify that; how many events it has."""
    with _opened(source) as backup:
        events = copy(backup, partial, progress)
    try:
        db = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            migrate(db)
            db.execute("DELETE FROM meta WHERE key = 'incarnation'")
            db.execute(sql.query("set_incarnation"), (incarnation,))
            _empty_log(db, partial)  # closing does it too, but does not say if it could not
        finally:
            db.close(True)
        progress("checking", 0, events)
        fault = first_fault(partial, events)
    except (apsw.FullError, apsw.IOError):
        raise
    except apsw.Error as error:
        fault = str(error)
    if fault:
        raise StoreCorrupt(_damaged(source, fault))
    _sync_file(partial)
    return events


def _foreign(source: Path) -> str:
    return f"{source} is no backup of holdfast; {quoted(Way('backup list'))} shows those there are"


def _damaged(source: Path, why: str) -> str:
    return f"{source} is damaged ({why}); nothing was changed: restore another backup"


# The store


def _put(
    partial: Path, path: Path, home: Path, at: datetime, incarnation: str, refuse: Callable[[], None]
) -> Path | None:
    """Replace the old file by the new one, between two commits of other processes. The lock file names the
    new incarnation, so that a repair does not use the mirror of the old store as a copy."""
    write_lock = WriteLock(str(home / "write.lock"))
    try:
        with write_lock:
            refuse()
            with _log_emptied(path) as emptied, _undisturbed():
                kept = _keep(path, at, emptied)
                partial.replace(path)
                sync_directory(path.parent)
                write_lock.record_store(incarnation)
    finally:
        write_lock.close()
    if kept is not None and emptied:
        _merge_wal(kept / DATABASE)
    return kept


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Block signals: after a Ctrl-C between two renames, only the first one would be done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _log_emptied(path: Path) -> Iterator[bool]:
    """The old store, held open with nothing in its write-ahead log; False if it cannot be read.

    Held open: a process that is the last one to close a database removes the log by its name, and by
    then that may be the log of the new one.
    """
    if not path.exists():
        yield not beside(path, "-wal").exists()
        return
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(BUSY_MS)
        try:
            _empty_log(db, path)
        except apsw.BusyError:
            raise StoreHeld(path.parent) from None
        except apsw.FullError:
            raise
        except apsw.Error:
            emptied = False
        else:
            emptied = True
        yield emptied
    finally:
        db.close(True)


def _empty_log(db: apsw.Connection, path: Path) -> None:
    """Bring all of the write-ahead log into the file, and the truncated log to the disk: no power cut
    may bring back what was in it."""
    db.pragma("user_version")  # a connection that has read nothing does not know of its log
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    log = beside(path, "-wal")
    if log.exists():
        if log.stat().st_size:
            raise apsw.BusyError("the write-ahead log is not empty")
        _sync_file(log)


def _keep(path: Path, at: datetime, log_emptied: bool) -> Path | None:
    """Give the old store a second name, so that it is there until and after the new one takes the first;
    then move what is beside it. Nothing but a rename is left to do.

    The log is moved last: without it, a process that has the store open and one that opens it now would
    write to two logs, should this process be killed before the rename.
    """
    home = path.parent
    if not any(beside(path, suffix).exists() for suffix in ("", *BESIDE)):
        return None
    kept = free_directory(home, KEPT, at)
    kept.mkdir(mode=0o700)
    try:
        if path.exists():
            (kept / DATABASE).hardlink_to(path)
    except OSError:
        kept.rmdir()
        raise
    sync_directory(kept)
    sync_directory(home)
    for suffix in reversed(BESIDE):
        try:
            beside(path, suffix).rename(beside(kept / DATABASE, suffix))
        except FileNotFoundError:
            pass
    if not log_emptied:
        # What is in it belongs to the old file: no power cut may bring it back to the new one.
        sync_directory(home)
    return kept


def _merge_wal(path: Path) -> None:
    """If no process has the kept store open, make it one file: the last connection that closes removes the
    others."""
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        db.pragma("user_version")
        db.close(True)
    except apsw.Error:
        pass  # it is kept as it is


def _clear(path: Path) -> None:
    """Remove what a restore left that was killed before its rename: a second name of the live store. The
    name goes last, so that this can be killed in turn."""
    for kept in path.parent.glob(f"{KEPT}*"):
        second = kept / DATABASE
        log = beside(second, "-wal")
        if second.exists() and path.exists() and second.samefile(path):
            if log.exists() and log.stat().st_size:
                continue  # the log of a store that could not be read: it is the only copy
            for suffix in (*BESIDE, ""):
                beside(second, suffix).unlink(missing_ok=True)
        if not any(kept.iterdir()):
            kept.rmdir()


def free_directory(home: Path, prefix: str, at: datetime) -> Path:
    """The directory for the files that are replaced now; a second one of the same time gets a number."""
    kept, number = home / f"{prefix}{stamp(at)}", 1
    while os.path.lexists(kept):
        number += 1
        kept = home / f"{prefix}{stamp(at)}-{number}"
    return kept


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)
