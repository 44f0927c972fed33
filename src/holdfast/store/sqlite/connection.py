"""Opening the database, and what its errors mean."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Final

import apsw

from holdfast.errors import (
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreNewer,
    StoreOnNetwork,
    StoreReadOnly,
)
from holdfast.project import explained
from holdfast.store.sqlite import projections, sql
from holdfast.store.sqlite.forked import refuse_inherited

APPLICATION_ID: Final = 0x686F6C64  # "hold"
BUSY_MS: Final = 10_000
PAGE_BYTES: Final = 2048
"""The page size of new stores. A commit writes three pages, however little has changed, so half the page size
makes it 7% faster; a step that returns 2 KB writes 1.2 times as much as with pages of 4 KB (decision
0006)."""

_NETWORK: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs afs ceph 9p glusterfs lustre gpfs ocfs2 gfs2 davfs fuse.sshfs "
    "fuse.glusterfs fuse.ceph fuse.s3fs fuse.rclone fuse.davfs2 fuse.gcsfuse".split()
)


def connect(path: Path, *, create: bool = False) -> apsw.Connection:
    """An open, checked connection in WAL mode. Does not create the schema, and the file only with `create`:
    a database that was deleted must not come back as an empty one. Refused in a forked child that SQLite
    would not serve safely."""
    refuse_inherited(path)
    if create and not path.exists():
        # Before SQLite opens it: a process that opens it at the same moment makes the files beside it with
        # its mode.
        from holdfast.durable_file import create_file

        with explained(path.parent):
            create_file(path, b"")
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    try:
        db = apsw.Connection(str(path), flags=flags)
        try:
            db.set_busy_timeout(BUSY_MS)
            check_ours(db, path)
            db.execute("PRAGMA synchronous=FULL")
        except BaseException:  # or its files stay open as long as the error is kept
            db.close(True)
            raise
        return db
    except apsw.Error as error:
        raise translate(error, path) from None


_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")


def has_hot_journal(path: Path) -> bool:
    """Whether SQLite would change the database by the rollback journal that lies beside it, or would read
    the name of another file there. No journal of ours does: stores use write-ahead logging, and the journal
    of a store that was just being made rolls back to an empty file."""
    journal = path.with_name(f"{path.name}-journal")
    try:
        kind = journal.lstat().st_mode
    except OSError:
        return False  # SQLite finds none either
    if not stat.S_ISREG(kind):
        return True
    try:
        with journal.open("rb") as file:
            head = file.read(20)
            file.seek(max(os.fstat(file.fileno()).st_size - 8, 0))
            names_another = file.read(8) == _JOURNAL_MAGIC  # the name of a super-journal stands before it
        is_empty = path.stat().st_size == 0
    except FileNotFoundError:
        return False
    except OSError:
        return True
    initial_pages = head[16:20]
    return names_another or (not is_empty and head[:1] not in (b"", b"\0") and initial_pages != bytes(4))


def check_ours(db: apsw.Connection, path: Path) -> None:
    """Refuse a database of another program and one of a newer holdfast; an empty one passes."""
    known = sql.schema_version()
    with db:  # one snapshot: another process may be making the store at this moment
        ours = db.pragma("application_id")
        version = db.pragma("user_version")
        tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if ours != APPLICATION_ID:
        if ours or version or tables:
            raise StoreForeign(f"{path} is a database of another program; name another home with --home")
    elif version > known:
        raise StoreNewer(
            f"{path} was written by a newer holdfast (schema {version}, this one knows {known}); "
            "upgrade holdfast, or name another home with --home"
        )


def migrate(db: apsw.Connection, upto: int | None = None) -> None:
    """Bring the schema and the projections to this version, keeping the log. The caller holds the
    write lock."""
    if db.pragma("journal_mode") != "wal":
        db.pragma("page_size", PAGE_BYTES)  # has no effect on a database that has a page
    if db.pragma("journal_mode", "wal") != "wal":
        raise StoreError(
            "the database cannot use write-ahead logging here; choose a local directory with --home"
        )
    # One transaction: no reader sees tables that a migration has emptied.
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.pragma("user_version")
        for number, _, text in sql.migrations():
            if version < number and (upto is None or number <= upto):
                db.execute(f"{text}; PRAGMA user_version={number}")
        db.pragma("application_id", APPLICATION_ID)
        if upto is None:
            prepare_to_write(db)
            projections.renew(db)
        db.execute("COMMIT")
    except BaseException:
        roll_back(db)
        raise


def roll_back(db: apsw.Connection) -> None:
    """End the transaction that has failed. SQLite has done so by itself after some errors, a full disk among
    them, and sometimes only when the next statement begins: then there is nothing left to roll back."""
    if db.in_transaction:
        try:
            db.execute("ROLLBACK")
        except apsw.SQLError:
            if db.in_transaction:
                raise


def prepare_to_write(db: apsw.Connection) -> None:
    """Give a connection the views and triggers through which everything is written, unless it has them."""
    if not db.execute("SELECT 1 FROM temp.sqlite_schema WHERE name = 'appended'").get:
        projections.prepare(db)
    db.execute("PRAGMA cache_size=-16000")
    # A commit into a log that still grows waits twice as long for the disk (decision 0006): the sooner
    # the log is full and begins anew, the better. Below this, checkpoints cost more than that saves.
    db.execute("PRAGMA wal_autocheckpoint=512")
    if sys.platform == "darwin":
        db.pragma("fullfsync", 1)


MISREAD = (UnicodeDecodeError, TypeError, AttributeError)
"""Errors of reading a row of a damaged page: a value of another type, or a text that is none."""


def _is_full(directory: Path) -> bool:
    try:
        room = os.statvfs(directory)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < PAGE_BYTES


def translate(error: Exception, path: Path) -> StoreError:
    """The error that says what is wrong with the store, for one of SQLite or one of `MISREAD`."""
    # SQLite reports a full disk as an I/O error where it makes its shared memory larger.
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _is_full(path.parent)):
        return StoreFull(
            f"no room left for the store on the disk of {path.parent}; nothing that was acknowledged "
            "is lost: free some space and resume"
        )
    if isinstance(error, apsw.NotADBError) and not _was_ours(path):
        return StoreForeign(f"{path} is not a database; move it aside, or name another home with --home")
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, *MISREAD)) or _tells_of_damage(str(error)):
        return StoreCorrupt(f"{path} is damaged ({error}); `holdfast repair` saves what can be saved")
    if isinstance(error, (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError)) or (
        isinstance(error, apsw.CantOpenError) and not os.access(path.parent, os.W_OK)
    ):
        return StoreReadOnly(f"the store in {path.parent} cannot be written; check its permissions")
    if isinstance(error, apsw.CantOpenError):
        return StoreError(f"{path} cannot be opened ({error}); check that its directory exists")
    if isinstance(error, apsw.BusyError):
        return _locked(path)
    return StoreError(f"the store {path} failed: {error}")


def _tells_of_damage(message: str) -> bool:
    """Our own statements fail like this only on a file whose rows or schema were changed."""
    return any(sign in message for sign in ("malformed JSON", "no such column", "no such table"))


def _locked(path: Path) -> StoreError:
    """A process that is stopped while it opens the store first, or closes it last, has SQLite's lock on the
    whole file: no other process can open it until that process continues or ends."""
    from holdfast.lock_holder import find_holder

    holder = find_holder(path.stat(), "POSIX") if path.exists() else None
    if holder is not None and holder.state == "T":
        return StoreError(f"{holder} keeps {path} locked; continue it (`kill -CONT {holder.pid}`) or end it")
    return StoreError(f"{holder or 'another program'} keeps {path} locked; close it and try again")


def _was_ours(path: Path) -> bool:
    """Whether a file that is no database any more has what is left of a header of ours. Read through
    SQLite: a descriptor of our own, when closed, would drop the locks of every connection here."""
    try:
        file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            header = file.xRead(100, 0)
        finally:
            file.xClose()
    except apsw.Error:
        return False
    return header[:16] == b"SQLite format 3\0" or header[68:72] == APPLICATION_ID.to_bytes(4, "big")


def refuse_network(directory: Path) -> None:
    """Raise `StoreOnNetwork` for a network filesystem: its locks and syncs are not reliable."""
    kind = filesystem(directory)
    if kind in _NETWORK:
        raise StoreOnNetwork(
            f"{directory} is on a network filesystem ({kind}), where locks and syncs cannot be relied on; "
            "choose a local directory with --home"
        )


def filesystem(directory: Path) -> str:
    """The type of the filesystem that holds the directory; empty where the system does not say."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
    return filesystem_of(str(directory.resolve()), mounts)


def filesystem_of(path: str, mounts: str) -> str:
    """The type of the filesystem that holds `path`, from the text of /proc/self/mountinfo."""
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split(" ", 1)[0]
    return kind
