"""`repair_store`: refusals, crashes in the middle, what is lost, and where the rest comes from."""

import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast import Holdfast, step, workflow
from holdfast.errors import BadInput, InDoubt, NotFound, NotTrusted, StoreCorrupt, StoreHeld, StoreNewer
from holdfast.operations.repairing.report import RepairReport
from holdfast.store.sqlite.salvage import swap
from holdfast.store.sqlite.store import SqliteStore

PAGE = 2048


@step
def work(n: int) -> str:
    return f"piece {n} " * 20


@step(effect="once")
def pay(amount: int) -> int:
    return amount


@workflow
def order(count: int) -> int:
    for n in range(count):
        work(n)
    return pay(count)


@workflow
def family() -> int:
    return order(30)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run, a backup of it, another run, two tasks, and a mirror with their journal."""
    monkeypatch.setenv("HOLDFAST_MIRROR_DIR", str(tmp_path / "mirror"))
    home = tmp_path / "home"
    with Holdfast(home, durability="process") as hf:
        hf.with_id("first").run(order, 20)
        hf.backup()
        hf.with_id("second").run(order, 20)
        hf.tasks.create("find the tide table")
        hf.tasks.create("count the kelp")
        hf.mirror_rebuild()
    return home


def content(home: Path) -> dict[str, list[tuple[object, ...]]]:
    """The whole log, read by the standard library's SQLite."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        rows = db.execute(
            "SELECT s.name, e.version, e.type, e.payload, e.hash FROM events AS e JOIN streams AS s "
            "ON s.id = e.stream ORDER BY s.name, e.version"
        ).fetchall()
    return {name: [row[1:] for row in rows if row[0] == name] for name in {row[0] for row in rows}}


def order_of_events(home: Path) -> list[tuple[str, int]]:
    """(stream, version) of all events, as they stand in the log."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        return db.execute(
            "SELECT s.name, e.version FROM events AS e JOIN streams AS s ON s.id = e.stream ORDER BY position"
        ).fetchall()


def files(home: Path) -> dict[Path, bytes]:
    """Every file but the locks."""
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and path.suffix != ".lock"}


def damage_event(home: Path, run: str, version: int) -> None:
    """Flip a bit in the payload of one event."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        (payload,) = db.execute(
            "SELECT payload FROM events e JOIN streams s ON s.id = stream WHERE e.version = ? AND name = ?",
            (version, run),
        ).fetchone()
    data = bytearray((home / "holdfast.db").read_bytes())
    at = data.find(payload.encode()[:60])
    while at >= 0:
        data[at + 10] ^= 1
        at = data.find(payload.encode()[:60])
    (home / "holdfast.db").write_bytes(data)


def verified(home: Path) -> dict[str, str]:
    """The status of each run of a store that must verify."""
    with closing(SqliteStore(home)) as store:
        assert list(store.verify()) == []
        return {row.id: row.status for row in store.runs()}


def test_a_whole_store_is_left_alone(home: Path) -> None:
    """Nothing is found, and no file changes."""
    before = files(home)
    report = Holdfast.repair_store(home)
    assert (report.ok, report.findings, report.kept) == (True, (), None)
    assert files(home) == before


def test_a_dry_run_changes_nothing(home: Path) -> None:
    """What is damaged is named, with what would be done."""
    damage_event(home, "second", 5)
    before = files(home)
    report = Holdfast.repair_store(home, dry_run=True)
    assert (
        not report.ok and report.findings[0].place == "second" and "written anew" in report.findings[0].action
    )
    assert files(home) == before


def test_an_event_comes_back_from_a_backup(home: Path) -> None:
    """The log is what it was, with its incarnation: nobody who follows it notices."""
    whole = content(home)
    with closing(SqliteStore(home)) as store:
        cursor = store.tail()
    damage_event(home, "first", 7)
    report = Holdfast.repair_store(home)
    assert report.ok and any("backup" in copy for copy in report.taken)
    assert content(home) == whole
    with closing(SqliteStore(home)) as store:
        assert store.feed(cursor).entries == []
    assert report.kept is not None and (report.kept / "holdfast.db").exists()


def test_a_run_that_lost_its_tail_waits_for_a_person(home: Path) -> None:
    """A completed run whose middle is lost is not completed any more; the `once` step behind the cut is
    named."""
    damage_event(home, "second", 9)
    report = Holdfast.repair_store(home)
    (lost,) = report.lost
    assert (lost.stream, lost.first, lost.what, lost.once) == ("second", 9, "run order", ("pay#1",))
    assert not report.ok and "pay#1" in report.attention["second"]
    assert verified(home) == {"first": "completed", "second": "needs_attention"}
    assert Holdfast.repair_store(home).findings == ()


def test_a_parent_has_not_lost_what_its_child_has(home: Path) -> None:
    """An index of the database has each parent with the number of its child: that is not a name of it."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("family").run(family)
    whole = content(home)
    assert len(whole["family"]) < len(whole["family.order-1"])
    damage_event(home, "second", 9)
    report = Holdfast.repair_store(home)
    assert [one.stream for one in report.lost] == ["second"]
    assert content(home)["family"] == whole["family"]


def test_a_once_step_whose_outcome_is_lost_is_in_doubt(home: Path) -> None:
    """Its beginning is recorded, its end is not: nobody runs it again before a person has decided."""
    (version,) = (row[0] for row in content(home)["second"] if row[1] == "StepCompleted")
    damage_event(home, "second", version)
    report = Holdfast.repair_store(home)
    assert [(one.first, one.once) for one in report.lost] == [(version, ("pay#1",))]
    assert "pay#1" in report.attention["second"]
    with Holdfast(home) as hf:
        assert hf.get("second").status == "needs_attention"
        with pytest.raises(InDoubt, match="pay#1"):
            hf.resume("second")
        hf.settle("second", "pay#1", done=20)
        assert hf.resume("second").result() == 20


def test_a_lost_record_is_made_again_from_its_stream(home: Path) -> None:
    """The record of a stream's creation; the report says where it came from, as it does for other events."""
    whole = content(home)
    (version,) = (row[0] for row in whole["@store"] if '"second"' in str(row[2]))
    damage_event(home, "@store", version)
    for backup in (home / "backups").iterdir():
        backup.unlink()
    report = Holdfast.repair_store(home)
    assert report.ok and report.taken["the streams whose creation they record"] == 1
    repaired = content(home)
    assert repaired["@store"].pop()[1] == "StoreRepaired" and repaired == whole


def test_a_run_that_only_the_mirror_shows_keeps_its_number(home: Path) -> None:
    """Nothing of it is in the log, nor the record of its creation: its time says which record that was."""
    for backup in (home / "backups").iterdir():
        backup.unlink()
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        numbers = dict(db.execute("SELECT name, id FROM streams"))
        db.execute("PRAGMA secure_delete = ON")
        db.execute("DELETE FROM events WHERE stream = ?", (numbers["first"],))
        db.execute("DELETE FROM events WHERE stream = 1 AND version = ?", (numbers["first"] - 1,))
        db.execute("DELETE FROM streams WHERE name = 'first'")
        db.commit()
    report = Holdfast.repair_store(home)
    assert [(one.stream, one.what) for one in report.lost] == [("first", "run order(20)")]
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        assert dict(db.execute("SELECT name, id FROM streams")) == numbers


def damage_record(home: Path, name: str) -> None:
    """Flip a bit in the name that the record of a stream's creation has."""
    data = (home / "holdfast.db").read_bytes()
    (whole,) = set(re.findall(rb'\{"stream":"' + re.escape(name).encode() + rb'","kind":"[a-z]+"\}', data))
    damaged = whole.replace(name.encode(), name[:-1].encode() + bytes([ord(name[-1]) ^ 1]))
    (home / "holdfast.db").write_bytes(data.replace(whole, damaged))


def numbers(home: Path) -> dict[str, tuple[int, str]]:
    """Stream → its id and kind."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        return {name: (id, kind) for name, id, kind in db.execute("SELECT name, id, kind FROM streams")}


def remove(home: Path, run: str) -> None:
    """Remove all events of a run, and the record of its creation."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        (id,) = db.execute("SELECT id FROM streams WHERE name = ?", (run,)).fetchone()
        db.execute("PRAGMA secure_delete = ON")
        db.execute("DELETE FROM events WHERE stream = ?", (id,))
        db.execute("DELETE FROM events WHERE stream = 1 AND version = ?", (id - 1,))
        db.commit()
        db.execute("VACUUM")


@pytest.mark.parametrize("how", ["archived", "deleted", "lost before"])
def test_the_damaged_record_of_a_stream_that_is_gone(home: Path, how: str) -> None:
    """A run that was archived, deleted for good or lost before keeps its name and its number, though the
    record of its creation is damaged."""
    with Holdfast(home, durability="process") as hf:
        if how == "archived":
            hf.archive(timedelta(0))
        elif how == "deleted":
            hf.delete("first")
            hf.gc()
    for file in (home / "archive").glob("*"):
        file.unlink()
    if how == "lost before":
        for backup in (home / "backups").iterdir():
            backup.unlink()
        remove(home, "first")
        assert not Holdfast.repair_store(home).ok
    shutil.rmtree(home.parent / "mirror")
    for kept in [*home.glob("before-repair-*"), *home.glob("backups/*")]:
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    before = numbers(home)
    assert before["first"][1] == "archived"
    damage_record(home, "first")
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost) == (True, ())
    assert numbers(home) == before
    verified(home)


def test_a_renamed_record_behind_a_lost_one(home: Path) -> None:
    """No hash proves the record behind a lost one. The first event of the run that it names does."""
    for backup in (home / "backups").iterdir():
        backup.unlink()
    shutil.rmtree(home.parent / "mirror")
    before, events = numbers(home), len(content(home)["first"])
    remove(home, "first")
    damage_record(home, "second")
    report = Holdfast.repair_store(home)
    assert [(one.stream, one.first, one.last) for one in report.lost] == [("first", 1, events)]
    assert numbers(home) == before | {"first": (before["first"][0], "archived")}


@pytest.mark.parametrize("has_row", [True, False])
def test_what_a_restore_took_away_stays_away(home: Path, has_row: bool) -> None:
    """The store that a restore kept has another run under the number of the lost one."""
    with Holdfast(home, durability="process") as hf:
        backup = hf.backup()
        hf.with_id("left").run(order, 2)
    Holdfast.restore_backup(backup.path, home)
    for file in (home / "backups").iterdir():
        file.unlink()
    with Holdfast(home, durability="process") as hf:
        hf.with_id("third").run(order, 2)
        hf.with_id("fourth").run(order, 2)
    shutil.rmtree(home.parent / "mirror")
    before = numbers(home)
    remove(home, "third")
    if not has_row:
        with closing(sqlite3.connect(home / "holdfast.db")) as db:
            db.execute("DELETE FROM streams WHERE name = 'third'")
            db.commit()
            db.execute("VACUUM")
    report = Holdfast.repair_store(home)
    number, _ = before.pop("third")
    assert [one.stream for one in report.lost] == ["third" if has_row else "@store"]
    assert numbers(home) == before | {"third" if has_row else f"@lost/{number - 1}": (number, "archived")}


def test_a_journal_is_proven_though_the_records_of_its_tasks_are_lost(home: Path) -> None:
    """Without the card of the mirror, the journal must share an event with the log: the index has the names
    of the tasks."""
    (home.parent / "mirror" / "mirror.json").unlink()
    tasks = [name for name in content(home) if name.startswith("@task/")]
    for name in tasks:
        damage_record(home, name)
    whole = content(home)[tasks[0]]
    damage_event(home, tasks[0], 1)
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost) == (True, ())
    assert content(home)[tasks[0]] == whole


def test_hashes_of_large_values_are_no_names_of_streams(home: Path) -> None:
    """There are more large values than streams, and the index of the names is lost."""
    for backup in (home / "backups").iterdir():
        backup.unlink()
    shutil.rmtree(home.parent / "mirror")
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        for n in range(500):
            data = f"value {n}".encode()
            db.execute("INSERT INTO blobs (hash, data) VALUES (?, ?)", (sha256(data).hexdigest(), data))
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA writable_schema = ON")
        db.execute("DELETE FROM streams WHERE id BETWEEN 3 AND 5")
        db.execute(
            "DELETE FROM events WHERE stream BETWEEN 3 AND 5 OR stream = 1 AND version BETWEEN 2 AND 4"
        )
        db.commit()
        db.execute("VACUUM")
    report = Holdfast.repair_store(home)
    assert [(one.stream, one.first, one.last) for one in report.lost] == [("@store", 2, 4)]
    assert sorted(name for name in numbers(home) if name.startswith("@lost/")) == [
        "@lost/2",
        "@lost/3",
        "@lost/4",
    ]


def damage_position(home: Path, run: str, version: int, wrong: int) -> None:
    """Change the number of the row that has an event, in the table only. The row ends with the hash, and its
    size and number, a byte each, stand before it."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        position, stream, type = db.execute(
            "SELECT position, stream, type FROM events WHERE version = ? "
            "AND stream = (SELECT id FROM streams WHERE name = ?)",
            (version, run),
        ).fetchone()
    assert position < 128
    numbers = bytes([stream, version]) if stream > 1 else bytes([version])
    data = bytearray((home / "holdfast.db").read_bytes())
    changed = 0
    for header in range(9, 14):
        at = data.find(numbers + type.encode())
        while at >= 0:
            if (
                data[at - header : at - header + 2] == bytes([header, 0])
                and data[at - header - 1] == position
            ):
                data[at - header - 1] = wrong
                changed += 1
            at = data.find(numbers + type.encode(), at + 1)
    assert changed
    (home / "holdfast.db").write_bytes(data)


@pytest.mark.parametrize("run", ["first", "second", "@store"])
@pytest.mark.parametrize("wrong", [0, 5, 127])
def test_the_index_has_a_damaged_position(home: Path, run: str, wrong: int) -> None:
    """The log is what it was, in the same order and with its incarnation."""
    whole = order_of_events(home)
    with closing(SqliteStore(home)) as store:
        cursor = store.tail()
    damage_position(home, run, 3, wrong)
    report = Holdfast.repair_store(home)
    assert (report.ok, report.lost) == (True, ())
    assert order_of_events(home) == whole
    with closing(SqliteStore(home)) as store:
        assert store.feed(cursor).entries == []


@pytest.mark.parametrize("run", ["first", "second", "@store"])
def test_an_event_without_a_position_stays_between_its_neighbours(home: Path, run: str) -> None:
    """No copy has its position. No other event moves."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        db.execute("PRAGMA secure_delete = ON")
        db.execute(
            "UPDATE events SET position = -1 WHERE version = 3 "
            "AND stream = (SELECT id FROM streams WHERE name = ?)",
            (run,),
        )
        db.commit()
    whole = [one for one in order_of_events(home) if one != (run, 3)]
    damage_event(home, "second", 9)
    assert not Holdfast.repair_store(home).ok
    repaired = order_of_events(home)
    assert (run, 3) in repaired
    left = [one for one in whole if one in repaired and one != ("second", 9)]
    assert [one for one in repaired if one in left] == left


def test_a_deleted_database_comes_back_from_backup_and_journal(home: Path) -> None:
    """Runs as the backup has them, tasks as the journal has them."""
    tasks = {name: rows for name, rows in content(home).items() if name.startswith("@task/")}
    (home / "holdfast.db").unlink()
    with pytest.raises(StoreCorrupt, match="holdfast repair") as lost:
        Holdfast(home, read_only=True)
    assert [way.action for way in lost.value.ways] == ["repair"]
    report = Holdfast.repair_store(home)
    assert verified(home) == {"first": "completed"}
    assert len(tasks) == 2 and tasks.items() <= content(home).items()
    assert {copy.split()[1] for copy in report.taken} == {"backup", "journal"}


def test_backups_count_after_a_repair_that_lost_something(home: Path) -> None:
    """The store has another incarnation then; a backup from before is still a copy of its log."""
    damage_event(home, "second", 9)
    assert Holdfast.repair_store(home).lost
    damage_event(home, "first", 2)
    assert Holdfast.repair_store(home).ok
    assert verified(home)["first"] == "completed"
    (home / "holdfast.db").unlink()
    Holdfast.repair_store(home)
    assert verified(home)["first"] == "completed"


def test_a_backup_of_another_store_is_refused(home: Path, tmp_path: Path) -> None:
    """Named with `--from`, it is refused, and nothing changes."""
    with Holdfast(tmp_path / "other", durability="process") as other:
        other.with_id("foreign").run(order, 2)
        backup = other.backup()
    damage_event(home, "second", 9)
    before = files(home)
    with pytest.raises(BadInput, match="another store"):
        Holdfast.repair_store(home, backup=backup)
    assert files(home) == before


def test_a_journal_of_another_store_is_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the project may be of another store: nothing of it is taken, and that is said."""
    monkeypatch.setenv("HOLDFAST_MIRROR_DIR", str(tmp_path / "other-mirror"))
    with Holdfast(tmp_path / "other", durability="process") as other:
        other.tasks.create("a foreign task")
        other.mirror_rebuild()
    (home / "holdfast.db").unlink()
    report = Holdfast.repair_store(home)
    assert any("cannot be proven to be of this store" in one.what for one in report.findings)
    assert not any(name.startswith("@task/") for name in content(home))


def test_repair_does_not_make_a_foreign_store_trusted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory from elsewhere, with a backup and no database, is repaired; its checks are not executed
    before the user has trusted it."""
    with Holdfast(home, durability="process") as hf:
        task = hf.tasks.create("a trap", checks=["true"]).id
        hf.backup()
    shutil.copytree(home, tmp_path / "clone")
    (tmp_path / "clone" / "holdfast.db").unlink()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another-user"))
    report = Holdfast.repair_store(tmp_path / "clone")
    assert report.ways[-1].action == "trust"
    with Holdfast(tmp_path / "clone", durability="process") as clone:
        with pytest.raises(NotTrusted):
            clone.tasks.complete(task)
        clone.trust(tmp_path / "clone")
        assert clone.tasks.complete(task).status == "completed"


def test_refused_while_the_store_is_open(home: Path) -> None:
    """In this process, and in another one that only reads."""
    with Holdfast(home, read_only=True), pytest.raises(StoreHeld):
        Holdfast.repair_store(home)
    code = "import sys; from holdfast import Holdfast\n"
    code += (
        "with Holdfast(sys.argv[1], read_only=True) as hf: print(len(hf.page().runs), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == b"2\n"
        with pytest.raises(StoreHeld, match=str(reader.pid)):
            Holdfast.repair_store(home)
        reader.communicate(b"\n")
    assert Holdfast.repair_store(home).ok


def test_a_newer_store_is_refused(home: Path) -> None:
    """One with a table that this version does not know; a schema number alone may be damage."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        db.execute("PRAGMA user_version=999")
    report = Holdfast.repair_store(home)
    assert report.ok and "schema" in report.findings[0].what
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        db.execute("CREATE TABLE of_the_future (id INTEGER)")
        db.execute("PRAGMA user_version=999")
    with pytest.raises(StoreNewer):
        Holdfast.repair_store(home)


def test_killed_anywhere_in_the_swap(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two changes of the directory, the next repair ends as the first one would have."""
    damage_event(home, "first", 7)
    steps = 0
    while True:
        copy = tmp_path / f"killed-{steps}"
        shutil.copytree(home, copy)
        done = _repair_killed_at(copy, steps, monkeypatch)
        again = done or Holdfast.repair_store(copy)
        assert again.ok and verified(copy) == {"first": "completed", "second": "completed"}
        assert not list(copy.glob(".repairing-*")) and not list(copy.glob("before-repair-*/unfinished"))
        if done:
            break
        steps += 1
    assert steps >= 5


def _repair_killed_at(home: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> RepairReport | None:
    """A repair in which the change of a directory of that number raises; None if it did."""
    calls = 0

    def counted(real):
        def change(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls > at:
                raise KeyboardInterrupt
            return real(*args, **kwargs)

        return change

    with monkeypatch.context() as patched:
        patched.setattr(swap, "sync_directory", counted(swap.sync_directory))
        patched.setattr(swap, "replace_file", counted(swap.replace_file))
        patched.setattr(swap, "move", counted(swap.move))
        try:
            return Holdfast.repair_store(home)
        except KeyboardInterrupt:
            return None


def test_nothing_to_repair(tmp_path: Path) -> None:
    """A directory that never had a store."""
    (tmp_path / "empty").mkdir(mode=0o700)
    with pytest.raises(NotFound):
        Holdfast.repair_store(tmp_path / "empty")
