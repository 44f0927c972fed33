"""Reading the log of a database that is not the store: one that a restore kept, or one to be restored.

Such a file is only read. It is not migrated, its write-ahead log stays as it is, and a rollback journal
beside it is not executed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import apsw
import msgspec

from holdfast.kernel import events as e
from holdfast.project import DATABASE
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.backup import beside
from holdfast.store.sqlite.connection import APPLICATION_ID, BUSY_MS, translate
from holdfast.store.sqlite.restore import KEPT, REPAIRED

Log = Sequence[tuple[str, e.Event]]
"""(stream, event), in the order of the log."""


def kept_stores(home: Path) -> list[Path]:
    """The databases that restores and repairs have kept in a store's directory."""
    return sorted(path for kept in (KEPT, REPAIRED) for path in home.glob(f"{kept}*/{DATABASE}"))


def read_log(path: Path, types: Sequence[str]) -> Log:
    """The events of these types in a database. One that is not ours has none; of one that is damaged, which
    cannot be restored, those are returned that can be read. Raises StoreError if it cannot be opened."""
    log: list[tuple[str, e.Event]] = []
    try:
        db = _open(path)
        try:
            if db.pragma("application_id") == APPLICATION_ID:
                name = "events_of_all" if _has_deletions(db) else "events_of"
                for stream, type, payload in db.execute(sql.query(name), (sql.listed(types),)):
                    log += ((stream, event) for event in _decoded(type, payload))
        finally:
            db.close(True)
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
        pass
    except apsw.Error as error:
        raise translate(error, path) from None
    return log


def _open(path: Path) -> apsw.Connection:
    """With a write-ahead log, a read-only connection, which reads that too; without one, nothing is looked
    for beside the file."""
    mode = "mode=ro" if beside(path, "-wal").exists() else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(f"file:{quote(os.fsencode(path.resolve()))}?{mode}", flags=flags)
    db.set_busy_timeout(BUSY_MS)
    return db


def _has_deletions(db: apsw.Connection) -> bool:
    """Whether its version of holdfast could delete: it is not migrated."""
    return db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'deleted_events'").get is not None


def _decoded(type: str, payload: str) -> Iterator[e.Event]:
    """The event; as `Unknown` if a newer version gave it other fields, none if it is no JSON."""
    try:
        yield e.decode(type, payload)
    except msgspec.ValidationError:
        yield e.Unknown(type, payload)
    except msgspec.DecodeError:
        return
