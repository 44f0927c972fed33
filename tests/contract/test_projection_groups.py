"""Groups of projections: each has its own tables and its own digest, and is rebuilt by itself."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StoreError
from holdfast.kernel import commands as c
from holdfast.store.port import Append, Companion, Decision, NewEvent, Source
from holdfast.store.sqlite import projections, sql
from holdfast.store.sqlite.projections import Group
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import archived, own, perform, start_append

TABLE = """
CREATE TABLE notes (
    stream  INTEGER NOT NULL,
    version INTEGER NOT NULL,
    text    TEXT    NOT NULL,
    PRIMARY KEY (stream, version)
) STRICT;
"""
NOTES = """
CREATE TEMP VIEW projected_notes AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload;

CREATE TEMP TRIGGER append_for_notes INSTEAD OF INSERT ON appended
WHEN NEW.type IN ('Noted', 'StreamArchived') BEGIN
    INSERT INTO projected_notes VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

CREATE TEMP TRIGGER project_noted INSTEAD OF INSERT ON projected_notes WHEN NEW.type = 'Noted' BEGIN
    INSERT INTO main.notes VALUES (NEW.stream, NEW.version, NEW.payload ->> '$.text');
END;

CREATE TEMP TRIGGER archive_notes INSTEAD OF INSERT ON projected_notes WHEN NEW.type = 'StreamArchived' BEGIN
    DELETE FROM main.notes
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
END;
"""
LOUD = NOTES.replace("NEW.payload ->> '$.text'", "upper(NEW.payload ->> '$.text')")


@pytest.fixture
def give(monkeypatch) -> Callable[..., None]:
    """Add the group `notes`, or other code for it or for `runs`."""
    script, migrations = sql.script, sql.migrations()

    def give(notes: str = NOTES, runs: str = script("runs.sql")) -> None:
        texts = {"notes.sql": notes, "runs.sql": runs, "schema.sql": script("schema.sql") + TABLE}
        monkeypatch.setattr(sql, "script", lambda name: texts.get(name) or script(name))
        later = (*migrations, (len(migrations) + 1, "notes", TABLE))
        monkeypatch.setattr(sql, "migrations", lambda: later)
        monkeypatch.setattr(sql, "schema_version", lambda: len(later))
        monkeypatch.setattr(projections, "GROUPS", (_RUNS, Group("notes", {"notes": "stream"})))

    return give


_RUNS = projections.GROUPS[0]


def note(text: str) -> Decision:
    return Decision("memory", [NewEvent("Noted", 1, f'{{"text":"{text}"}}')])


def rows(home: Path, *statements: str) -> dict[str, list[tuple[object, ...]]]:
    """The tables of both groups, after these statements."""
    db = apsw.Connection(str(home / "holdfast.db"))
    for statement in statements:
        db.execute(statement)
    tables = [*_RUNS.tables, "notes"]
    found = {table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}
    db.close()
    return found


def filled(home: Path) -> SqliteStore:
    """A store with rows in both groups, some by a companion, some of a stream that was archived."""
    store = SqliteStore(home)
    own(store, "r")
    store.append(start_append("r", "a#1"))
    for stream in ("@memory", "@old"):
        store.command(stream, lambda _: note("one"))
    append = start_append("r", "b#1")
    append.also = [Companion(Source("@memory"), lambda _: note("two"))]
    store.append(append)
    assert store.archive([[archived(store, "@old")]], at=9) == ["@old"]
    return store


MARK_RUNS = "UPDATE runs SET reason = 'marked'"
MARK_NOTES = "UPDATE notes SET text = 'marked'"


def test_a_group_is_rebuilt_as_it_was_live(tmp_path, give):
    """Both groups are written in the transaction of their events, verify, and are the same when rebuilt."""
    give()
    store = filled(tmp_path)
    live = rows(tmp_path)
    assert [text for _, _, text in live["notes"]] == ["one", "two"]
    assert list(store.verify()) == []
    rows(tmp_path, MARK_RUNS, MARK_NOTES)
    store.rebuild()
    assert (rows(tmp_path), list(store.verify())) == (live, [])
    store.close()


@pytest.mark.parametrize("mark", [MARK_RUNS, MARK_NOTES])
def test_verify_names_the_table_of_the_group_that_is_wrong(tmp_path, give, mark):
    """And no table of another one."""
    give()
    store = filled(tmp_path)
    rows(tmp_path, mark)
    faults = [fault.what for fault in store.verify()]
    assert faults and all(f"the table {mark.split()[1]} does not match" in what for what in faults)
    store.close()


def test_other_code_rebuilds_the_tables_of_its_group_only(tmp_path, give):
    """Rows of the other group stay as they are, also wrong ones; with the same code none are touched."""
    give()
    filled(tmp_path).close()
    marked = rows(tmp_path, MARK_RUNS, MARK_NOTES)
    SqliteStore(tmp_path).close()
    assert rows(tmp_path) == marked, "nothing has changed, and nothing is rebuilt"
    give(LOUD)
    store = SqliteStore(tmp_path)
    found = rows(tmp_path)
    assert [text for _, _, text in found.pop("notes")] == ["ONE", "TWO"]
    assert found == {table: marked[table] for table in _RUNS.tables}
    store.command("@memory", lambda _: note("three"))
    store.close()
    rows(tmp_path, MARK_NOTES)
    give(LOUD, sql.script("runs.sql") + "-- changed")
    store = SqliteStore(tmp_path)
    found = rows(tmp_path)
    assert {text for _, _, text in found["notes"]} == {"marked"}
    assert [row[3] for row in found["runs"]] == [""]
    store.rebuild()
    assert [text for _, _, text in rows(tmp_path)["notes"]] == ["ONE", "TWO", "THREE"]
    assert list(store.verify()) == []
    store.close()


def test_a_group_that_comes_later_is_made_of_the_whole_log(tmp_path, give):
    """A store that was written without the group has its rows at the next opening, and keeps the others."""
    store = SqliteStore(tmp_path)
    own(store, "r")
    store.command("@memory", lambda _: note("early"))
    store.close()
    give()
    db = apsw.Connection(str(tmp_path / "holdfast.db"))
    db.execute(MARK_RUNS)
    db.close()
    store = SqliteStore(tmp_path)
    found = rows(tmp_path)
    assert [text for _, _, text in found["notes"]] == ["early"]
    assert [row[3] for row in found["runs"]] == ["marked"]
    store.close()


def test_a_version_that_does_not_know_a_group_makes_it_stale(tmp_path, give, monkeypatch):
    """Events that it wrote have no rows in a group that it does not know: the group is rebuilt by the next
    version that knows it."""
    give()
    filled(tmp_path).close()
    with monkeypatch.context() as patch:
        patch.setattr(projections, "GROUPS", (_RUNS,))
        older = SqliteStore(tmp_path)
        older.command("@memory", lambda _: note("unseen"))
        older.close()
    assert len(rows(tmp_path)["notes"]) == 2
    store = SqliteStore(tmp_path)
    assert [text for _, _, text in rows(tmp_path)["notes"]] == ["one", "two", "unseen"]
    assert list(store.verify()) == []
    store.close()


def test_a_store_of_before_groups_is_rebuilt(tmp_path):
    """It has one digest, of a file that is no more."""
    store = SqliteStore(tmp_path)
    own(store, "r")
    perform(store, "r", c.StartStep("a#1", "a"))
    before = store.runs(), store.steps("r")
    store.close()
    db = apsw.Connection(str(tmp_path / "holdfast.db"))
    db.execute("UPDATE meta SET value = 'c0ffee' WHERE key = 'projections'")
    db.execute(MARK_RUNS)
    db.close()
    store = SqliteStore(tmp_path)
    assert ((store.runs(), store.steps("r")), list(store.verify())) == (before, [])
    store.close()


def test_a_rebuild_that_fails_changes_no_group(tmp_path, give):
    """All groups that are stale are rebuilt in one transaction."""
    give()
    filled(tmp_path).close()
    marked = rows(tmp_path, MARK_RUNS, MARK_NOTES)
    broken = NOTES.replace("'$.text'", "'$['")
    give(broken, sql.script("runs.sql") + "-- changed")
    with pytest.raises(StoreError, match=r"notes\.text"):
        SqliteStore(tmp_path)
    assert rows(tmp_path) == marked


def test_an_append_of_one_group_costs_the_others_one_look(tmp_path, give):
    """An event that a group does not look at leaves its tables alone."""
    give()
    store = filled(tmp_path)
    before = rows(tmp_path)["notes"]
    store.append(Append("r", 1, [NewEvent("Other", 5, "{}")]))
    assert rows(tmp_path)["notes"] == before
    store.close()


def test_a_group_that_looks_at_the_beginning_of_a_run_gets_it(tmp_path, give):
    """The beginnings and ends of runs skip the other groups, but for those that look at them."""
    give(NOTES.replace("'Noted'", "'RunCreated'").replace("NEW.payload ->> '$.text'", "NEW.type"))
    assert "RunCreated" not in projections.run_life()
    store = filled(tmp_path)
    assert [text for *_, text in rows(tmp_path)["notes"]] == ["RunCreated"]
    assert list(store.verify()) == []
    store.close()


def test_of_the_groups_only_that_of_runs_looks_at_the_beginning_and_the_end_of_a_run():
    """Otherwise each run would pay for the triggers of every group."""
    assert projections.run_life() == {
        "RunCreated", "RunClaimed", "RunReleased", "RunCompleted", "RunFailed"
    }  # fmt: skip


def test_no_event_of_a_run_makes_an_index_of_a_list() -> None:
    """Each event that is appended meets the condition of every group. SQLite makes an index of a list with
    more than two values each time that it looks into it, so the conditions compare."""
    scripts = ["log.sql", *(f"{group.name}.sql" for group in projections.GROUPS)]
    heads = [
        trigger.partition("BEGIN")[0]
        for name in scripts
        for trigger in sql.script(name).split("CREATE TEMP TRIGGER")
        if "INSERT ON appended" in trigger
    ]
    assert len(heads) >= len(scripts)
    assert [head for head in heads if " IN (" in head] == []
