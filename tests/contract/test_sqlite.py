"""The SQLite store keeps the contract, in both durabilities."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing import StoreContract
from holdfast.testing.histories import own, step_append
from holdfast.testing.reader_contract import Tampering

RUN = "(SELECT id FROM streams WHERE name = 'r')"
TAMPER = {
    "payload": f"UPDATE events SET payload = substr(payload, 1, length(payload) - 1) || ' }}' "
    f"WHERE position = (SELECT max(position) FROM events WHERE stream = {RUN})",
    "tail": f"DELETE FROM events WHERE position = (SELECT max(position) FROM events WHERE stream = {RUN})",
    "stream": f"DELETE FROM events WHERE stream = {RUN}; DELETE FROM runs WHERE stream = {RUN}; "
    f"DELETE FROM step_rows WHERE run = {RUN}; DELETE FROM stages WHERE run = {RUN}; "
    f"DELETE FROM outcomes WHERE stream = {RUN}; "
    "DELETE FROM streams WHERE name = 'r'",
    "blob": "UPDATE blobs SET data = x'00'",
    "projection": f"UPDATE runs SET status = 'paused' WHERE stream = {RUN}",
}


class TestSqlite(StoreContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[..., SqliteStore]:
        return lambda name="one": SqliteStore(tmp_path / name)

    def tamper(self, store: SqliteStore, what: Tampering) -> None:
        db = apsw.Connection(str(store.path))
        db.execute(TAMPER[what])
        db.close()


class TestSqliteProcess(TestSqlite):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[..., SqliteStore]:
        return lambda name="one": SqliteStore(tmp_path / name, durability="process")

    def test_the_feed_shows_nothing_past_the_last_synced_commit(self, store: SqliteStore) -> None:
        """`durability="process"` promises survival of kill -9, and a commit has that at once: it is fed."""
        own(store, "r")
        tail = store.tail()
        store.append(step_append("r", "a#1", durable=False))
        assert len(store.feed(tail).entries) == 1
