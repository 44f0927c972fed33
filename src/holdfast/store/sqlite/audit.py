"""Is the log what was written, and are the tables what the log says?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from holdfast.kernel import events as e
from holdfast.store.port import GENESIS, STORE_STREAM, Fault, chain
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.connection import connect, translate

PROJECTIONS = ("runs", "step_rows")


def rebuild(db: apsw.Connection) -> None:
    """Make the projections again from the log. The caller holds the transaction."""
    for table in PROJECTIONS:
        db.execute(f"DELETE FROM {table}")
    db.execute(sql.query("replay_projections"))


def verify(path: Path) -> Iterator[Fault]:
    """Every place that does not hold, read in one snapshot of the store."""
    db = connect(path)
    try:
        db.execute("BEGIN")
        for (problem,) in db.execute("PRAGMA integrity_check"):
            if problem != "ok":
                yield Fault("", 0, f"the database file is damaged: {problem}")
        yield from _verify_log(db)
        yield from _verify_blobs(db)
        yield from _verify_projections(path)
    except apsw.Error as error:
        raise translate(error, path) from None
    finally:
        db.close()


def _verify_log(db: apsw.Connection) -> Iterator[Fault]:
    streams = {row[0]: row[1:] for row in db.execute(sql.query("all_streams"))}
    created: set[str] = set()
    ends: dict[int, tuple[int, bytes]] = {}
    broken: set[int] = set()
    for id, version, type, at, payload, hash in db.execute(sql.query("all_events")):
        name = streams[id][0] if id in streams else ""
        if id not in streams:
            if id not in broken:
                yield Fault(f"#{id}", version, "events of a stream that has no head: the stream was dropped")
            broken.add(id)
            continue
        last, previous = ends.get(id, (0, GENESIS))
        if id not in broken:
            if version != last + 1:
                yield Fault(name, last + 1, f"missing: the next event is version {version}")
                broken.add(id)
            elif hash != chain(previous, name.encode(), version, type, at, payload):
                yield Fault(name, version, f"{type} was changed: it does not match its hash")
                broken.add(id)
        ends[id] = (version, hash)
        if name == STORE_STREAM and type == "StreamCreated" and id not in broken:
            event = e.decode(type, payload)
            assert isinstance(event, e.StreamCreated)
            created.add(event.stream)
    yield from _verify_heads(streams, ends, created)


def _verify_heads(
    streams: dict[int, Any], ends: dict[int, tuple[int, bytes]], created: set[str]
) -> Iterator[Fault]:
    for id, (name, _, version, hash) in streams.items():
        last, last_hash = ends.get(id, (0, GENESIS))
        if last < version:
            yield Fault(name, last + 1, f"cut off: the head is at version {version}, the log ends at {last}")
        elif (last, last_hash) != (version, hash):
            yield Fault(name, last, f"the head (version {version}) does not match the log (version {last})")
        if name != STORE_STREAM and name not in created:
            yield Fault(name, 0, "the store has no record of this stream's creation")
    for name in sorted(created - {row[0] for row in streams.values()}):
        yield Fault(name, 0, "dropped: the stream was created, and now it is gone")


def _verify_blobs(db: apsw.Connection) -> Iterator[Fault]:
    present = set()
    for hash, data in db.execute("SELECT hash, data FROM blobs"):
        present.add(hash)
        if hashlib.sha256(data).hexdigest() != hash:
            yield Fault("", 0, f"the large value {hash[:12]} was changed: it does not match its hash")
    wanted = db.execute(
        "SELECT s.name, v.version, v.payload ->> '$.blob' "
        "FROM events AS v JOIN streams AS s ON s.id = v.stream "
        "WHERE v.type IN ('RunCreated', 'RunCompleted', 'StepCompleted', 'StepRan', 'StepSettled', "
        "'SignalReceived', 'GateOpened', 'GateDecided', 'CheckpointTaken') "
        "AND json_valid(v.payload) AND v.payload ->> '$.blob' <> ''"
    )
    for name, version, hash in wanted:
        if hash not in present:
            yield Fault(name, version, f"its large value {hash[:12]} is missing")


def _verify_projections(path: Path) -> Iterator[Fault]:
    """Project the log into a database in memory and compare row by row."""
    fresh = apsw.Connection(":memory:")
    try:
        fresh.execute(sql.script("schema.sql"))
        fresh.execute(sql.script("projections.sql"))
        fresh.execute("ATTACH ? AS live", (str(path),))
        fresh.execute("BEGIN")
        try:
            fresh.execute(sql.query("copy_rewound_steps"))
            fresh.execute(sql.query("replay_projections").replace("FROM events", "FROM live.events"))
        except apsw.Error as error:
            yield Fault("", 0, f"the log cannot be projected: {error}")
            return
        for table in PROJECTIONS:
            yield from _compare(fresh, table)
    finally:
        fresh.close(True)


def _compare(fresh: apsw.Connection, table: str) -> Iterator[Fault]:
    of = "stream" if table == "runs" else "run"
    both = (
        f"SELECT {of} FROM (SELECT * FROM main.{table} EXCEPT SELECT * FROM live.{table}) UNION "
        f"SELECT {of} FROM (SELECT * FROM live.{table} EXCEPT SELECT * FROM main.{table})"
    )
    for (id,) in fresh.execute(both).fetchall():
        name = fresh.execute("SELECT name FROM live.streams WHERE id = ?", (id,)).get or f"#{id}"
        yield Fault(
            name, 0, f"the table {table} does not match the log; `holdfast repair --rebuild` makes it again"
        )
