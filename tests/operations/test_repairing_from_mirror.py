"""`repair_store` and the mirror: numbers, a lost end of the log, lost runs, a lost store, a restore."""

from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Holdfast, step, workflow
from holdfast.store.sqlite.store import SqliteStore


@step(effect="once")
def pay(amount: int) -> int:
    return amount


@workflow
def order(amount: int) -> int:
    return pay(amount)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a store is to be, with a mirror."""
    monkeypatch.setenv("HOLDFAST_MIRROR_DIR", str(tmp_path / "mirror"))
    return tmp_path / "home"


def numbers(home: Path) -> dict[int, str]:
    """Number → the task or run that has it, in a store that must verify."""
    with closing(SqliteStore(home)) as store:
        assert list(store.verify()) == []
    with Holdfast(home, read_only=True) as hf:
        found = {task.number: task.name for task in hf.tasks.list()}
        return found | {run.number: run.id for run in hf.page().runs}


def test_tasks_keep_their_numbers(home: Path) -> None:
    """Rebuilt from the journal alone, tasks are numbered in the order in which they were created."""
    with Holdfast(home, durability="process") as hf:
        for n in range(12):
            hf.tasks.create(f"task {n}")
    before = numbers(home)
    (home / "holdfast.db").unlink()
    assert Holdfast.repair_store(home).ok
    assert numbers(home) == before == {n + 1: f"task {n}" for n in range(12)}


def test_tasks_behind_a_backup_keep_their_numbers(home: Path) -> None:
    """Those that only the journal has follow those of the backup, in the order of the journal."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("early").run(order, 1)
        hf.tasks.create("first")
        hf.backup()
        for n in range(8):
            hf.tasks.create(f"task {n}")
    before = numbers(home)
    (home / "holdfast.db").unlink()
    assert Holdfast.repair_store(home).ok
    assert numbers(home) == before


def test_the_feed_has_the_order_of_the_journal(home: Path) -> None:
    """Events of several streams are in the order in which they happened, not stream by stream."""
    with Holdfast(home, durability="process") as hf:
        tasks = [hf.tasks.create(f"task {n}").id for n in range(4)]
        for n, task in enumerate(reversed(tasks)):
            hf.tasks.note(task, f"note {n}")
        hf.tasks.create("last")
    before = tracker_feed(home)
    (home / "holdfast.db").unlink()
    Holdfast.repair_store(home)
    assert tracker_feed(home) == before


def tracker_feed(home: Path) -> list[tuple[str, int]]:
    with closing(SqliteStore(home)) as store:
        return [(one.stream, one.version) for one in store.feed().entries if one.stream.startswith("@task/")]
