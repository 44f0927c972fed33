"""Tasks, claims, links, memory and deletion under faults: a sample, and proof that the checker can say no."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.crash import shim, tasks, tracker, workloads
from tests.crash.checker import Violation, check_store
from tests.crash.history import Event
from tests.crash.score import Budget
from tests.crash.side import Side
from tests.tracker import claim_race

SEED = 15


def test_kills_and_errors():
    """Each kind of fault, once in each workload: nothing acknowledged is lost, and everything is done."""
    try:
        shim.library()
    except shim.Unavailable as reason:
        pytest.skip(str(reason))
    for score in tasks.faults(Budget(SEED, 0.01)):
        assert (score.violations, score.lost) == ([], 0), f"seed {SEED}"
    assert score.points > 0


def test_power_cuts():
    """Cuts at the syncs of each workload leave what a commit left, and what was acknowledged."""
    score = tasks.cuts(Budget(SEED, 0.05))
    assert (score.violations, score.lost) == ([], 0), f"seed {SEED}"


def test_claims_are_taken_over(tmp_path):
    """From a killed process at once, from a live one never; a late completion is refused."""
    claim_race.take_over(tmp_path / "home", 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Iterator[Path]:
    """A store after the workload `chores`."""
    home = tmp_path_factory.mktemp("chores")
    workloads.live("chores", home, Side(None), durability="process")
    check_store(home)
    yield home


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("UPDATE task_readiness SET open_blockers = 1 WHERE open_blockers = 0", "open_blockers"),
        ("UPDATE tasks SET status = 'pending' WHERE name = 'fetch'", "status"),
        ("UPDATE tasks SET number = 7 WHERE name = 'stack'", "number"),
        ("DELETE FROM links WHERE version = 1", "links"),
        ("UPDATE memories SET withdrawn = 0", "withdrawn"),
        ("DELETE FROM authored", "authored"),
    ],
)
def test_a_changed_table_is_found(tmp_path, home, edit, why):
    """The tables are compared with the log, row for row."""
    for name in ("holdfast.db", "holdfast.db-wal"):
        if (home / name).exists():
            (tmp_path / name).write_bytes((home / name).read_bytes())
    with closing(sqlite3.connect(tmp_path / "holdfast.db")) as db, db:
        assert db.execute(edit).rowcount > 0
    with pytest.raises(Violation, match=why):
        check_store(tmp_path)


def an_event(version: int, type: str, **payload) -> Event:
    return Event(version, version, type, version, payload, b"", 1)


CREATED = an_event(1, "TaskCreated", name="a")


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((an_event(2, "TaskClaimed", number=2),), "claim 2 follows claim 0"),
        (
            (an_event(2, "TaskClaimed", number=1), an_event(3, "TaskClaimed", number=1)),
            "claim 1 follows claim 1",
        ),
        (
            (an_event(2, "TaskClaimed", number=1), an_event(3, "TaskClaimed", number=2),
             an_event(4, "TaskCompleted", number=1)),
            "held under 2",
        ),
        ((an_event(2, "TaskCompleted"), an_event(3, "TaskCompleted")), "completed already"),
    ],
)  # fmt: skip
def test_an_impossible_history_of_a_task_is_found(events, why):
    """Claim numbers go up by one; only the last claim ends a task, and once."""
    with pytest.raises(Violation, match=why):
        tracker._fold_task("@task/a", [CREATED, *events])
