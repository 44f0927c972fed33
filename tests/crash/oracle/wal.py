"""Every commit of a life as a state of its store: the write-ahead log, cut off after that commit.

A process that is killed between two commits leaves the database file and the log up to the first of them
(no checkpoint happens in a life). So one life gives the remains of a kill at each of its commits.
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple

import apsw

DATABASE = "holdfast.db"
_HEADER, _FRAME_HEADER = 32, 24


class Logged(NamedTuple):
    """An event as the log has it."""

    run: str
    type: str
    data: dict[str, Any]


def commits(home: Path) -> list[int]:
    """The size of the write-ahead log after each of its commits."""
    try:
        data = (home / f"{DATABASE}-wal").read_bytes()
    except FileNotFoundError:
        return []
    if len(data) < _HEADER:
        return []
    page_size = struct.unpack(">I", data[8:12])[0]
    salt = data[16:24]
    found = []
    at = _HEADER
    while at + _FRAME_HEADER + page_size <= len(data):
        if data[at + 8 : at + 16] != salt:
            break
        pages_after_commit = struct.unpack(">I", data[at + 4 : at + 8])[0]
        at += _FRAME_HEADER + page_size
        if pages_after_commit:
            found.append(at)
    return found


def copy_until(home: Path, size: int, target: Path) -> None:
    """What a process killed at that commit leaves behind."""
    target.mkdir(parents=True)
    shutil.copyfile(home / DATABASE, target / DATABASE)
    log = home / f"{DATABASE}-wal"
    if size and log.exists():
        with open(log, "rb") as source:
            (target / log.name).write_bytes(source.read(size))


def events(home: Path) -> list[Logged]:
    """All events of all runs and budgets, in the order of the log. Leaves the write-ahead log as it is."""
    db = apsw.Connection(str(home / DATABASE))
    try:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        rows = db.execute(
            "SELECT streams.name, events.type, events.payload FROM events "
            "JOIN streams ON streams.id = events.stream ORDER BY events.position"
        ).fetchall()
    finally:
        db.close()
    return [
        Logged(name.decode() if isinstance(name, bytes) else name, type, json.loads(payload))
        for name, type, payload in rows
        if not str(name).startswith("@") or str(name).startswith("@budget/")
    ]
