"""What is SQLite's own: the file, its schema, its disk, its processes."""

import errno
import hashlib
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.errors import (
    OwnershipLost,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreInDoubt,
    StoreNewer,
    StoreOnNetwork,
    StoreReadOnly,
    StoreVanished,
)
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.store.folded import Folded
from holdfast.store.port import NO_EVENTS, Append, Companion, Decision, NewEvent, Source, new_event
from holdfast.store.sqlite import projections, sql
from holdfast.store.sqlite import store as store_module
from holdfast.store.sqlite.backup import create
from holdfast.store.sqlite.commit import Command, Committer
from holdfast.store.sqlite.connection import connect, filesystem_of, migrate
from holdfast.store.sqlite.restore import restore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import (
    CODE,
    EVERYTHING,
    archived,
    output_append,
    own,
    perform,
    start_append,
    step_append,
    whole_feed,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(home)
    own(store, "r")
    yield store
    store.close()


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 400 kB. Where nothing can be mounted the test is skipped, but not in CI: there it
    would never run at all."""
    point = tmp_path / "mounted"
    point.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", point], capture_output=True, check=False
    )
    if done.returncode and os.environ.get("CI") != "true":
        pytest.skip("mounting needs root")
    assert done.returncode == 0, done.stderr
    yield point
    subprocess.run(["umount", "-l", point], check=True)


def remount(point: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", point], check=True)


def python(script: str, *args: object) -> subprocess.Popen[str]:
    """A process of its own, with the usual names imported."""
    start = "import os, signal, sys, threading\nfrom pathlib import Path\n"
    start += "from holdfast.store.sqlite.store import SqliteStore\nfrom holdfast.testing.histories import *\n"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", start + textwrap.dedent(script), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# Schema and migrations


def shape(db: apsw.Connection) -> list[tuple[str, ...]]:
    rows = db.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema").fetchall()
    return sorted((*row[:3], " ".join(row[3].split())) for row in rows)


def test_the_schema_is_what_the_migrations_make():
    """schema.sql, the one to read, equals the migrations, the ones that run, all replayed."""
    written, replayed = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    written.execute(sql.script("schema.sql"))
    for _, _, text in sql.migrations():
        replayed.execute(text)
    assert shape(written) == shape(replayed)
    assert [number for number, _, _ in sql.migrations()] == list(range(1, sql.schema_version() + 1))


def test_a_migration_keeps_the_data_and_an_older_holdfast_refuses_it(store, home, monkeypatch):
    """The next schema is applied at opening; what was there is there; the code of before says that the
    store is newer than it knows."""
    store.append(step_append("r", "a#1"))
    before = (store.runs(), store.steps("r"), whole_feed(store))
    store.close()
    later = (*sql.migrations(), (len(sql.migrations()) + 1, "later", "CREATE TABLE moods (mood TEXT) STRICT"))
    with monkeypatch.context() as patch:
        patch.setattr(sql, "migrations", lambda: later)
        patch.setattr(sql, "schema_version", lambda: len(later))
        newer = SqliteStore(home)
        assert (newer.runs(), newer.steps("r"), whole_feed(newer)) == before
        newer.append(step_append("r", "b#1"))
        assert newer._db.execute("SELECT count(*) FROM moods").get == 0
        newer.close()
        SqliteStore(home).close()
    with pytest.raises(StoreNewer, match="upgrade holdfast"):
        SqliteStore(home)


def test_a_store_without_steps_that_ran_keeps_its_steps(store, home, tmp_path):
    """Schema 1 had all steps in a table of that name: they are there after the migration, the log says the
    same of them, and steps that ran come beside them."""
    for at, commands in enumerate(EVERYTHING, 1):
        perform(store, "r", *(one for one in commands if not isinstance(one, c.RunStep)), at=at)
    perform(store, "s", c.CreateRun("s", CODE, "d"), c.ClaimRun("s", "me"), c.StartStep("a#1", "a"))
    before = (store.runs(), store.steps("r"), store.steps("s"), whole_feed(store))
    store.close()
    old = tmp_path / "old"
    old.mkdir()
    db = connect(old / "holdfast.db", create=True)
    migrate(db, upto=1)
    db.execute("ATTACH ? AS new", (str(home / "holdfast.db"),))
    for table in ("events", "streams", "blobs", "runs", "owners", "meta"):
        columns = ", ".join(name for _, name, *_ in db.execute(f"PRAGMA main.table_info({table})"))
        db.execute(f"INSERT INTO main.{table} SELECT {columns} FROM new.{table}")
    db.execute("INSERT INTO main.steps SELECT * FROM new.step_rows")
    assert (db.pragma("user_version"), db.execute("SELECT count(*) FROM main.steps").get) == (1, 12)
    db.close()
    opened = SqliteStore(old)
    assert (opened.runs(), opened.steps("r"), opened.steps("s"), whole_feed(opened)) == before
    assert list(opened.verify()) == []
    opened.append(step_append("s", "b#1"))
    perform(opened, "s", c.CompleteStep("a#1"))
    steps = [(row.key, row.status, row.version) for row in opened.steps("s")]
    assert steps == [("b#1", "completed", 4), ("a#1", "completed", 5)]
    opened.rebuild()
    assert (opened.steps("r"), list(opened.verify())) == (before[1], [])
    opened.close()


def test_projections_that_other_code_made_are_made_again(store, home, tmp_path, monkeypatch):
    """Code that projects an event otherwise, without a migration, takes no store for damaged that was right
    before: the tables are made again as it is opened, and as it is restored; no later opening does."""
    perform(
        store,
        "r",
        c.Record(e.GateOpened("send#1", 1, "approval", "send", until=50)),
        c.DecideGate("r", "approved"),
    )
    before = store.steps("r")
    backup = create(store.path, tmp_path / "backup.db", datetime(2026, 1, 1, tzinfo=UTC)).path
    store.close()
    other = sql.script("runs.sql").replace("due_at = 0, version", "version")
    with monkeypatch.context() as patch:
        texts = {"runs.sql": other}
        whole = sql.script
        patch.setattr(sql, "script", lambda name: texts.get(name) or whole(name))
        older = SqliteStore(home)
        assert [row.due_at for row in older.steps("r") if row.kind == "approval"] == [50]
        assert list(older.verify()) == []
        older.close()
        restore(backup, tmp_path / "restored", datetime(2026, 1, 1, tzinfo=UTC))
    for place in (home, tmp_path / "restored"):
        newer = SqliteStore(place)
        assert (newer.steps("r"), list(newer.verify())) == (before, [])
        newer.close()
    monkeypatch.setattr(projections, "rebuild", lambda db, groups: pytest.fail("it was right"))
    SqliteStore(home).close()


class FullDisk(apsw.VFS):
    """The file system, whose disk is full when it is told so."""

    def __init__(self) -> None:
        super().__init__("full disk", "")
        self.is_full = False

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return FileOnFullDisk(self, name, flags)


class FileOnFullDisk(apsw.VFSFile):
    def __init__(self, disk: FullDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._disk.is_full:
            raise apsw.FullError("no room")
        super().xWrite(data, offset)


def test_a_disk_that_is_full_during_a_migration(home):
    """SQLite has rolled back by itself then: the error is that of the disk, and with room again it works."""
    home.mkdir()
    db = connect(home / "holdfast.db", create=True)
    migrate(db, upto=1)
    db.close()
    disk = FullDisk()
    db = apsw.Connection(str(home / "holdfast.db"), vfs="full disk")
    db.execute("PRAGMA cache_size=1")  # so that pages are written before the commit
    disk.is_full = True
    with pytest.raises(apsw.FullError):
        migrate(db)
    disk.is_full = False
    assert (db.in_transaction, db.pragma("user_version")) == (False, 1)
    migrate(db)
    assert db.pragma("user_version") == sql.migrations()[-1][0]
    db.close()


def test_a_process_that_only_reads_opens_the_database_once(store, home, monkeypatch):
    """The connection that checks the store at its opening reads from it, too; a write opens another."""
    store.append(step_append("r", "a#1"))
    store.close()
    opened = []
    monkeypatch.setattr(store_module, "connect", lambda *a, **b: opened.append(a) or connect(*a, **b))
    again = SqliteStore(home)
    assert [row.id for row in again.runs()] == ["r"]
    assert len(again.steps("r")) == 1
    assert len(opened) == 1
    again.append(step_append("r", "b#1"))
    assert len(again.steps("r")) == 2
    assert len(opened) == 2
    again.close()


def test_a_migration_that_fails_changes_nothing(store, home, monkeypatch):
    """It is one transaction: the code of before opens the store as if nothing had been tried."""
    store.close()
    broken = "CREATE TABLE moods (mood TEXT) STRICT; INSERT INTO moods VALUES (1, 2)"
    later = (*sql.migrations(), (len(sql.migrations()) + 1, "broken", broken))
    with monkeypatch.context() as patch:
        patch.setattr(sql, "migrations", lambda: later)
        patch.setattr(sql, "schema_version", lambda: len(later))
        with pytest.raises(StoreError):
            SqliteStore(home)
    again = SqliteStore(home)
    assert [row.id for row in again.runs()] == ["r"]
    assert "moods" not in [row[1] for row in shape(again._reader)]
    again.close()


def test_a_store_whose_making_was_cut_off_is_finished(store, home):
    """A kill between the schema and the incarnation leaves none: the next opening mints it."""
    store._db.execute("DELETE FROM meta")
    store.close()
    again = SqliteStore(home)
    assert len(again.incarnation) == 16
    assert again.feed(again.tail()).entries == []
    again.close()


def test_the_pulse_is_another_number_after_an_error_of_the_disk(store):
    """Another connection reads then, whose own count begins anew."""
    seen = [store.pulse()]
    for number in range(4):
        store._disconnect()
        store.append(step_append("r", f"a#{number}"))
        seen.append(store.pulse())
    assert len(set(seen)) == len(seen)


def test_everything_is_private(store, home):
    """The directory is 0700 and every file in it 0600, whatever the umask."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.iterdir())}
    assert modes.pop("home") == 0o700
    assert set(modes) >= {"holdfast.db", "holdfast.db-wal", "write.lock"}
    assert set(modes.values()) == {0o600}


# What is found at the path


def test_a_database_of_another_program_is_left_alone(home):
    """Refused by its application id, its version, or any table; not a byte of it is changed."""
    for setup in ("CREATE TABLE a (b)", "PRAGMA application_id = 7", "PRAGMA user_version = 3"):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        db = sqlite3.connect(home / "holdfast.db")
        db.executescript(setup)
        db.close()
        before = (home / "holdfast.db").read_bytes()
        with pytest.raises(StoreForeign):
            SqliteStore(home)
        assert (home / "holdfast.db").read_bytes() == before


@pytest.mark.parametrize("text", ["hi", "hello\n" * 1000])
def test_a_file_that_is_no_database_is_left_alone(home, text):
    """A text in the database's place is foreign, and stays as it is."""
    home.mkdir()
    (home / "holdfast.db").write_text(text)
    with pytest.raises(StoreForeign):
        SqliteStore(home)
    assert (home / "holdfast.db").read_text() == text


def test_an_empty_file_becomes_a_store(home):
    """It is what a kill at the very beginning leaves."""
    home.mkdir()
    (home / "holdfast.db").touch()
    store = SqliteStore(home)
    own(store, "r")
    store.close()


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: os.truncate(path, 0)], ids=["missing", "empty"])
def test_a_database_that_was_lost_is_not_made_anew(store, home, lose):
    """Where a store was, a database that is missing or empty is a loss, and stays what it is."""
    store.close()
    lose(home / "holdfast.db")
    left = sorted(home.iterdir())
    with pytest.raises(StoreCorrupt, match="lost its database"):
        SqliteStore(home)
    assert sorted(home.iterdir()) == left


@pytest.mark.parametrize(
    ("where", "length"), [(0, 1), (16, 4), (100, 60), (4096, 4096), (8192, 24576)],
    ids=["magic", "page size", "first page", "second page", "many pages"],
)  # fmt: skip
def test_a_damaged_file_is_corrupt(store, home, where, length):
    """Damage in the header, in the schema or in the pages is told as damage when it is met, and the file
    is not taken for another program's."""
    for n in range(200):
        store.append(step_append("r", f"a#{n}", durable=False))
    store.close()
    data = bytearray((home / "holdfast.db").read_bytes())
    data[where : where + length] = b"\xff" * length
    (home / "holdfast.db").write_bytes(data)
    damaged = None
    with pytest.raises(StoreCorrupt):
        damaged = SqliteStore(home)
        damaged.load("r")
        damaged.append(step_append("r", "b#1", epoch=1))
    if damaged is not None:
        damaged.close()


@pytest.mark.parametrize("head", [None, "3", 4.5])
def test_a_head_that_is_no_number_is_damage(store, monkeypatch, head):
    """A flipped bit in the header of a row can make anything of its columns."""
    rows = [(*row[:5], head) for row in store._read("load", ("r", 0))]
    monkeypatch.setattr(store, "_read", lambda *_: rows)
    with pytest.raises(StoreCorrupt, match="does not verify"):
        store.load("r")


def test_the_home_may_not_be_a_file(tmp_path):
    """A file where the directory should be: the store cannot be made there."""
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreReadOnly):
            SqliteStore(home)


# The file under a live store


def _unlink(store: SqliteStore) -> None:
    store.path.unlink()


def _remove_directory(store: SqliteStore) -> None:
    shutil.rmtree(store.path.parent)


def _replace(store: SqliteStore) -> None:
    other = SqliteStore(store.path.parent / "other")
    own(other, "q")
    other.close()
    other.path.replace(store.path)


def _unlink_log(store: SqliteStore) -> None:
    store.path.with_name("holdfast.db-wal").unlink()
    store._wal_due = 0.0  # it is looked at once a second


def _empty(store: SqliteStore) -> None:
    os.truncate(store.path, 0)


@pytest.mark.parametrize("lose", [_unlink, _remove_directory, _replace, _unlink_log, _empty])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(store, lose):
    """Deleted, replaced or emptied, the database or its write-ahead log: every write says so, every new
    reader too, and no empty database takes the place of the old one."""
    assert store._reader is None
    lose(store)
    there = store.path.exists()
    for append in (step_append("r", "a#1"), output_append("r", "x")):
        with pytest.raises(StoreVanished):
            store.append(append)
    with pytest.raises(StoreVanished):
        perform(store, "s", c.CreateRun("s", CODE, "d"))
    with pytest.raises(StoreVanished):
        store.load("r")
    with pytest.raises(StoreVanished):
        list(store.verify())
    assert store.path.exists() == there


def test_a_database_that_is_gone_does_not_come_back_empty(home):
    """Only the opening of a store makes its file: a second connection never does."""
    home.mkdir()
    with pytest.raises(StoreError):
        connect(home / "holdfast.db")
    assert list(home.iterdir()) == []


class Disk(apsw.VFS):
    """The disk under every store that is opened from now on; `faults` are its next syncs that fail."""

    def __init__(self) -> None:
        self.faults = 0
        super().__init__("faulty", "", makedefault=True)

    def xOpen(self, name, flags):
        return DiskFile(self, name, flags)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name, flags) -> None:
        self.disk = disk
        super().__init__("unix", name, flags)

    def xSync(self, flags):
        if self.disk.faults:
            self.disk.faults -= 1
            raise apsw.IOError("the disk is on fire")
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.unregister()


SUBMISSIONS = [
    lambda store: store.append(step_append("r", "a#1")),
    lambda store: store.append(start_append("r", "a#1")),
    lambda store: perform(store, "r", c.ReleaseRun("r", "me")),
    lambda store: perform(store, "s", c.CreateRun("s", CODE, "d")),
]


@pytest.mark.parametrize("submit", SUBMISSIONS)
@pytest.mark.parametrize("shared", [False, True])
def test_after_a_sync_that_failed_nothing_is_written_or_the_outcome_is_in_doubt(
    disk, home, tmp_path, submit, shared
):
    """The log is read before the report. Said to be not written, it is not there for the next process
    either, should all of these be killed now; the submission can be made again."""
    store = SqliteStore(home)
    own(store, "r")
    others = [SqliteStore(home)] if shared else []
    assert [len(one.load("r")) for one in (store, *others)] == [2] * (1 + shared)
    connection, disk.faults = store._db, 1
    with pytest.raises(StoreError, match="nothing of the last commit was written") as told:
        submit(store)
    assert (type(told.value), disk.faults, store._db is connection) == (StoreError, 0, False)
    copy = tmp_path / "copy"
    copy.mkdir()
    subprocess.run(["sh", "-c", f"cp {home}/holdfast.db* {copy}; rm {copy}/*-shm"], check=True)
    copied = SqliteStore(copy)
    assert (len(copied.load("r")), copied.run("s")) == (2, None)
    copied.close()
    submit(store)
    assert list(store.verify()) == []

    disk.faults = 1000
    with pytest.raises(StoreInDoubt, match="whether the last commit took place"):
        store.append(output_append("r", "y"))
    disk.faults = 0
    store.append(output_append("r", "z"))
    assert list(store.verify()) == []
    for one in (store, *others):
        one.close()


def test_what_an_io_error_left_in_the_log_is_in_doubt_all_the_same(store, monkeypatch):
    """It is there, but it may not survive a power cut: nobody is told that it is safe."""
    before, write = store._db, Committer.write

    def fail(self, batch):
        write(self, batch)
        raise apsw.IOError("the disk is on fire")

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "write", fail)
        with pytest.raises(StoreInDoubt):
            store.append(step_append("r", "a#1"))
        with pytest.raises(StoreInDoubt):
            perform(store, "s", c.CreateRun("s", CODE, "d"))
    store.append(step_append("r", "b#1"))
    assert store._db is not before
    assert (len(store.load("r")), len(store.load("s"))) == (4, 1)


def test_after_an_io_error_a_store_that_cannot_be_read_is_in_doubt(store, monkeypatch):
    """Nothing is known then, and no database is made in the place of the old one."""

    def fail(self, batch):
        _unlink(store)
        raise apsw.IOError("the disk is on fire")

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "write", fail)
        with pytest.raises(StoreInDoubt):
            store.append(step_append("r", "a#1"))
    with pytest.raises(StoreVanished):
        store.append(step_append("r", "a#1"))
    assert not store.path.exists()


# Audit: where it says that something is wrong

STEPS = ("r", 0, "the table step_rows does not match the log")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE streams SET hash = x'00' WHERE name = 'gone'",
        "UPDATE streams SET version = 2 WHERE name = 'gone'",
        "UPDATE streams SET kind = 'run' WHERE name = 'gone'",
        "DELETE FROM streams WHERE name = 'gone'",
        "DELETE FROM events WHERE type = 'StreamArchived'",
        "UPDATE events SET stream = (SELECT id FROM streams WHERE name = 'gone') WHERE type = 'RunCompleted'",
        "DELETE FROM events WHERE stream = (SELECT id FROM streams WHERE name = 'r')",
        "UPDATE streams SET kind = 'archived' WHERE name = 'r'",
    ],
)
def test_an_archive_is_no_way_to_make_a_run_disappear(home, damage):
    """What is left of an archived run, its record, and a run that only looks archived: each is compared."""
    store = SqliteStore(home)
    for run in ("gone", "r"):
        own(store, run)
        perform(store, run, c.CompleteRun())
    assert store.archive([[archived(store, "gone")]], 9) == ["gone"]
    assert list(store.verify()) == []
    store.close()
    with closing(apsw.Connection(str(home / "holdfast.db"))) as db:
        db.execute(damage)
    store = SqliteStore(home)
    assert list(store.verify()) != []
    store.close()


OF_R = "stream = (SELECT id FROM streams WHERE name = 'r')"


@pytest.mark.parametrize(
    ("damage", "faults"),
    [
        (f"DELETE FROM events WHERE {OF_R} AND version = 6", [("r", 6, "cut off"), STEPS]),
        (f"DELETE FROM events WHERE {OF_R} AND version = 4", [("r", 4, "missing"), STEPS]),
        (f"DELETE FROM events WHERE {OF_R} AND version = 3", [("r", 3, "missing")]),
        ("UPDATE streams SET hash = x'00' WHERE name = 'r'", [("r", 6, "the head (version 6) does not")]),
        ("UPDATE streams SET version = 5 WHERE name = 'r'", [("r", 6, "the head (version 5) does not")]),
        (f"UPDATE events SET time = 9 WHERE {OF_R} AND version = 2", [("r", 2, "RunClaimed was changed")]),
        (f"UPDATE events SET payload = '{{' WHERE {OF_R} AND version = 2",
         [("r", 2, "RunClaimed was changed"), ("", 0, "the log cannot be projected")]),
        (f"UPDATE events SET payload = '{{' WHERE {OF_R} AND version = 3", [("r", 3, "StepRan was changed")]),
        ("UPDATE streams SET name = 's' WHERE name = 'r'",
         [("s", 1, "RunCreated was changed"), ("s", 0, "no record"), ("r", 0, "dropped")]),
        ("DELETE FROM streams WHERE name = 'r'",
         [("#r", 1, "events of a stream that has no head"), ("r", 0, "dropped")]),
        ("DELETE FROM blobs", [("r", 3, "is missing"), ("r", 6, "is missing")]),
        ("UPDATE events SET position = 0 WHERE position = 1", [("", 0, "at positions 0 to 7")]),
        ("UPDATE events SET position = 99 WHERE position = 7", [("", 0, "at positions 1 to 99")]),
        ("UPDATE step_rows SET attempt = 9", [STEPS]),
        ("DELETE FROM runs", [("r", 0, "the table runs does not match")]),
    ],
)  # fmt: skip
def test_verify_says_where(home, damage, faults):
    """The stream, the version and what is wrong there, for each place and only once."""
    store = SqliteStore(home)
    own(store, "r")
    data = b"large"
    hash = hashlib.sha256(data).hexdigest()
    ran = e.StepRan("a#1", "a", 1, blob=hash)
    store.append(Append("r", 1, [new_event(ran, 2)], blobs=[(hash, data)]))
    done = new_event(e.StepCompleted("b#1", blob=hash), 3)
    plain = (*start_append("r", "b#1").events, *output_append("r", "x").events, done)
    store.append(Append("r", 1, plain))
    assert list(store.verify()) == []
    db = apsw.Connection(str(store.path))
    number = db.execute("SELECT id FROM streams WHERE name = 'r'").get
    faults = [(stream.replace("#r", f"#{number}"), *rest) for stream, *rest in faults]
    db.execute(damage)
    db.close()
    found = [(fault.stream, fault.version, fault.what) for fault in store.verify()]
    assert [fault[:2] for fault in found] == [fault[:2] for fault in faults]
    assert all(expected[2] in fault[2] for fault, expected in zip(found, faults, strict=True)), found
    store.close()


# Room and permissions


def fill(store: SqliteStore) -> int:
    """Append until there is no room; how many were acknowledged."""
    for count in range(1000):
        try:
            store.append(output_append("r", "x" * 4000))
        except StoreFull:
            return count
    raise AssertionError("the disk has no end")


def test_a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_room(mounted):
    """`StoreFull` for everybody until then; what was acknowledged is there, what was not is not."""
    store = SqliteStore(mounted / "home")
    own(store, "r")
    acknowledged = fill(store)
    assert acknowledged > 5
    with pytest.raises(StoreFull):
        store.append(output_append("r", "x" * 4000))
    with pytest.raises(StoreFull):
        SqliteStore(mounted / "another")
    assert len(store.load("r", output=True)) == 2 + acknowledged
    remount(mounted, "size=4m")
    store.append(step_append("r", "a#1"))
    assert len(store.load("r", output=True)) == 3 + acknowledged
    assert list(store.verify()) == []
    store.close()


def test_a_write_that_failed_leaves_no_head_behind(store, home):
    """A hot append finds no room; another process appends as many events; the next hot append is chained
    to those, not to the ones that were never written."""
    store.append(step_append("r", "a#1"))
    store._db.pragma("max_page_count", store._db.pragma("page_count"))
    large = step_append("r", "b#1")
    large.events = [new_event(e.StepRan("b#1", "b", 1, preview="x" * 9999), 2)]
    with pytest.raises(StoreFull):
        store.append(large)
    store._db.pragma("max_page_count", 1_000_000)
    other = SqliteStore(home)
    other.append(step_append("r", "c#1"))
    other.close()
    store.append(step_append("r", "d#1"))
    assert [row.key for row in store.steps("r")] == ["a#1", "c#1", "d#1"]
    assert list(store.verify()) == []


def test_a_disk_that_cannot_be_written_is_read_only(mounted):
    """Both for a store that is there and for one that is to be made."""
    SqliteStore(mounted / "home").close()
    remount(mounted, "ro")
    for home in (mounted / "home", mounted / "new"):
        with pytest.raises(StoreReadOnly):
            SqliteStore(home)


MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:5 / /proc rw - proc proc rw
40 22 0:40 / /mnt/share rw shared:2 - nfs4 server:/x rw,vers=4.2
41 22 0:41 / /mnt/share/local rw - xfs /dev/sdb1 rw
42 22 0:42 / /mnt/with\040space rw master:3 propagate_from:2 - cifs //server/x rw
43 22 0:43 / /mnt/over rw - ext4 /dev/sdc1 rw
44 22 0:44 / /mnt/over rw - fuse.sshfs host:/ rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ann", "ext4"),
        ("/", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/x", "nfs4"),
        ("/mnt/shared/x", "ext4"),
        ("/mnt/share/local/x", "xfs"),
        ("/mnt/with space/x", "cifs"),
        ("/mnt/over/x", "fuse.sshfs"),
    ],
)
def test_the_filesystem_of_a_path(path, kind):
    """The deepest mount that holds it, the last of those at one point; names are unescaped."""
    assert filesystem_of(path, MOUNTS) == kind


@pytest.mark.parametrize(("kind", "refused"), [("nfs4", True), ("fuse.sshfs", True), ("btrfs", False)])
def test_network_filesystems_are_refused(home, monkeypatch, kind, refused):
    """Where locks and syncs cannot be relied on, the promise cannot be kept."""
    read_text = Path.read_text

    def fake(self, *args):
        mounts = f"22 1 8:1 / / rw - {kind} source rw\n"
        return mounts if str(self) == "/proc/self/mountinfo" else read_text(self, *args)

    monkeypatch.setattr(Path, "read_text", fake)
    if refused:
        with pytest.raises(StoreOnNetwork, match=kind):
            SqliteStore(home)
        assert not (home / "holdfast.db").exists()
    else:
        SqliteStore(home).close()


# Processes


def test_a_forked_child_cannot_use_the_store_and_does_not_harm_it(home):
    """Forked while another thread commits: in the child every use is refused at once, also a store of its
    own, and `close` does nothing; the parent continues."""
    process = python(
        """
        from holdfast.errors import StoreClosed
        store = SqliteStore(Path(sys.argv[1]))
        own(store, "r")
        store.load("r")
        committing, go = threading.Event(), threading.Event()
        def wait(recorded):
            committing.set()
            assert go.wait(20)
            return NO_EVENTS
        leader = threading.Thread(target=store.command, args=("r", wait))
        leader.start()
        assert committing.wait(20)
        pid = os.fork()
        if pid == 0:
            refused = 0
            for use in (
                lambda: store.append(step_append("r", "a#1")),
                lambda: store.command("s", wait),
                lambda: store.load("r"),
                lambda: list(store.verify()),
            ):
                try:
                    use()
                except StoreClosed:
                    refused += 1
            store.close()
            for home in (Path(sys.argv[1]), Path(sys.argv[1]) / "own"):
                try:
                    SqliteStore(home)
                except StoreClosed:
                    refused += 1
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 6
        go.set()
        leader.join(20)
        store.append(step_append("r", "a#1"))
        assert len(store.load("r")) == 3 and list(store.verify()) == []
        store.close()
        print("fine")
        """,
        home,
    )
    assert process.communicate(timeout=60)[0] == "fine\n"


def test_the_child_of_a_process_without_threads_may_open_another_store(home):
    """But not the one that was open, as long as it is the same file; neither may its own children."""
    process = python(
        """
        from holdfast.errors import StoreClosed
        home = Path(sys.argv[1])
        store = SqliteStore(home)
        def opens(home):
            try:
                SqliteStore(home).close()
                return True
            except StoreClosed:
                return False
        def in_a_child(act):
            pid = os.fork()
            if pid == 0:
                os._exit(act())
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        def both():
            return 10 * opens(home) + opens(home / "own")
        print(in_a_child(both), in_a_child(lambda: in_a_child(both)))
        store.close()
        print(in_a_child(both))
        """,
        home,
    )
    assert process.communicate(timeout=60)[0] == "1 1\n11\n"


def test_a_forked_child_does_not_keep_the_gate_shut(home):
    """A process that forks inside a transaction and is killed there: others write at once."""
    process = python(
        """
        store = SqliteStore(Path(sys.argv[1]))
        own(store, "r")
        def die(recorded):
            if os.fork():
                os.kill(os.getpid(), signal.SIGKILL)
            print("child", flush=True)
            sys.stdin.read()
            os._exit(0)
        store.command("r", die)
        """,
        home,
    )
    assert process.stdout.readline() == "child\n"
    assert process.wait(timeout=60) == -signal.SIGKILL
    checker = python("own(SqliteStore(Path(sys.argv[1])), 's'); print('fine')", home)
    try:
        assert checker.communicate(timeout=60)[0] == "fine\n"
    finally:
        checker.kill()
        process.stdin.close()
        process.stdout.close()


def test_two_processes_make_the_store_at_the_same_moment(home):
    """Both have it, and it is one: the same incarnation, and the runs of both."""
    script = """
        print("ready", flush=True)
        sys.stdin.readline()
        store = SqliteStore(Path(sys.argv[1]))
        own(store, sys.argv[2])
        print(store.incarnation, flush=True)
        """
    processes = [python(script, home, f"r{n}") for n in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    made = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    store = SqliteStore(home)
    assert made == {store.incarnation + "\n"}
    assert sorted(row.id for row in store.runs()) == ["r0", "r1", "r2"]
    assert list(store.verify()) == []
    store.close()


@pytest.mark.parametrize(("durability", "durable"), [("process", True), ("full", False), ("full", True)])
def test_what_was_acknowledged_survives_kill_9(home, durability, durable):
    """In either durability, waiting for the disk or not."""
    process = python(
        """
        store = SqliteStore(Path(sys.argv[1]), durability=sys.argv[2])
        own(store, "r")
        for n in range(20):
            store.append(step_append("r", f"a#{n}", durable=sys.argv[3] == "True"))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        home,
        durability,
        durable,
    )
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    store = SqliteStore(home)
    assert len(store.steps("r")) == 20
    assert list(store.verify()) == []
    store.close()


def test_only_full_durability_waits_for_the_disk(home):
    """synchronous is FULL for durable commits, NORMAL for others, and never OFF."""
    seen = []
    for durability in ("full", "process"):
        store = SqliteStore(home / durability, durability=durability)
        own(store, "r")
        for durable in (True, False, True):
            store.append(step_append("r", f"a#{len(seen)}", durable=durable))
            seen.append(store._db.pragma("synchronous"))
        store.close()
    assert seen == [2, 1, 2, 1, 1, 1]


def test_positions_are_never_reused(store, home):
    """Neither after a refusal, nor after a command that raised, nor by the next process."""
    store.append(step_append("r", "a#1"))
    with pytest.raises(OwnershipLost):
        store.append(step_append("r", "b#1", epoch=9))
    store.close()
    again = SqliteStore(home)
    again.append(step_append("r", "b#1"))
    perform(again, "s", c.CreateRun("s", CODE, "d"))
    positions = [entry.position for entry in whole_feed(again)]
    assert positions == sorted(set(positions))
    assert positions[-1] == len(positions) == 7
    again.close()


# One batch


def test_an_interrupt_in_the_leader_leaves_the_others_in_doubt_and_the_store_usable(store, monkeypatch):
    """Ctrl-C is raised where it fell; the others of the batch are not told that they are safe."""
    store.append(step_append("r", "a#1"))

    def interrupted(recorded):
        raise KeyboardInterrupt

    batch = [step_append("r", "b#1"), Command([Source("r")], interrupted, True), output_append("r", "x")]
    with pytest.raises(KeyboardInterrupt):
        store._commit(batch)
    assert [type(item.error) for item in batch] == [StoreInDoubt] * 3
    assert len(store.load("r", output=True)) == 3
    with pytest.raises(KeyboardInterrupt):
        store.command("r", interrupted)
    store.append(step_append("r", "b#1"))
    assert list(store.verify()) == []


def test_a_name_that_cannot_be_written_fails_alone(store):
    """Half a character in a stream's name does not fail the others of the batch."""
    store.append(step_append("r", "a#1"))
    odd = Command([Source("\udcff")], lambda recorded: [NO_EVENTS], True)
    batch = [step_append("r", "b#1"), odd, output_append("r", "x")]
    store._commit(batch)
    assert [type(item.error) for item in batch] == [type(None), UnicodeEncodeError, type(None)]


def test_a_step_that_is_in_the_table_ends_there_whatever_ran_meanwhile(store):
    """Steps that are rows and steps that ran, in one batch and one append: each is once in `steps`."""
    store.append(start_append("r", "a#1"))
    ran, done = step_append("r", "c#1"), new_event(e.StepCompleted("a#1"), 4)
    batch = [step_append("r", "b#1"), Append("r", 1, [*ran.events, done]), start_append("r", "d#1")]
    store._commit([*batch, step_append("r", "e#1")])
    assert [(row.key, row.status, row.version) for row in store.steps("r")] == [
        ("b#1", "completed", 4),
        ("c#1", "completed", 5),
        ("a#1", "completed", 6),
        ("d#1", "running", 7),
        ("e#1", "completed", 8),
    ]
    assert list(store.verify()) == []


def test_a_reader_that_waited_for_close_opens_nothing(tmp_path: Path) -> None:
    """Its connection would stay open for ever."""
    store = SqliteStore(tmp_path)
    lock = store._reading

    class Late:
        def __enter__(self) -> None:
            store._reading = lock
            store.close()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    store._reading = Late()  # type: ignore[assignment]
    with pytest.raises(StoreClosed):
        store.run("x")
    assert store._reader is None


def test_an_error_while_the_file_is_made_is_the_store_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as such, and the next try makes it."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fchmod", fail)
        with pytest.raises(StoreError, match="Input/output error"):
            SqliteStore(tmp_path / "home").run("x")
    SqliteStore(tmp_path / "home").close()


def test_a_large_value_that_became_a_text_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a flipped bit in a page can make it."""
    store = SqliteStore(tmp_path)
    monkeypatch.setattr(store, "_read", lambda *_: [("kelp",)])
    with pytest.raises(StoreCorrupt, match="was changed"):
        store.blob("0" * 64)
    store.close()


def test_a_failed_companion_leaves_no_remembered_head(tmp_path):
    """The version of a head that was rolled back can come again with another hash: no append is chained
    to the old one."""
    store, other = SqliteStore(tmp_path), SqliteStore(tmp_path)
    own(store, "r")
    store.append(step_append("r", "a#1"))

    def no(_):
        raise LookupError("no")

    lost = step_append("r", "b#1")
    lost.also = [Companion(Source("@task/1"), no)]
    with pytest.raises(StoreError):
        store.append(lost)
    other.command("r", lambda _: Decision("run", [new_event(e.SignalReceived("note"), 3)]))
    store.append(step_append("r", "b#1"))
    assert (len(store.load("r")), list(store.verify())) == (5, [])
    store.close()
    other.close()


def test_only_the_heads_of_owned_streams_are_remembered(tmp_path):
    """Ten thousand streams that others own leave nothing behind; an owner's head stays from its claim to its
    release, also if others write to its stream."""
    store = SqliteStore(tmp_path, durability="process")
    noted = Decision("task", [NewEvent("Noted", 1, "{}")])
    for n in range(0, 10_000, 500):
        sources = [Source(f"@task/{m}") for m in range(n, n + 500)]
        store.command_all(sources, lambda recorded: [noted] * len(recorded))
    committer = store._committer
    assert committer._heads == {}
    own(store, "r")
    assert list(committer._heads) == ["r"]
    for n in range(3):
        append = step_append("r", f"a#{n}")
        append.also = [Companion(Source(f"@budget/{n}"), lambda _: noted)]
        store.append(append)
        store.command("r", lambda _: Decision("run", [new_event(e.SignalReceived("note"), 3)]))
    assert (list(committer._heads), committer._heads["r"].version) == (["r"], 8)
    perform(store, "r", c.ReleaseRun("r", "me"))
    assert committer._heads == {}
    store.close()


def test_an_owner_that_was_refused_is_forgotten(tmp_path):
    """A run that another process has taken over keeps no head here."""
    store, other = SqliteStore(tmp_path), SqliteStore(tmp_path)
    own(store, "r")
    perform(other, "r", c.ClaimRun("r", "you", force=True))
    with pytest.raises(OwnershipLost):
        store.append(step_append("r", "a#1"))
    assert store._committer._heads == {}
    store.close()
    other.close()


def test_a_batch_that_is_done_again_on_stored_heads_asks_each_decision_once(tmp_path):
    """A remembered head that is stale is found before any decision is asked for."""
    store, other = SqliteStore(tmp_path), SqliteStore(tmp_path)
    own(store, "r")
    store.append(step_append("r", "a#1"))
    other.command("r", lambda _: Decision("run", [new_event(e.SignalReceived("note"), 3)]))
    asked = []

    def decide(recorded):
        asked.append(len(recorded))
        return Decision("budget", [NewEvent("Noted", 1, "{}")])

    companion = start_append("r", "c#1")
    companion.also = [Companion(Source("@budget"), decide)]
    command = Command([Source("@budget")], lambda recorded: [decide(recorded[0])], True)
    batch = [step_append("r", "b#1"), command, companion]
    store._commit(batch)
    assert ([one.error for one in batch], asked) == ([None] * 3, [0, 1])
    assert list(store.verify()) == []
    store.close()
    other.close()


def test_a_commit_that_fails_is_not_folded(tmp_path, monkeypatch):
    """The decision was made and the commit did not take place: the folded state does not have it."""
    store = SqliteStore(tmp_path)
    folded = Folded(store, "@budget", 0, lambda state, _: state + 1)
    noted = Decision("budget", [NewEvent("Noted", 1, "{}")])
    folded.command(lambda _: noted)

    def full(*_, **__):
        raise apsw.FullError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "_append", full)
        with pytest.raises(StoreFull):
            folded.command(lambda _: noted)
    assert (folded.state, folded.version) == (1, 1)
    assert folded.command(lambda _: noted) == 2
    store.close()


LOCKS_THE_FILE = """
import fcntl, os, signal, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 512, 1 << 30)  # the bytes that SQLite locks
print("locked", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which process holds a lock")
def test_a_stopped_process_that_locks_the_file_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is stopped with SQLite's lock on the whole file keeps everybody out: the error names it
    and how to continue it. Once it continues, the store opens."""
    SqliteStore(home).close()
    monkeypatch.setattr("holdfast.store.sqlite.connection.BUSY_MS", 1)
    holder = subprocess.Popen(
        [sys.executable, "-c", LOCKS_THE_FILE, str(home / "holdfast.db")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        os.waitpid(holder.pid, os.WUNTRACED)
        with pytest.raises(
            StoreError, match=rf"process {holder.pid}, which is stopped .*`kill -CONT {holder.pid}"
        ):
            SqliteStore(home)
    finally:
        os.kill(holder.pid, signal.SIGCONT)
        holder.communicate()
    SqliteStore(home).close()


RENAMED_COLUMN = (
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, 'ended_at', 'end\xe5d_at')"
)


@pytest.mark.parametrize("damage", [RENAMED_COLUMN, "DROP INDEX steps_by_child"])
def test_a_damaged_schema_is_found(store, home, damage):
    """Every row is as it was, but a query that names the column fails, or scans without its index."""
    store.append(step_append("r", "a#1"))
    store.close()
    with closing(apsw.Connection(str(home / "holdfast.db"))) as db:
        db.execute(damage)
    with closing(SqliteStore(home)) as opened:
        assert any("the schema is damaged" in fault.what for fault in opened.verify())


def test_a_mark_that_cannot_be_read_hinders_nobody(store, home, monkeypatch):
    """The mark in the lock file is a second copy: a store whose mark is unreadable opens."""
    store.close()

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("holdfast.store.sqlite.write_lock.os.pread", fails)
    SqliteStore(home).close()
