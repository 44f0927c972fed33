"""`repair_store` of a database in which single rows are damaged: nothing else is lost, moved or invented."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.crash.repairs import record
from tests.operations.test_repairing import order_of_events, verified

from holdfast import Holdfast, step, workflow
from holdfast.store.sqlite.salvage.candidates import OWN, Candidates
from holdfast.store.sqlite.salvage.rows import EventRow
from holdfast.store.sqlite.store import SqliteStore

PAGE = 2048
HASH = b"\1" * 32


@pytest.fixture
def candidates(tmp_path: Path) -> Iterator[Candidates]:
    with closing(Candidates(tmp_path / "candidates.db")) as candidates:
        yield candidates


def test_numbers_that_sqlite_cannot_store(candidates: Candidates) -> None:
    """An event with such a version or time is left out, whichever copy has it; the others are read."""
    copy = candidates.add_copy("the database", OWN)
    created = [json.dumps({"stream": name, "kind": "run"}) for name in ("first", "second")]
    candidates.add_rows(
        copy,
        [
            EventRow(1, (1 << 63) - 1, "StreamCreated", 1, created[0], HASH, 1, 5, 0),
            EventRow(1, 1, "StreamCreated", 1, created[1], HASH, 1, 6, 0),
        ],
    )
    for version, at in ((1 << 70, 1), (1, 1 << 70), (2, 1)):
        candidates.add_event(copy, "of an archive", version, "RunCreated", at, "{}", HASH)
    candidates.read_indexes()
    candidates.name_orphans()
    assert candidates.names() == ["@store", "of an archive", "second"]
    assert [one.version for one in candidates.of("of an archive")] == [2]


def test_names_that_are_no_unicode(candidates: Candidates) -> None:
    """A damaged record with half a surrogate pair is left out; the others are read."""
    copy = candidates.add_copy("the database", OWN)
    payloads = [
        ("StoreRepaired", '{"kept":"k","before":"\\ud800"}'),
        ("StoreRepaired", '{"kept":"k","before":"0123456789abcdef"}'),
        ("StreamArchived", '{"stream":"\\ud800","version":1,"hash":"","file":"runs"}'),
        ("StreamArchived", '{"stream":"old","version":1,"hash":"","file":"runs"}'),
    ]
    rows = [EventRow(1, n, type, 1, text, HASH, 1, n, 0) for n, (type, text) in enumerate(payloads, 1)]
    candidates.add_rows(copy, rows)
    assert candidates.earlier_incarnations() == {"0123456789abcdef"}
    assert candidates.archived_in("runs") == ["old"]


@step
def work(n: int) -> str:
    return f"piece {n} " * 20


@workflow
def order(count: int) -> int:
    for n in range(count):
        work(n)
    return count


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where a store is to be. It has no mirror."""
    return tmp_path / "home"


def replace(home: Path, old: bytes, new: bytes) -> None:
    """Replace bytes of the database wherever they stand."""
    data = (home / "holdfast.db").read_bytes()
    assert old in data and len(old) == len(new)
    (home / "holdfast.db").write_bytes(data.replace(old, new))


@pytest.mark.parametrize(
    ("table", "column", "where"),
    [
        ("meta", "value", "key = 'incarnation'"),
        ("meta", "value", "key = 'projections'"),
        ("owners", "host", "TRUE"),
    ],
)
def test_a_table_that_is_not_of_the_log(home: Path, table: str, column: str, where: str) -> None:
    """A text that is no Unicode is found, and the repaired store opens: with the same events, and for those
    who follow them it is the same store."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("first").run(order, 3)
    with closing(SqliteStore(home)) as store:
        cursor = store.tail()
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        db.execute(
            "INSERT INTO owners (id, host, boot, pid, started_at) VALUES ('an owner', 'a host', '', 1, 1)"
        )
        db.execute(f"UPDATE {table} SET {column} = CAST(x'ff' || substr({column}, 2) AS TEXT) WHERE {where}")
        db.commit()
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost, len(report.findings)) == (True, (), 1)
    assert verified(home) == {"first": "completed"}
    with closing(SqliteStore(home)) as store:
        assert store.feed(cursor).entries == []
    assert Holdfast.repair_store(home).findings == ()


def row_of(home: Path, name: str) -> bytes:
    """The row of a stream, as SQLite stores it behind the number of the stream."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        query = "SELECT name, kind, version, hash, epoch, time, number FROM streams WHERE name = ?"
        return record(None, *db.execute(query, (name,)).fetchone())


def streams(home: Path) -> dict[str, tuple[int, str, int]]:
    """Stream → its id, kind and version."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        rows = db.execute("SELECT name, id, kind, version FROM streams")
        return {name: tuple(row) for name, *row in rows}


def flip(home: Path, at: int, bit: int) -> None:
    data = bytearray((home / "holdfast.db").read_bytes())
    data[at] ^= 1 << bit
    (home / "holdfast.db").write_bytes(data)


@step(effect="once")
def pay(amount: int) -> int:
    return amount


@workflow
def paid(count: int) -> int:
    for n in range(count):
        work(n)
    return sum(pay(n) for n in range(3))


@workflow
def cut_off() -> int:
    work(1)
    raise KeyboardInterrupt


@pytest.mark.parametrize("only_live", [True, False])
def test_the_row_of_a_stream_has_the_number_of_another(home: Path, only_live: bool) -> None:
    """Events of the other stream do not count as its lost end, nor their `once` steps as its own. SQLite may
    have left a copy of the row in another page."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("long").run(paid, 20)
        with pytest.raises(KeyboardInterrupt):
            hf.with_id("short").run(cut_off)
    before, row = streams(home), row_of(home, "short")
    places = [one.start() for one in re.finditer(re.escape(row), (home / "holdfast.db").read_bytes())]
    for at in places[-1:] if only_live else places:
        flip(home, at - 1, 0)
    assert before["long"][0] == before["short"][0] ^ 1
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost, report.attention) == (True, (), {})
    assert report.findings
    assert streams(home) == before
    assert verified(home) == {"long": "completed", "short": "running"}


@pytest.mark.parametrize("is_archived", [True, False])
def test_the_row_of_a_stream_has_the_name_of_another(home: Path, is_archived: bool) -> None:
    """It says nothing of the other stream, which is shorter."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("run-1").run(order, 20)
        if is_archived:
            hf.archive(timedelta(0))
        hf.with_id("run-3").run(order, 2)
    before, row = streams(home), row_of(home, "run-1")
    replace(home, row, row.replace(b"run-1", b"run-3"))
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost) == (True, ())
    assert streams(home) == before
    assert verified(home)["run-3"] == "completed"


def test_a_number_that_no_store_has(home: Path) -> None:
    """The row of a run, which is all that is left of the database, has a number far behind the end of the
    log: the run has the number that its events have in the backup, and no other stream is made up."""
    with Holdfast(home, durability="process") as hf:
        for n in range(140):
            hf.tasks.create(f"task {n}")
        hf.with_id("last").run(order, 3)
        hf.backup()
    before, row = streams(home), row_of(home, "last")
    data = bytearray((home / "holdfast.db").read_bytes())
    places = [one.start() for one in re.finditer(re.escape(row), bytes(data))]
    for at in places:
        data[at - 2] ^= 0x40  # of a number of two bytes: 142 becomes 8334
    kept = {at // PAGE for at in places}
    for page in set(range(1, len(data) // PAGE)) - kept:
        data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    (home / "holdfast.db").write_bytes(data)
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost) == (True, ())
    assert streams(home) | {"@store": before["@store"]} == before
    assert verified(home) == {"last": "completed"}


@pytest.mark.parametrize("has_others", [True, False])
def test_many_records_of_few_streams(home: Path, has_others: bool) -> None:
    """A record is lost, or most of them, in a store whose runs were deleted and undone many times. The runs
    at the end that were archived, of which only rows are left, keep their names and numbers."""
    runs = [f"run-{n}" for n in range(10)]
    with Holdfast(home, durability="process") as hf:
        for run in runs:
            hf.with_id(run).run(order, 1)
        for _ in range(5):
            hf.undo(hf.delete(*runs).operation)
        for n in range(3):
            hf.with_id(f"late-{n}").run(order, 1)
        hf.archive(timedelta(0))
    shutil.rmtree(home / "archive")
    before = streams(home)
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        db.execute("PRAGMA secure_delete = ON")
        behind = "version = 14" if has_others else "version >= 14"
        db.execute(f"DELETE FROM events WHERE stream = 1 AND {behind}")
        db.commit()
        db.execute("VACUUM")
    report = Holdfast.repair_store(home)
    after = streams(home)
    assert {one.stream for one in report.lost} == {"@store"}
    assert {name: row for name, row in after.items() if name in before and name != "@store"} == {
        name: row for name, row in before.items() if name != "@store"
    }
    with Holdfast(home, durability="process") as hf:
        hf.with_id("new").run(order, 1)
    assert streams(home)["new"][0] > max(id for id, _, _ in before.values())
    verified(home)


def misplace(home: Path, run: str, version: int, wrong: int) -> None:
    """Change the position of an event, in the table only."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        position, *row = db.execute(
            "SELECT position, stream, version, type, time, payload, hash, synced FROM events "
            "WHERE version = ? AND stream = (SELECT id FROM streams WHERE name = ?)",
            (version, run),
        ).fetchone()
    whole = record(None, *row)
    assert position < 128
    replace(home, bytes([position]) + whole, bytes([wrong]) + whole)


def write_three(home: Path, *, has_gap: bool) -> None:
    """Three runs; the log has 27 positions if the first is archived, else 26."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("gone").run(order, 6)
        if has_gap:
            hf.archive(timedelta(0))
        hf.with_id("live").run(order, 4)
        hf.with_id("other").run(order, 4)


@pytest.mark.parametrize(
    ("has_gap", "run", "version", "wrong"),
    [
        (True, "live", 1, 5),
        (True, "live", 3, 2),
        (True, "live", 3, 4),
        (True, "other", 3, 4),
        (True, "other", 7, 5),
        (True, "@store", 3, 6),
        (True, "live", 3, 28),
        (True, "live", 7, 28),
        (False, "live", 3, 27),
        (False, "live", 7, 27),
        (False, "@store", 3, 27),
        (False, "other", 7, 27),
    ],
)
def test_a_position_that_no_event_has(home: Path, has_gap: bool, run: str, version: int, wrong: int) -> None:
    """It is in the gap that an archived run left, or behind the end of the log. The index has the right one:
    the order of the log stays, and its incarnation."""
    write_three(home, has_gap=has_gap)
    whole = order_of_events(home)
    with closing(SqliteStore(home)) as store:
        cursor = store.tail()
    misplace(home, run, version, wrong)
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost, bool(report.findings)) == (True, (), True)
    assert order_of_events(home) == whole
    with closing(SqliteStore(home)) as store:
        assert store.feed(cursor).entries == []
    verified(home)


@pytest.mark.parametrize(
    ("run", "version", "wrong"),
    [
        ("live", 3, 5),
        ("live", 7, 5),
        ("@store", 4, 5),
        ("live", 1, 100),
        ("live", 3, 100),
        ("live", 7, 100),
        ("@store", 4, 100),
    ],
)
def test_a_position_that_no_copy_has(home: Path, run: str, version: int, wrong: int) -> None:
    """The table and the index have the same wrong one: no other event moves."""
    write_three(home, has_gap=True)
    whole = [one for one in order_of_events(home) if one != (run, version)]
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        db.execute("PRAGMA secure_delete = ON")
        db.execute(
            "UPDATE events SET position = ? WHERE version = ? "
            "AND stream = (SELECT id FROM streams WHERE name = ?)",
            (wrong, version, run),
        )
        db.commit()
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost, bool(report.findings)) == (True, (), True)
    assert [one for one in order_of_events(home) if one in whole] == whole
    verified(home)


def lose(home: Path, version: int) -> None:
    """Remove a record of the store's own stream."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        db.execute("PRAGMA secure_delete = ON")
        db.execute("DELETE FROM events WHERE stream = 1 AND version = ?", (version,))
        db.commit()
        db.execute("VACUUM")


@pytest.mark.parametrize("name", [b"run-3", b"run-0", b"xyz\\n"])
def test_the_record_of_an_archived_run_has_another_name(home: Path, name: bytes) -> None:
    """That of a live run, or of none: the hash in the record says which run was archived."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("run-1").run(order, 3)
        hf.archive(timedelta(0))
        hf.with_id("run-3").run(order, 4)
    with closing(SqliteStore(home)) as store:
        archive = store.archived("run-1")
    before, whole = streams(home), order_of_events(home)
    replace(home, b'{"stream":"run-1","version"', b'{"stream":"' + name + b'","version"')
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost) == (True, ())
    assert streams(home) | {"@store": before["@store"]} == before
    assert order_of_events(home)[: len(whole)] == whole
    assert verified(home) == {"run-3": "completed"}
    with closing(SqliteStore(home)) as store:
        assert archive and store.archived("run-1") == archive


@pytest.mark.parametrize("name", [b"run-3", b"run-0"])
def test_the_record_of_a_deletion_has_another_name(home: Path, name: bytes) -> None:
    """The deleted run stays deleted, and can be restored; the other one stays."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("run-1").run(order, 3)
        deletion = hf.delete("run-1")
        hf.with_id("run-3").run(order, 4)
    before = streams(home)
    replace(
        home, b'{"stream":"run-1","kind":"run","version"', b'{"stream":"' + name + b'","kind":"run","version"'
    )
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost) == (True, ())
    assert streams(home) | {"@store": before["@store"]} == before
    assert verified(home) == {"run-3": "completed"}
    with Holdfast(home, durability="process") as hf:
        hf.undo(deletion.operation)
    assert verified(home) == {"run-1": "completed", "run-3": "completed"}


@pytest.mark.parametrize("field", ["version", "hash"])
@pytest.mark.parametrize("how", ["archived", "deleted"])
def test_the_record_of_a_run_that_is_gone_has_another_head(home: Path, how: str, field: str) -> None:
    """The row of the run has the right one."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("run-1").run(order, 3)
        hf.archive(timedelta(0)) if how == "archived" else hf.delete("run-1")
        hf.with_id("run-3").run(order, 4)
    before = streams(home)
    for file in (home / "archive").glob("*"):
        file.unlink()
    data = (home / "holdfast.db").read_bytes()
    (old,) = set(re.findall(rb'"version":6,"hash":"[0-9a-f]{64}"', data))
    new = (
        old.replace(b":6,", b":4,")
        if field == "version"
        else old.replace(b'"hash":"', b'"hash":"$')[:-2] + b'"'
    )
    replace(home, old, new)
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost) == (True, ())
    assert streams(home) | {"@store": before["@store"]} == before
    assert verified(home) == {"run-3": "completed"}


@pytest.mark.parametrize("how", ["type", "lost"])
def test_the_record_of_a_deletion_is_lost(home: Path, how: str) -> None:
    """The deleted run does not come back."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("secret").run(order, 3)
        hf.with_id("other").run(order, 3)
        deletion = hf.delete("secret")
        for n in range(3):
            hf.with_id(f"more-{n}").run(order, 3)
    before, running = streams(home), verified(home)
    if how == "lost":
        lose(home, 3)
    else:
        replace(home, b"StreamDeleted", b"StreamEeleted")
    report = Holdfast.repair_store(home)
    assert {one.stream for one in report.lost} == ({"@store"} if how == "lost" else set())
    assert verified(home) == running and "secret" not in running
    assert {name: row for name, row in streams(home).items() if name in before and name != "@store"} == {
        name: row for name, row in before.items() if name != "@store"
    }
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        types = {type for (type,) in db.execute("SELECT type FROM events WHERE stream = 1")}
    assert types == {"StreamCreated", "StreamDeleted", "StoreRepaired"} | (
        {"StreamArchived"} if how == "lost" else set()
    )
    with Holdfast(home, durability="process") as hf:
        hf.undo(deletion.operation)
    assert verified(home) == running | {"secret": "completed"}


@pytest.mark.parametrize("how", ["name", "lost"])
def test_the_record_of_an_undo_is_lost(home: Path, how: str) -> None:
    """The run that was restored stays, and the one that is deleted stays deleted."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("run-1").run(order, 3)
        hf.with_id("run-3").run(order, 3)
        hf.undo(hf.delete("run-1").operation)
        hf.delete("run-3")
        hf.with_id("more").run(order, 2)
    before, running = streams(home), verified(home)
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        ((version, payload),) = db.execute(
            "SELECT version, payload FROM events WHERE stream = 1 AND type = 'StreamRestored'"
        )
    if how == "lost":
        lose(home, version)
    else:
        replace(home, payload.encode(), payload.replace("run-1", "run-3").encode())
    report = Holdfast.repair_store(home)
    assert {one.stream for one in report.lost} == ({"@store"} if how == "lost" else set())
    assert verified(home) == running == {"run-1": "completed", "more": "completed"}
    assert {name: row for name, row in streams(home).items() if name in before and name != "@store"} == {
        name: row for name, row in before.items() if name != "@store"
    }


def test_a_damaged_record_does_not_take_the_name_of_a_later_one(home: Path) -> None:
    """Of two records that create the same stream, the one that its first event proves counts, although the
    damaged one comes first."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("zero").run(order, 2)
        hf.with_id("run-1").run(order, 2)
        hf.with_id("run-3").run(order, 2)
    before = streams(home)
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        db.execute("PRAGMA secure_delete = ON")
        db.execute("DELETE FROM streams WHERE name = 'run-1'")
        db.execute("DELETE FROM events WHERE stream = 3")
        db.execute("DELETE FROM events WHERE stream = 1 AND version = 1")
        db.commit()
        db.execute("VACUUM")
    replace(home, b'{"stream":"run-1"', b'{"stream":"run-3"')
    report = Holdfast.repair_store(home)
    assert "run-3" not in {one.stream for one in report.lost}
    assert {name: streams(home)[name] for name in ("zero", "run-3")} == {
        name: before[name] for name in ("zero", "run-3")
    }
    assert verified(home) == {"zero": "completed", "run-3": "completed"}


def test_the_row_of_a_stream_has_a_name_that_is_no_text(home: Path) -> None:
    """One bit of the header of the row makes bytes of it: the database is damaged, and is repaired."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("first").run(order, 3)
    before, row = streams(home), row_of(home, "first")
    assert row[2] == 13 + 2 * len("first")
    replace(home, row, row[:2] + bytes([row[2] ^ 1]) + row[3:])
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost, bool(report.findings)) == (True, (), True)
    assert {type(one.place) for one in report.findings} == {str}
    assert streams(home) == before
    assert verified(home) == {"first": "completed"}
