"""A new database from verified events: by the schema and the triggers that every store is made with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec

from holdfast.store.sqlite import projections, sql
from holdfast.store.sqlite.connection import connect, migrate, prepare_to_write


class LogRow(NamedTuple):
    """An event with its place in the log."""

    position: int
    stream: int
    version: int
    type: str
    at: int
    payload: str
    hash: bytes
    synced: int


class StreamRow(NamedTuple):
    id: int
    name: str
    kind: str
    version: int
    hash: bytes
    epoch: int
    at: int


def remake(
    path: Path,
    log: Iterable[LogRow],
    streams: Sequence[StreamRow],
    values: Sequence[str],
    scratch: Path,
    *,
    incarnation: str = "",
    token: str = "",
) -> None:
    """Write a new database of mode 0600 with this log, these heads, and these large values of the scratch
    database; all tables are rebuilt. It is synced, with nothing beside it. `incarnation` is empty for a new
    one."""
    db = connect(path, create=True)
    try:
        migrate(db)
        prepare_to_write(db)
        db.execute("ATTACH ? AS salvaged", (str(scratch),))
        db.execute("BEGIN IMMEDIATE")
        db.executemany(sql.query("put_stream"), streams)
        deleted = {row.id for row in streams if row.kind == "deleted"}
        for row in log:
            db.execute(sql.query("put_deleted_event" if row.stream in deleted else "put_event"), row)
        db.execute(sql.query("take_blobs"), (msgspec.json.encode(list(values)).decode(),))
        db.execute(sql.query("set_incarnation"), (incarnation or os.urandom(8).hex(),))
        if token:
            db.execute(sql.query("set_token"), (token,))
        projections.rebuild(db)
        db.execute("COMMIT")
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        db.close(True)
