"""Tasks that are deleted and restored in both stores: links and what is ready follow."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.contract.test_tracker_projection import TASKS, happenings, seen, write

from holdfast.kernel import task as tasks
from holdfast.store.oracle import OracleStore
from holdfast.store.sqlite.store import SqliteStore


@pytest.mark.parametrize("seed", range(4))
def test_deleted_tasks_go_with_their_links_and_come_back_with_them(tmp_path: Path, seed: int) -> None:
    """On random histories: while two tasks are deleted the stores agree, also after a rebuild; restored,
    together or one by one, everything is as it was."""
    chance = random.Random(seed)
    oracle, sqlite = OracleStore(), SqliteStore(tmp_path, durability="process")
    stores = (oracle, sqlite)
    try:
        for stream, kind, event, at in happenings(chance, 160):
            for store in stores:
                write(store, stream, kind, event, at)
            if at % 20 or len(oracle.task_ids("", 9)) < 3:
                continue
            before = seen(sqlite)
            gone = [tasks.stream_of(task) for task in chance.sample(oracle.task_ids("", 9), 2)]
            assert all(store.delete(dict.fromkeys(gone), "op", at) for store in stores)
            without = seen(sqlite)
            assert without == seen(oracle) and len(without["ids"][0]) == len(before["ids"][0]) - 2
            assert list(sqlite.verify()) == []
            sqlite.rebuild()
            assert seen(sqlite) == without
            for streams in [gone] if at % 40 else [[one] for one in gone]:
                assert all(store.restore(streams, "undo", at) for store in stores)
                assert seen(sqlite) == seen(oracle)
            assert seen(sqlite) == before
            assert list(sqlite.verify()) == []
        sqlite.rebuild()
        assert seen(sqlite) == seen(oracle)
        assert {one: oracle.numbered(sqlite_number(sqlite, one)) for one in map(tasks.stream_of, TASKS)} == {
            tasks.stream_of(one): tasks.stream_of(one) for one in TASKS
        }
    finally:
        sqlite.close()


def sqlite_number(store: SqliteStore, stream: str) -> int:
    return next(n for n in range(1, 500) if store.numbered(n) == stream)
