"""Tasks, links and sessions in both stores: on random histories the tables of the one are the folds of the
other, and a rebuild changes nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.kernel import links, session
from holdfast.kernel import task as tasks
from holdfast.kernel.author import Author
from holdfast.store.oracle import OracleStore
from holdfast.store.port import Decision, Entry, Store, new_event
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.tracker_port import TaskFilter
from holdfast.testing.histories import archived

TASKS = [f"{number:x}abc-task" for number in range(7)]
ANN = Author("ann", "s1", "r", 1, "a#1", 4)
BOB = Author("bob")
FIELDS = tasks.TaskFields(
    "restored", "text", "in_progress", 0, ("x",), "bob", 7, ("true",), {"a": [1, {"b": None}]}, "why", "sum",
    {"e": 1.5}, "err", "un", False, 3, 4, tasks.ClaimState(9, "ann", "s", "r", 0, tasks.Holder(3, 4, "b"), 5),
)  # fmt: skip


def write(store: Store, stream: str, kind: str, event: Any, at: int) -> None:
    store.command(stream, lambda _: Decision(kind, [new_event(event, at)]))


def happenings(chance: random.Random, count: int) -> Iterator[tuple[str, str, Any, int]]:
    """(stream, kind, event, time): whatever can stand in the log, in whatever order; decisions are not
    asked."""
    created: set[str] = set()
    for at in range(1, count):
        task = chance.choice(TASKS)
        if task not in created:
            created.add(task)
            made = tasks.TaskCreated(
                task, "body", chance.randrange(5), ("x",) * chance.randrange(2), author=ANN
            )
            yield tasks.stream_of(task), tasks.KIND, made, at
            continue
        if chance.random() < 0.3:
            link = chance.choice((links.LinkAdded, links.LinkAdded, links.LinkRemoved))
            kind = chance.choice(("blocks", "blocks", "parent", "related"))
            yield links.STREAM, links.KIND, link(task, chance.choice(sorted(created)), kind, ANN), at
            continue
        number = chance.randrange(1, 4)
        event: Any = chance.choice(
            (
                tasks.TaskEdited({"name": "n", "priority": 0, "labels": ["y"], "meta": {"k": [1]}}, {}, ANN),
                tasks.TaskEdited({"body": "b", "due": 9, "checks": ["ls"], "assignee": "ann"}, author=BOB),
                tasks.TaskClaimed(number, "ann", "s2", "", at + 3, tasks.Holder(1, 2, "boot"), ANN),
                tasks.TaskClaimed(number, "bob", run="r9"),
                tasks.ClaimRenewed(number, at + 9),
                tasks.ClaimReleased(number, "later"),
                tasks.TaskCompleted(number, "done", {"log": ["a"]}, ("ls",), "no time"),
                tasks.TaskCompleted(),
                tasks.TaskFailed(number, "why"),
                tasks.TaskBlocked("a reason"),
                tasks.TaskBlocked(),
                tasks.TaskReopened("again"),
                tasks.TaskNoted("decision", "text"),
                tasks.TaskNoted("decision", f"by run {at}", Author("ann", run=chance.choice(["r1", "r2"]))),
                tasks.TaskNoted("file", "text", Author("ann", run="r1")),
                tasks.TaskArchived("old"),
                tasks.TaskReverted(2, "op", FIELDS),
                tasks.TaskReverted(2, "op", tasks.TaskFields("bare")),
            )
        )
        yield tasks.stream_of(task), tasks.KIND, event, at


def seen(store: Store) -> dict[str, Any]:
    """All answers that a store gives about the tracker."""
    return {
        "tasks": store.tasks(TaskFilter(archived=True)),
        "listed": store.tasks(TaskFilter(status=("pending", "failed"), label="x"), 3),
        "assigned": store.tasks(TaskFilter(assignee="ann", session="s2")),
        "named": [
            store.tasks(TaskFilter(status, ids=(TASKS[3], TASKS[0]))) for status in ((), ("completed",))
        ],
        "each": [store.task(task) for task in TASKS],
        "ready": (store.ready_tasks(), store.count_ready_tasks()),
        "waiting": (store.waiting_tasks(100), store.waiting_tasks(2), store.count_waiting_tasks()),
        "ready for": [store.ready_tasks(assignee=one) for one in ("ann", "bob")],
        "ready for and with": store.ready_tasks(2, "x", "ann"),
        "blocked": [
            store.tasks(TaskFilter(blocked=True)),
            store.tasks(TaskFilter(blocked=True, ids=(TASKS[3], TASKS[0]))),
        ],
        "ready with a label": [store.ready_tasks(label="x"), store.ready_tasks(1, "x")],
        "claimed": store.claimed_tasks(),
        "in progress": store.claimed_tasks(workable=False),
        "ids": [store.task_ids("", 100), store.task_ids("1ab", 2)],
        "links": [store.links(TASKS[:2]), store.all_links()],
        "leading": [store.links_of(task) for task in TASKS],
        "linked": [store.is_linked(a, b, "blocks") for a in TASKS for b in TASKS],
        "of sessions": [
            (store.session_tasks(one, status, 2), store.count_session_tasks(one, status))
            for one in ("", "s1", "s2")
            for status in ("pending", "in_progress", "completed", "failed")
        ],
        "decisions": (store.decisions(), store.decisions(2), store.count_decisions()),
        "decisions of runs": [store.decisions(runs=one) for one in ([], ["r1"], ["r2", "r3"])],
        "sessions": [store.sessions(), store.sessions(1), store.session_ids("s", 9)],
        "last changes": [
            _place(store.last_task_change(by, after)) for by in ("ann", "bob", "") for after in (0, 50)
        ],
    }


def _place(entry: Entry | None) -> tuple[str, int, int] | None:
    return None if entry is None else (entry.stream, entry.version, entry.position)


@pytest.mark.parametrize("seed", range(6))
def test_both_stores_agree_and_a_rebuild_changes_nothing(tmp_path: Path, seed: int) -> None:
    """Every answer of the SQLite store is the oracle's, also when a task has been removed from the log; what
    `rebuild` makes is the same, and `verify` finds no fault."""
    chance = random.Random(seed)
    oracle, sqlite = OracleStore(), SqliteStore(tmp_path, durability="process")
    try:
        for store in (oracle, sqlite):
            for number, actor in enumerate(("ann", "bob")):
                stream = session.stream_of(f"s{number}")
                write(store, stream, session.KIND, session.SessionStarted(actor), number + 1)
            write(store, session.stream_of("s0"), session.KIND, session.SessionEnded("well", ANN), 9)
        for stream, kind, event, at in happenings(chance, 160):
            for store in (oracle, sqlite):
                write(store, stream, kind, event, at)
            if at % 20 == 0:
                assert seen(sqlite) == seen(oracle), at
        gone = tasks.stream_of(chance.choice(TASKS))
        for store in (oracle, sqlite):
            store.archive([[archived(store, gone)]], 1000)
        before = seen(sqlite)
        assert before == seen(oracle)
        assert list(sqlite.verify()) == []
        sqlite.rebuild()
        assert seen(sqlite) == before
    finally:
        sqlite.close()


def test_verify_reports_a_count_that_was_changed(tmp_path: Path) -> None:
    """A table that does not follow from the log is named."""
    import apsw

    store = SqliteStore(tmp_path, durability="process")
    write(store, tasks.stream_of("a"), tasks.KIND, tasks.TaskCreated("a"), 1)
    store.close()
    apsw.Connection(str(tmp_path / "holdfast.db")).execute("UPDATE task_readiness SET open_blockers = 1")
    store = SqliteStore(tmp_path, durability="process")
    try:
        assert [(fault.stream, "task_readiness" in fault.what) for fault in store.verify()] == [
            ("@task/a", True)
        ]
    finally:
        store.close()


_DECISIONS = (("decisions", 2), ("count_decisions", 0), ("runs_that_left_decisions", 0))


def test_named_tasks_and_their_links_are_looked_up(tmp_path: Path) -> None:
    """What `task show` and `task tree` read costs nothing of other tasks and links: no table is scanned.
    Nor is one for the decisions, and none is sorted."""
    store = SqliteStore(tmp_path)
    for name, values in (("named_tasks", 8), ("links", 1), ("links_of", 1), ("is_linked", 3), *_DECISIONS):
        plan = [
            row[3] for row in store._db.execute(f"EXPLAIN QUERY PLAN {sql.query(name)}", ("[]",) * values)
        ]
        assert not [line for line in plan if line in ("SCAN t", "SCAN s", "SCAN o", "SCAN tasks")], plan
        assert not [line for line in plan if line.endswith("PRIMARY KEY (kind=?)")], plan
        if name == "decisions":
            assert not [line for line in plan if "ORDER BY" in line], plan
        if name in dict(_DECISIONS):
            assert any(line.startswith("SCAN e USING ") and "events_of_decisions" in line for line in plan), (
                plan
            )
    store.close()
