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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.archives import GENESIS, chain, read_archive
from tests.crash.fold import Fold, fold_operation
from tests.crash.history import (
    SPENDING,
    SPENDING_TYPES,
    Event,
    History,
    OperationHistory,
    RunHistory,
    StepHistory,
    Violation,
    budget_of,
    canonical,
    digest,
    require,
    task_of,
)
from tests.crash.ledger import check_ledger
from tests.crash.lives import Lives, Plan, RunPlan, said_of, whole_lines
from tests.crash.tracker import TrackerHistory, check_tracker

__all__ = [
    "GENESIS",
    "History",
    "Lives",
    "Plan",
    "RunHistory",
    "RunPlan",
    "StepHistory",
    "Violation",
    "canonical",
    "chain",
    "check_rebuilt",
    "check_store",
    "digest",
    "said_of",
    "whole_lines",
]

APPLICATION_ID = 0x686F6C64
LOG_OF_STREAMS = "@store"

RUN_COLUMNS = (
    "workflow status reason cause attention_step owner generation sleepers parent created_at ended_at "
    "stage".split()
)
STEP_COLUMNS = (
    "generation key name kind effect status attempt started_at ended_at due_at child version".split()
)
GENERATION_COLUMNS = "status reason cause attention_step ended_at".split()
OPERATION_COLUMNS = "kind run person target undoes left_generation opened_generation status begun_at".split()
_ARCHIVED = "archived"
_DELETED = "deleted"


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


def check_store(home: Path) -> History:
    """Everything that must hold in a store by itself. Raises `Violation`; leaves the store as it is."""
    with copied(home) as copy:
        path = copy / "holdfast.db"
        if not path.exists():
            return History()
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                return _check_database(db, home / "archive")
        except sqlite3.Error as error:
            raise Violation(f"the database cannot be read: {error}") from error


def _check_database(db: sqlite3.Connection, archive: Path) -> History:
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
    for table, since in (("step_rows", 2), ("operations", 5), ("generations", 5)):
        require((table in tables) == (schema >= since), f"schema {schema} has the tables {sorted(tables)}")
    blobs = _check_blobs(db)
    log = _check_log(db)
    _check_large(log, blobs, _check_archives(log.archived, archive))
    history = History(schema=schema, archived=frozenset(log.archived), deleted=frozenset(log.deleted))
    for name, events in log.streams.items():
        history.last_synced = max([history.last_synced, *(one.position for one in events if one.synced)])
        if log.kinds[name] == "run":
            history.runs[name] = Fold(name, blobs).fold(events)
        elif log.kinds[name] == "operation":
            history.operations[name] = fold_operation(name, events)
    _check_epochs(db, history)
    _check_operations(history)
    _check_forks(history)
    _check_companions(history, log)
    _check_tables(db, history, log.ids)
    if "authored" in tables:
        kept = {**log.streams, **log.deleted}
        history.tracker = TrackerHistory(kept, history.deleted, history.archived)
        check_tracker(db, history.tracker, history.runs, log.ids)
    if "budgets" in tables:
        check_ledger(db, log.streams, history.runs, log.ids)
    if log.streams:
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


@dataclass
class _Log:
    """The streams of a store."""

    ids: dict[int, str]
    kinds: dict[str, str]
    streams: dict[str, list[Event]] = field(default_factory=dict)
    archived: dict[str, Event] = field(default_factory=dict)
    """Stream → the record that is left of it."""
    deleted: dict[str, list[Event]] = field(default_factory=dict)
    """Streams that were set aside, with their events."""


def _check_log(db: sqlite3.Connection) -> _Log:
    """The events of every stream: versions without gaps, chained, ending at the head that is stored."""
    heads = {
        id: (name, kind, version, hash, time)
        for id, name, kind, version, hash, time in db.execute(
            "SELECT id, name, kind, version, hash, time FROM streams"
        )
    }
    log = _Log({id: head[0] for id, head in heads.items()}, {head[0]: head[1] for head in heads.values()})
    streams = log.streams
    streams.update({head[0]: [] for head in heads.values() if head[1] not in (_ARCHIVED, _DELETED)})
    log.deleted.update({head[0]: [] for head in heads.values() if head[1] == _DELETED})
    ends = dict.fromkeys(heads, GENESIS)
    gone = sum(version for _, kind, version, _, _ in heads.values() if kind in (_ARCHIVED, _DELETED))
    expected = 1
    for position, id, version, type, time, payload, hash, synced in db.execute(
        "SELECT position, stream, version, type, time, payload, hash, synced FROM events ORDER BY position"
    ):
        where = f"event {position} ({type}, version {version})"
        require(
            expected <= position <= expected + gone,
            f"{where}: position {expected} is missing" + (f"; {gone} were archived" if gone else ""),
        )
        gone, expected = gone - (position - expected), position + 1
        require(id in heads, f"{where}: stream {id} has no head")
        name = heads[id][0]
        require(name in streams, f"{where}: stream {name} was archived")
        require(
            version == len(streams[name]) + 1, f"{where} of {name}: expected version {len(streams[name]) + 1}"
        )
        require(hash == chain(ends[id], name, version, type, time, payload), f"{where} of {name}: wrong hash")
        require(synced in (0, 1), f"{where}: synced is {synced}")
        ends[id] = hash
        streams[name].append(Event(position, version, type, time, json.loads(payload), hash, synced))
    require(not gone, f"{gone} events fewer are missing than were archived")
    if log.deleted:
        _read_deleted(db, log, ends)
    for id, (name, kind, version, hash, time) in heads.items():
        if kind == _ARCHIVED:
            continue
        events = log.deleted[name] if kind == _DELETED else streams[name]
        last = events[-1] if events else None
        found = (len(events), ends[id], last.time if last else 0)
        require(
            (version, hash, time) == found, f"{name}: the head is at version {version}, the log at {found[0]}"
        )
    _check_creations(log)
    for name, record in log.archived.items():
        head = next(head for head in heads.values() if head[0] == name)
        told = (record.payload["version"], bytes.fromhex(record.payload["hash"]))
        require(told == head[2:4], f"{name} was archived at version {told[0]}, its head is at {head[2]}")
    return log


def _read_deleted(db: sqlite3.Connection, log: _Log, ends: dict[int, bytes]) -> None:
    """The events of deleted streams are where they were set aside, chained as before."""
    for position, id, version, type, time, payload, hash, synced in db.execute(
        "SELECT position, stream, version, type, time, payload, hash, synced FROM deleted_events "
        "ORDER BY stream, version"
    ):
        name = log.ids[id]
        require(name in log.deleted, f"events of {name} are set aside, and it is not deleted")
        require(hash == chain(ends[id], name, version, type, time, payload), f"deleted {name}: wrong hash")
        ends[id] = hash
        log.deleted[name].append(Event(position, version, type, time, json.loads(payload), hash, synced))


def _check_creations(log: _Log) -> None:
    """Every stream has a record of its creation, and each that was archived or deleted one of that."""
    created: dict[str, Event] = {}
    deleted: set[str] = set()
    for event in log.streams.get(LOG_OF_STREAMS, ()):
        name = event.payload["stream"]
        if event.type == "StreamArchived":
            require(name in created, f"stream {name} was archived and never created")
            require(name not in log.archived, f"stream {name} was archived twice")
            require(log.kinds.get(name) == _ARCHIVED, f"stream {name} was archived, and is there")
            log.archived[name] = event
            continue
        if event.type in ("StreamDeleted", "StreamRestored"):
            is_deletion = event.type == "StreamDeleted"
            require(name in created, f"stream {name} was deleted and never created")
            require((name in deleted) != is_deletion, f"stream {name}: {event.type} twice")
            deleted ^= {name}
            continue
        require(event.type == "StreamCreated", f"{event.type} in the store's own stream")
        require(name not in created, f"stream {name} was created twice")
        found = log.kinds.get(name)
        kinds = (event.payload["kind"], _ARCHIVED, _DELETED)
        require(found in kinds, f"stream {name} is gone, or of another kind")
        created[name] = event
    found_deleted = {name for name in deleted if name not in log.archived}
    require(found_deleted == log.deleted.keys(), f"records say that {found_deleted} are deleted")
    for name, kind in log.kinds.items():
        if name == LOG_OF_STREAMS:
            continue
        require(name in created, f"stream {name} has no StreamCreated")
        if kind == _ARCHIVED:
            require(name in log.archived, f"stream {name} is archived, and no record says so")
            continue
        events = log.deleted[name] if kind == _DELETED else log.streams[name]
        require(events, f"stream {name} has no events")
        require(created[name].position < events[0].position, f"stream {name} was created after its events")


def _check_archives(archived: dict[str, Event], directory: Path) -> set[str]:
    """Every run that was archived is in the file that its record names; gives their large values."""
    large: set[str] = set()
    files = {record.payload["file"] for record in archived.values() if record.payload.get("file")}
    for file in sorted(files):
        require((directory / file).exists(), f"the archive {file} is missing")
        found = read_archive(directory / file)
        for name, record in archived.items():
            if record.payload.get("file") == file:
                told = (record.payload["version"], record.payload["hash"])
                require(found.heads.get(name) == told, f"the archive {file} does not have {name} to its end")
        large |= found.blobs
    return large


def _check_large(log: _Log, blobs: dict[str, str], archived: set[str]) -> None:
    """All large values of the log are there, and no others; those of an archive may be swept later."""
    kept = (*log.streams.values(), *log.deleted.values())
    wanted = {blob for events in kept for one in events if (blob := one.payload.get("blob"))}
    require(wanted <= blobs.keys(), f"large values are missing: {sorted(wanted - blobs.keys())}")
    more = blobs.keys() - wanted - archived
    require(not more, f"large values of no event: {sorted(more)}")


def _check_operations(history: History) -> None:
    """An operation and what it did to its run are one: neither is there without the other."""
    done: dict[str, tuple[str, int, int]] = {}
    for run in history.runs.values():
        live = 0
        for event in run.events:
            if event.type in ("Rewound", "GenerationRestored"):
                operation, opened = event.payload["operation"], event.payload["generation"]
                require(operation not in done, f"operation {operation} was done twice")
                done[operation] = (run.id, live, opened)
                live = opened
    for stream, operation in history.operations.items():
        if operation.run in history.archived | history.deleted:
            continue
        if operation.left_generation < 0:
            require(operation.id not in done, f"{stream} moved a run, and does not say so")
            continue
        told = (operation.run, operation.left_generation, operation.opened_generation)
        found = done.pop(operation.id, None)
        require(found == told, f"{stream} says that it moved {told}; the log has {found}")
        _check_undone(history, stream, operation)
    require(not done, f"runs were moved by operations that nobody recorded: {sorted(done)}")


def _check_undone(history: History, stream: str, operation: OperationHistory) -> None:
    """An undo takes the run back to where the operation that it names came from."""
    if operation.kind != "undo":
        return
    other = next((one for one in history.operations.values() if one.id == operation.undoes), None)
    require(other is not None, f"{stream} takes back {operation.undoes}, which nobody did")
    assert other is not None
    moved = (operation.run, operation.left_generation, operation.opened_generation)
    back = (other.run, other.opened_generation, other.left_generation)
    require(moved == back, f"{stream} moved {moved}; to take back {operation.undoes} is {back}")


def _check_forks(history: History) -> None:
    """What a fork has from another run, that run has, with the same values and times."""
    for run in history.runs.values():
        origin = history.runs.get(run.forked_from)
        if origin is None:
            continue
        known = {_as_copied(event) for event in origin.events}
        for event in run.copied:
            require(
                _as_copied(event) in known,
                f"run {run.id}, version {event.version}: {event.type} is no event of {origin.id}",
            )


def _check_companions(history: History, log: _Log) -> None:
    """An append and its companions are one: neither is there without the other, and each companion saw what
    was in its stream."""
    for run in history.runs.values():
        if run.workflow != SPENDING:
            continue
        written = [
            digest(f"{event.type} {canonical(event.payload)}")
            for event in run.events
            if event.type in SPENDING_TYPES
        ]
        spent = log.streams.get(budget_of(run.id), [])
        told = [one for event in spent for one in event.payload["of"]]
        require(
            told == written, f"run {run.id}: its owner wrote {len(written)} events, its budget {len(told)}"
        )
        seen = [event.payload["seen"] for event in spent]
        require(seen == [*range(len(spent))], f"companions of run {run.id} saw {seen}")
        moved = [event.type for event in log.streams.get(task_of(run.id), [])]
        expected = ["TaskMoved"] * (run.status == "completed")
        require(moved == expected, f"run {run.id} is {run.status}, and its task has {moved}")


def _as_copied(event: Event) -> tuple[str, int, str]:
    """What of an event is the same in a copy: generations and versions are each run's own."""
    kept = {name: value for name, value in event.payload.items() if name not in ("generation", "signal")}
    return event.type, event.time, canonical(kept)


def _check_epochs(db: sqlite3.Connection, history: History) -> None:
    epochs = dict(db.execute("SELECT name, epoch FROM streams").fetchall())
    for run in history.runs.values():
        found, last = epochs[run.id], run.epoch
        require(found == last, f"run {run.id}: the head's epoch is {found}, the last one in the log {last}")


def _check_tables(db: sqlite3.Connection, history: History, ids: dict[int, str]) -> None:
    """The projections are what the log says, row for row."""
    later = 0 if history.schema >= 9 else 1 if history.schema == 8 else 2
    columns = RUN_COLUMNS[: len(RUN_COLUMNS) - later]
    runs = {run.id: _columns(run, columns) for run in history.runs.values()}
    _compare("runs", _rows(db, "runs", ("stream",), columns, ids), runs, columns)
    steps = [(run.id, step) for run in history.runs.values() for step in run.steps.values()]
    all_steps = {(id, step.generation, step.key): _columns(step, STEP_COLUMNS) for id, step in steps}
    at = ("run", "generation", "key")
    if history.schema >= 2:
        ran = {(id, step.generation, step.key) for id, step in steps if step.ran}
        rows = {place: row for place, row in all_steps.items() if place not in ran}
        _compare("step_rows", _rows(db, "step_rows", at, STEP_COLUMNS, ids), rows, STEP_COLUMNS)
    _compare("steps", _rows(db, "steps", at, STEP_COLUMNS, ids), all_steps, STEP_COLUMNS)
    if history.schema < 8:
        return
    left = {
        (run.id, generation): _columns(stand, GENERATION_COLUMNS)
        for run in history.runs.values()
        for generation, stand in run.left.items()
    }
    found = _rows(db, "generations", ("run", "generation"), GENERATION_COLUMNS, ids)
    _compare("generations", found, left, GENERATION_COLUMNS)
    if history.schema >= 9:
        entered = {
            (run.id, generation, version): (name,)
            for run in history.runs.values()
            for generation, version, name in run.stages()
        }
        found = _rows(db, "stages", ("run", "generation", "version"), ["name"], ids)
        _compare("stages", found, entered, ["name"])
    operations = {name: _columns(one, OPERATION_COLUMNS) for name, one in history.operations.items()}
    found = _rows(db, "operations", ("stream",), OPERATION_COLUMNS, ids)
    _compare("operations", found, operations, OPERATION_COLUMNS)


def _columns(one: object, columns: list[str]) -> tuple[Any, ...]:
    return tuple(getattr(one, column) for column in columns)


def _rows(
    db: sqlite3.Connection, table: str, at: tuple[str, ...], columns: list[str], ids: dict[int, str]
) -> dict[Any, Any]:
    """Place → row; the first column of a place is a stream."""
    rows = db.execute(f"SELECT {', '.join((*at, *columns))} FROM {table}").fetchall()
    found = {}
    for row in rows:
        place = (ids.get(row[0], f"#{row[0]}"), *row[1 : len(at)])
        found[place if len(at) > 1 else place[0]] = row[len(at) :]
    require(len(found) == len(rows), f"{table} has a row twice")
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
    from holdfast.store.sqlite.store import SqliteStore

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
        tables = (
            *("runs", "step_rows", "steps", "generations", "stages", "operations", "events", "streams"),
            *("deleted_events", "tasks", "task_readiness", "links", "sessions", "memories", "authored"),
            *("budgets", "reservations", "run_spending", "outcomes"),
        )
        return {table: sorted(db.execute(f"SELECT * FROM {table}")) for table in tables}
