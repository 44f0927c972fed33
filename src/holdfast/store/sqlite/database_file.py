"""Facts about a database file that need no open store: its extent, versions, integrity, owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from holdfast.errors import HoldfastError
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.connection import connect, translate
from holdfast.store.sqlite.connection import filesystem as filesystem


class Extent(NamedTuple):
    """How much a log holds."""

    streams: int
    events: int


class Facts(NamedTuple):
    """The file's versions and size, and the problems that SQLite's quick check found."""

    sqlite: str
    schema: int
    newest_schema: int
    journal: str
    size: int
    problems: list[str]


def extent(path: Path) -> Extent:
    """Raises `StoreError`."""
    with _connected(path) as db:
        row = db.execute(sql.query("extent")).get
        return Extent(*row)


def facts(path: Path) -> Facts:
    """Raises `StoreError`."""
    with _connected(path) as db:
        problems = [text for (text,) in db.execute("PRAGMA quick_check(20)") if text != "ok"]
        size = size_of(path)
        schema: int = db.pragma("user_version")
        journal: str = db.pragma("journal_mode")
        return Facts(apsw.sqlite_lib_version(), schema, sql.schema_version(), journal, size, problems)


class LogEnd(NamedTuple):
    """The incarnation of a store, the position of its last event, and the hash of the event at another one:
    empty if none is there."""

    incarnation: str
    last: int
    hash: bytes


def log_end(path: Path, position: int) -> LogEnd:
    """Raises `StoreError`."""
    with _connected(path) as db:
        incarnation: str | None = db.execute(sql.query("incarnation")).get
        last: int | None = db.execute(sql.query("last_event")).get
        hash: bytes | None = db.execute(sql.query("hash_at_position"), (position,)).get
        return LogEnd(incarnation or "", last or 0, hash or b"")


def tracker_heads(path: Path) -> dict[str, tuple[str, int, bytes]]:
    """Stream → its kind, version and hash, of tasks, links, sessions and the memory. Raises `StoreError`."""
    with _connected(path) as db:
        rows = db.execute(sql.query("named_heads"))
        return {name: (kind, version, hash) for name, kind, version, hash in rows}


def streams_with(path: Path, events: Mapping[str, tuple[int, str]]) -> set[str]:
    """Of the streams, those that have an event of this version with this hash (hexadecimal). Raises
    `StoreError`."""
    with _connected(path) as db:

        def has(stream: str, version: int, hash: str) -> bool:
            found: bytes | None = db.execute(sql.query("hash_at"), (stream, version)).get
            return found is not None and found.hex() == hash

        return {stream for stream, end in events.items() if has(stream, *end)}


def owner_process(path: Path, owner: str) -> tuple[int, str] | None:
    """(process, host) of an owner; None if the file does not have it, or cannot be read."""
    try:
        with _connected(path) as db:
            for _, host, _, pid, _ in db.execute(sql.query("owner"), (owner,)):
                return pid, host
    except HoldfastError:
        pass
    return None


def size_of(path: Path) -> int:
    """Bytes of the database and its write-ahead log."""
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


@contextmanager
def _connected(path: Path) -> Iterator[Any]:
    db = connect(path)
    try:
        yield db
    except apsw.Error as error:
        raise translate(error, path) from None
    finally:
        db.close()
