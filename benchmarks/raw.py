"""The yardstick: SQLite through apsw, WAL, synchronous=FULL, one row of 200 bytes per commit."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

PAYLOAD = b"x" * 200


class Raw:
    """A database with one table; `rate` commits one row at a time and says how many a second."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._db = apsw.Connection(str(directory / "raw.db"))
        self._db.execute("PRAGMA journal_mode=wal")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, run TEXT, key TEXT, payload BLOB)")
        self._n = 0

    def rate(self, commits: int = 300) -> float:
        execute = self._db.execute
        began = time.perf_counter()
        for _ in range(commits):
            self._n += 1
            execute("BEGIN IMMEDIATE")
            execute("INSERT INTO t (run, key, payload) VALUES (?, ?, ?)", ("r1", f"k{self._n}", PAYLOAD))
            execute("COMMIT")
        return commits / (time.perf_counter() - began)
