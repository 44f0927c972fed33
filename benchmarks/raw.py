"""The yardstick: SQLite through apsw, WAL, synchronous=FULL, one row of 200 bytes per commit."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

PAYLOAD = b"x" * 200
PAGES_OF_THE_LOG = 1_000


class Raw:
    """A database with one table, filled one row and one commit at a time.

    Its log has been through one checkpoint and has its full size: a commit that lengthens a file costs more than one that
    writes over it, and the yardstick is not to be slow for being new.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._db = apsw.Connection(str(directory / "raw.db"))
        self._db.execute("PRAGMA journal_mode=wal")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.wal_autocheckpoint(PAGES_OF_THE_LOG)
        self._db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, run TEXT, key TEXT, payload BLOB)")
        self._n = 0
        self.commit(PAGES_OF_THE_LOG + 100)

    def commit(self, commits: int) -> float:
        """Seconds that this many commits take."""
        execute = self._db.execute
        began = time.perf_counter()
        for _ in range(commits):
            self._n += 1
            execute("BEGIN IMMEDIATE")
            execute("INSERT INTO t (run, key, payload) VALUES (?, ?, ?)", ("r1", f"k{self._n}", PAYLOAD))
            execute("COMMIT")
        return time.perf_counter() - began

    def rate(self, commits: int = 300) -> float:
        """Commits a second."""
        return commits / self.commit(commits)

    def close(self) -> None:
        self._db.close()
