"""What must hold in every store, whatever happened to the processes that wrote it.

Shares no code with the engine: the standard library's SQLite, JSON and SHA-256, and the format as
docs/formats.md describes it. `check_store` looks at one moment, `Lives` at what the bodies of steps said
before and after it. Everything raises `Violation` with a text that says what is wrong and where.

The store is copied before it is opened. Nobody may write to it meanwhile, and this process must not have it
open: the copy opens and closes the database file, which would drop SQLite's locks.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.crash.history import (
    Event,
    Fold,
    History,
    RunHistory,
    StepHistory,
    Violation,
    canonical,
    digest,
    require,
)
from tests.crash.lives import Lives, Plan, RunPlan, said_of, whole_lines

__all__ = [
    "History",
    "Lives",
    "Plan",
    "RunHistory",
    "RunPlan",
    "StepHistory",
    "Violation",
    "canonical",
    "check_rebuilt",
    "check_store",
    "digest",
    "said_of",
    "whole_lines",
]

APPLICATION_ID = 0x686F6C64
GENESIS = bytes(32)
LOG_OF_STREAMS = "@store"

RUN_COLUMNS = (
    "workflow status reason cause attention_step owner generation sleepers parent created_at".split()
)
STEP_COLUMNS = (
    "generation key name kind effect status attempt started_at ended_at due_at child version".split()
)


@contextmanager
def copied(home: Path) -> Iterator[Path]:
    """A copy of the store's database with its logs, for as long as it is needed. Without the shared-memory
    index: whoever opens the copy makes it anew, as after a reboot. A rollback journal is there only while the
    store is made."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="crash-", dir=fast if fast.is_dir() else None) as directory:
        for name in ("holdfast.db", "holdfast.db-wal", "holdfast.db-journal"):
            if (home / name).exists():
                shutil.copyfile(home / name, Path(directory, name))
        yield Path(directory)


def chain(previous: bytes, stream: str, version: int, type: str, time: int, payload: str) -> bytes:
    """The hash of an event as docs/formats.md defines it."""
    return hashlib.sha256(previous + f"{stream}\0{version}\0{type}\0{time}\0{payload}".encode()).digest()


def check_store(home: Path) -> History:
    """Everything that must hold in a store by itself. Raises `Violation`; leaves the store as it is."""
    with copied(home) as copy:
        path = copy / "holdfast.db"
        if not path.exists():
            return History()
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                return _check_database(db)
        except sqlite3.Error as error:
            raise Violation(f"the database cannot be read: {error}") from error


def _check_database(db: sqlite3.Connection) -> History:
    db.execute("PRAGMA synchronous=OFF")  # a copy: nobody needs it after a power cut
    problems = [row[0] for row in db.execute("PRAGMA integrity_check")]
    require(problems == ["ok"], f"integrity_check: {problems}")
    schema = db.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")}
    if not schema:
        require(not tables, f"tables without a schema version: half a migration ({sorted(tables)})")
        return History()
    application = db.execute("PRAGMA application_id").fetchone()[0]
    require(application == APPLICATION_ID, f"application_id is {application:#x}")
    require(("step_rows" in tables) == (schema >= 2), f"schema {schema} has the tables {sorted(tables)}")
    blobs = _check_blobs(db)
    streams = _check_log(db, blobs)
    ids = dict(db.execute("SELECT id, name FROM streams").fetchall())
    history = History(schema=schema)
    for name, events in streams.items():
        for event in events:
            if event.synced:
                history.last_synced = max(history.last_synced, event.position)
        if name != LOG_OF_STREAMS:
            history.runs[name] = Fold(name, blobs).fold(events)
    _check_epochs(db, history)
    _check_tables(db, history, ids)
    if streams:
        require(
            db.execute("SELECT count(*) FROM meta WHERE key = 'incarnation'").fetchone()[0] == 1,
            "the store has events and no incarnation",
        )
    return history


def _check_blobs(db: sqlite3.Connection) -> dict[str, str]:
    blobs: dict[str, str] = {}
    for hash, data in db.execute("SELECT hash, data FROM blobs"):
        require(hashlib.sha256(data).hexdigest() == hash, f"blob {hash[:12]} does not match its hash")
        blobs[hash] = data.decode()
    return blobs


def _check_log(db: sqlite3.Connection, blobs: dict[str, str]) -> dict[str, list[Event]]:
    """The events of every stream: versions without gaps, chained, ending at the head that is stored."""
    heads = {
        id: (name, kind, version, hash, time)
        for id, name, kind, version, hash, time in db.execute(
            "SELECT id, name, kind, version, hash, time FROM streams"
        )
    }
    streams: dict[str, list[Event]] = {head[0]: [] for head in heads.values()}
    ends = dict.fromkeys(heads, GENESIS)
    wanted: set[str] = set()
    rows = db.execute(
        "SELECT position, stream, version, type, time, payload, hash, synced FROM events ORDER BY position"
    )
    for expected, (position, id, version, type, time, payload, hash, synced) in enumerate(rows, 1):
        where = f"event {position} ({type}, version {version})"
        require(position == expected, f"{where}: position {expected} is missing")
        require(id in heads, f"{where}: stream {id} has no head")
        name = heads[id][0]
        require(
            version == len(streams[name]) + 1, f"{where} of {name}: expected version {len(streams[name]) + 1}"
        )
        require(hash == chain(ends[id], name, version, type, time, payload), f"{where} of {name}: wrong hash")
        require(synced in (0, 1), f"{where}: synced is {synced}")
        ends[id] = hash
        event = Event(position, version, type, time, json.loads(payload), hash, synced)
        streams[name].append(event)
        if event.payload.get("blob"):
            wanted.add(event.payload["blob"])
    for id, (name, _, version, hash, time) in heads.items():
        last = streams[name][-1] if streams[name] else None
        found = (len(streams[name]), ends[id], last.time if last else 0)
        require(
            (version, hash, time) == found, f"{name}: the head is at version {version}, the log at {found[0]}"
        )
    require(wanted <= blobs.keys(), f"large values are missing: {sorted(wanted - blobs.keys())}")
    require(blobs.keys() <= wanted, f"large values of no event: {sorted(blobs.keys() - wanted)}")
    _check_creations(streams, {head[0]: head[1] for head in heads.values()})
    return streams


def _check_creations(streams: dict[str, list[Event]], kinds: dict[str, str]) -> None:
    created: dict[str, Event] = {}
    for event in streams.get(LOG_OF_STREAMS, ()):
        require(event.type == "StreamCreated", f"{event.type} in the store's own stream")
        name = event.payload["stream"]
        require(name not in created, f"stream {name} was created twice")
        require(kinds.get(name) == event.payload["kind"], f"stream {name} is gone, or of another kind")
        created[name] = event
    for name, events in streams.items():
        if name == LOG_OF_STREAMS:
            continue
        require(name in created, f"stream {name} has no StreamCreated")
        require(events, f"stream {name} has no events")
        require(created[name].position < events[0].position, f"stream {name} was created after its events")


def _check_epochs(db: sqlite3.Connection, history: History) -> None:
    for name, epoch in db.execute("SELECT name, epoch FROM streams WHERE name <> ?", (LOG_OF_STREAMS,)):
        last = history.runs[name].epochs[-1:] or [0]
        require(epoch == last[0], f"run {name}: the head's epoch is {epoch}, the last claim's is {last[0]}")


def _check_tables(db: sqlite3.Connection, history: History, ids: dict[int, str]) -> None:
    """The projections are what the log says, row for row."""
    runs = {
        ids.get(row[0], f"#{row[0]}"): row[1:]
        for row in db.execute(f"SELECT stream, {', '.join(RUN_COLUMNS)} FROM runs")
    }
    told = {run.id: tuple(getattr(run, column) for column in RUN_COLUMNS) for run in history.runs.values()}
    _compare("runs", runs, told, RUN_COLUMNS)
    expected = {
        (run.id, *at): tuple(getattr(step, column) for column in STEP_COLUMNS)
        for run in history.runs.values()
        for at, step in run.steps.items()
    }
    rows = {at: row for at, row in expected.items() if not history.runs[at[0]].steps[at[1:]].ran}
    if history.schema >= 2:
        _compare("step_rows", _step_rows(db, "step_rows", ids), rows, STEP_COLUMNS)
    _compare("steps", _step_rows(db, "steps", ids), expected, STEP_COLUMNS)


def _step_rows(db: sqlite3.Connection, table: str, ids: dict[int, str]) -> dict[Any, Any]:
    rows = db.execute(f"SELECT run, {', '.join(STEP_COLUMNS)} FROM {table}").fetchall()
    found = {(ids.get(row[0], f"#{row[0]}"), row[1], row[2]): row[1:] for row in rows}
    require(len(found) == len(rows), f"{table} has a step twice")
    return found


def _compare(table: str, found: dict[Any, Any], expected: dict[Any, Any], columns: list[str]) -> None:
    for at in found.keys() | expected.keys():
        if found.get(at) != expected.get(at):
            have, want = found.get(at), expected.get(at)
            if have is None or want is None:
                what = "a row is missing" if have is None else "a row too many"
            else:
                differing = [
                    f"{column} is {a!r}, not {b!r}"
                    for column, a, b in zip(columns, have, want, strict=True)
                    if a != b
                ]
                what = ", ".join(differing)
            raise Violation(f"table {table} does not match the log at {at}: {what}")


# The product's own tools


def check_rebuilt(home: Path) -> None:
    """The product's audit finds nothing, and its rebuild gives the same tables, row for row."""
    from holdfast.store.sqlite import SqliteStore

    with copied(home) as copy:
        store = SqliteStore(copy)
        try:
            faults = [f"{fault.stream}, version {fault.version}: {fault.what}" for fault in store.verify()]
        finally:
            store.close()
        require(not faults, f"audit verify: {faults}")
        live = _dump(copy)
        store = SqliteStore(copy)
        try:
            store.rebuild()
        finally:
            store.close()
        rebuilt = _dump(copy)
        for table in live:
            require(live[table] == rebuilt[table], f"a rebuild changes the table {table}")


def _dump(home: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        tables = ("runs", "step_rows", "steps", "events", "streams")
        return {table: sorted(db.execute(f"SELECT * FROM {table}")) for table in tables}
