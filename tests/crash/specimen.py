"""A store in which every column of every table holds something, and all that can be read from it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast import Amounts, Holdfast, Retry, command, measure, now, sleep, stage, step, uuid, workflow
from holdfast.agents import router
from holdfast.errors import NeedsAttention
from holdfast.kernel.events import encode
from holdfast.store.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[2]
DATABASE, LOG = "holdfast.db", "holdfast.db-wal"
COVERED = (
    "events", "streams", "blobs", "runs", "step_rows", "operations", "generations", "stages", "tasks",
    "task_readiness", "links", "sessions", "memories", "authored", "deleted_events", "budgets",
    "reservations", "run_spending", "outcomes",
)  # fmt: skip
"""Tables that the log's hashes speak of, or that are made of the log."""
UNCOVERED = ("owners", "meta")
TABLES = COVERED + UNCOVERED

Content = dict[str, list[Any]]


@step
def work(n: int) -> str:
    return f"piece {n} " * 9


@step
def draw(n: int) -> str:
    return f"{n:08}" * 5_000


@step(retry=Retry(attempts=3, initial=0.001))
def knock(path: str) -> int:
    with open(path, "a+b") as file:
        file.write(b"x")
        file.seek(0)
        knocks = len(file.read())
    if knocks < 3:
        raise ConnectionError("nobody there")
    return knocks


@step(effect="once")
def pay(amount: int) -> int:
    return amount


@step(effect="once", timeout=0.01)
def pay_slowly(amount: int) -> int:
    time.sleep(0.05)
    return amount


@step
def give_up() -> None:
    raise ValueError("it cannot be done")


@step(reserve=Amounts(usd="0.2", tokens=20, seconds=9, budget="team"))
def ask(model: str) -> str:
    measure(model=model, input_tokens=7, usd=Decimal("0.0123"))
    return model


@step(reserve=Amounts(usd="0.1", budget="team"))
def vanish() -> None:
    time.sleep(0.1)
    os._exit(0)


@workflow
def plain(count: int) -> int:
    now()
    stage("working")
    for n in range(count):
        work(n)
    stage("drawing, then paying")
    draw(1)
    pay(2)
    uuid()
    return len(draw(2))


@workflow
def retried(path: str) -> int:
    return knock(path)


@workflow
def child(n: int) -> str:
    """It has more events than its parent."""
    return "".join(work(part) for part in range(5 * n))


@workflow
def parent() -> str:
    return child(1) + child(2)


@workflow
def failing() -> None:
    give_up()


@workflow
def doubtful(amount: int) -> int:
    work(amount)
    return pay_slowly(amount)


@workflow
def printing() -> str:
    return command(["printf", "some output"], effect="idempotent").stdout


@workflow
def resting() -> None:
    sleep(3600)


@workflow
def costly() -> str:
    with router.route("draft", ["small", "large"]) as choice:
        ask(choice.candidate)
        choice.report(False, usd=Decimal("0.0123"), error="TimeoutError")
    return ask("large")


@workflow
def cut_off() -> None:
    vanish()


@workflow
def tracked() -> str:
    made = hf.tasks.create("found by a run", discovered_from=TASKS[0])
    hf.memory.remember("runs find tasks", kind="pattern", cites=["specimen"])
    return made.id


TASKS: list[str] = []


def write_board(hf: Holdfast) -> None:
    """Tasks in every state, sessions, memories, a deleted run and a deleted task."""
    session = hf.sessions.start()
    make = hf.tasks.create
    whole = make("whole", body="a body", labels=["a"], assignee="bob", due=datetime(2030, 1, 1, tzinfo=UTC),
                 checks=["true"], meta={"k": 1})  # fmt: skip
    TASKS.append(whole.id)
    needs = make("needs it", needs=[whole.id], priority=0)
    make("a part", parent=needs.id)
    hf.tasks.block(needs.id, "waits for paint")
    claim = hf.tasks.claim(whole.id)
    assert claim is not None
    claim.complete("done", evidence={"tests": 3}, unchecked="no time")
    failed, held, gone = make("failed"), make("held"), make("gone")
    hf.tasks.fail(failed.id, "it broke")
    hf.tasks.archive(failed.id)
    hf.tasks.claim(held.id, lease=9_999)
    hf.with_id("tracked").run(tracked)
    old = hf.memory.remember("the old way", kind="decision", source="a talk", scope=f"task:{held.id}")
    new = hf.memory.remember("the new way", kind="decision", supersedes=old.id)
    hf.memory.withdraw(new.id, "it was wrong")
    hf.sessions.end(session.id, "a summary")
    hf.with_id("deleted").run(child, 4)
    hf.delete("deleted", gone.id)


def write_history(home: Path) -> None:
    """Make the store. Ends this process in the body of a step, as a crash would."""
    global hf
    hf = Holdfast(home)
    write_board(hf)
    hf.with_id("plain").run(plain, 60)
    hf.with_id("retried").run(retried, str(home / "knocks"))
    hf.with_id("parent").run(parent)
    hf.with_id("printing").run(printing)
    hf.budgets.set("house", usd="9")
    hf.budgets.set("team", usd="2", tokens=900, parent="house")
    hf.with_id("costly").run(costly)
    for run_id in ("doubtful", "settled", "left"):
        try:
            hf.with_id(run_id).run(doubtful, 3)
        except NeedsAttention:
            pass
    hf.settle("settled", "pay_slowly", done=3, by="somebody")
    hf.with_id("settled").run(doubtful, 3)
    try:
        hf.with_id("failing").run(failing)
    except ValueError:
        pass
    hf.rewind("left", "work#1", rerun_once=True)
    hf.rewind("plain", "draw#1", rerun_once=True)
    hf.undo()
    hf.with_id("resting").start(resting)
    hf.with_id("cut-off").run(cut_off)


@dataclass(frozen=True, repr=False)
class Specimen:
    """The store, and all that can be read from it."""

    database: bytes
    """With everything checkpointed into it."""
    cut: tuple[bytes, bytes]
    """Database and write-ahead log as the crash left them."""
    columns: dict[str, list[str]]
    content: Content
    runs: list[Any]
    loads: dict[str, list[Any]]
    steps: dict[str, list[Any]]
    blobs: dict[str, bytes]


def make_specimen(home: Path) -> Specimen:
    """Let another process write the history and crash; then read it."""
    code = "import sys; from pathlib import Path; from tests.crash import specimen; "
    code += "specimen.write_history(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(home)], cwd=ROOT, check=True, timeout=60)
    path = home / DATABASE
    cut = path.read_bytes(), (home / LOG).read_bytes()
    _free_some_pages(path)
    columns, content = columns_of(path), content_of(path)
    database = path.read_bytes()
    with closing(SqliteStore(home)) as store:
        faults = list(store.verify())
        if faults:
            raise AssertionError(f"the store does not verify as it was written: {faults}")
        runs = store.runs()
        loads = {row.id: load(store, row.id) for row in runs}
        steps = {row.id: store.steps(row.id) for row in runs}
        blobs = {row[0].decode(): store.blob(row[0].decode()) for row in content["blobs"]}
    return Specimen(database, cut, columns, content, runs, loads, steps, blobs)


def _free_some_pages(path: Path) -> None:
    """Checkpoint, and leave pages in the freelist."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE scrap (data BLOB)")
        db.executemany("INSERT INTO scrap VALUES (zeroblob(?))", [(9_000,)] * 20)
        db.execute("DROP TABLE scrap")


def columns_of(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as db:
        return {table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")] for table in TABLES}


def content_of(path: Path) -> Content:
    """Every row of every table, read by the standard library's SQLite. This process must not have it open."""
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = bytes
        return {table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


def load(store: SqliteStore, run_id: str) -> list[Any]:
    return [(one.version, one.at, encode(one.event)) for one in store.load(run_id, output=True)]
