"""Verifies the log against its hashes, and the tables against the log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import apsw
import msgspec

from holdfast.kernel import events as e
from holdfast.kernel.evolve import Impossible, evolve
from holdfast.kernel.state import RunState
from holdfast.store.port import GENESIS, STORE_STREAM, Fault, chain, is_numbered
from holdfast.store.sqlite import projections, sql
from holdfast.store.sqlite.connection import MISREAD, connect, translate
from holdfast.store.sqlite.schema_audit import verify_schema


def verify(path: Path) -> Iterator[Fault]:
    """Every place that does not hold, read in one snapshot of the store."""
    db = connect(path)
    try:
        db.execute("BEGIN")
        for (problem,) in db.execute("PRAGMA integrity_check"):
            if problem != "ok":
                yield Fault("", 0, f"the database file is damaged: {problem}")
        yield from verify_schema(db)
        whole = True
        for fault in _verify_log(db):
            whole = False
            yield fault
        if whole:  # positions cannot be verified if an event is missing
            yield from _verify_positions(db)
        yield from _verify_blobs(db)
        yield from _verify_projections(path)
        _read_others(db)
    except MISREAD as error:
        yield Fault("", 0, f"the database file is damaged: {error}")
    except apsw.Error as error:
        raise translate(error, path) from None
    finally:
        db.close()


def _read_others(db: apsw.Connection) -> None:
    """Read the tables that are neither of the log nor made from it. Raises an error of `MISREAD` for a text
    that is none: a store with one cannot be opened."""
    for table in ("meta", "owners"):
        db.execute(f"SELECT * FROM {table}").fetchall()


def _verify_log(db: apsw.Connection) -> Iterator[Fault]:
    streams = {row[0]: row[1:] for row in db.execute(sql.query("all_streams"))}
    if not all(isinstance(row[0], str) and isinstance(row[1], str) for row in streams.values()):
        raise TypeError("the name or the kind of a stream is no text")
    created: dict[str, str] = {STORE_STREAM: "store"}
    archived: dict[str, e.StreamArchived] = {}
    deleted: dict[str, e.StreamDeleted] = {}
    walks: dict[int, _Walk] = {}
    for id, rows in groupby(db.execute(sql.query("all_events")), key=itemgetter(0)):
        if id not in streams:
            version = next(rows)[1]
            yield Fault(f"#{id}", version, "events of a stream that has no head: the stream was dropped")
            continue
        if streams[id][1] == "archived":
            yield Fault(streams[id][0], next(rows)[1], "events of a stream that was archived")
            continue
        name, kind = streams[id][:2]
        record = deleted.get(name)  # the store's own stream comes first
        walk = walks[id] = _Walk(name, kind if record is None else record.kind)
        for _, *row, aside in rows:
            if (what := walk.fault(*row)) is not None:
                yield what
            elif bool(aside) != (record is not None):
                yield Fault(name, row[0], "whether the event is deleted is not what the log says")
        created |= walk.created
        archived |= walk.archived
        deleted |= walk.deleted
    yield from _verify_archived(streams, archived)
    yield from _verify_numbers(db, created)
    for id, row in streams.items():
        if row[0] in deleted:
            record = deleted[row[0]]
            if (row[1], row[2], row[3].hex()) != ("deleted", record.version, record.hash):
                yield Fault(row[0], 0, "what is left of the stream is not what its deletion says")
            streams[id] = (row[0], record.kind, *row[2:4], -1 - row[4], row[5])
    there = {id: row for id, row in streams.items() if row[0] not in archived}
    known = {name: kind for name, kind in created.items() if name not in archived}
    yield from _verify_heads(there, walks, known)


class _Walk:
    """Verifies one stream, event by event; after the first fault it only finds the end."""

    def __init__(self, name: str, kind: str) -> None:
        self._name = name
        self._is_run = kind == "run"
        self.is_sound = True
        self._state: RunState | None = None
        self.version = 0
        self.hash = GENESIS
        self.epoch = 0
        self.at = 0
        self.created: dict[str, str] = {}
        """The streams whose creation it records, and their kinds."""
        self.archived: dict[str, e.StreamArchived] = {}
        self.deleted: dict[str, e.StreamDeleted] = {}
        """The streams that are deleted, and not restored, and whose deletion is not final."""

    def fault(self, version: int, type: str, at: int, payload: str, hash: bytes) -> Fault | None:
        found = self._look(version, type, at, payload, hash) if self.is_sound else None
        self.is_sound = self.is_sound and found is None
        self.version, self.hash, self.at = version, hash, at
        return found

    def _look(self, version: int, type: str, at: int, payload: str, hash: bytes) -> Fault | None:
        if version != self.version + 1:
            return Fault(self._name, self.version + 1, f"missing: the next event is version {version}")
        try:
            sound = hash == chain(self.hash, self._name.encode(), version, type, at, payload)
        except (TypeError, AttributeError):  # a damaged page can make a number of a text
            sound = False
        if not sound:
            return Fault(self._name, version, f"{type} was changed: it does not match its hash")
        try:
            event = e.decode(type, payload)
            if self._is_run:
                self._state = evolve(self._state, event, version, at)
        except (Impossible, msgspec.DecodeError) as error:
            return Fault(self._name, version, f"{type} cannot follow what is before it: {error}")
        if isinstance(event, e.StreamCreated):
            self.created[event.stream] = event.kind
        elif isinstance(event, e.StreamArchived):
            self.archived[event.stream] = event
            self.deleted.pop(event.stream, None)
        elif isinstance(event, e.StreamDeleted):
            self.deleted[event.stream] = event
        elif isinstance(event, e.StreamRestored):
            self.deleted.pop(event.stream, None)
        elif isinstance(event, e.FENCING):
            self.epoch = event.epoch or self.epoch
        return None


def _verify_numbers(db: apsw.Connection, created: dict[str, str]) -> Iterator[Fault]:
    """Runs and tasks are numbered in the order of their creation, and nothing else is."""
    right = {name: number for number, name in enumerate(filter(is_numbered, created), 1)}
    for name, number in db.execute(sql.query("all_numbers")):
        if name in created and number != right.get(name, 0):
            yield Fault(name, 0, "its short number is wrong; `holdfast repair --rebuild` gives it again")


def _verify_archived(streams: dict[int, Any], archived: dict[str, e.StreamArchived]) -> Iterator[Fault]:
    """Verify that each archived stream has the head of its record, and nothing else."""
    left = {name: (kind, version, hash.hex()) for name, kind, version, hash, _, _ in streams.values()}
    for name, record in archived.items():
        if left.get(name) != ("archived", record.version, record.hash):
            yield Fault(name, 0, "what is left of the stream is not what the record of its archiving says")


def _verify_heads(
    streams: dict[int, Any], walks: dict[int, _Walk], created: dict[str, str]
) -> Iterator[Fault]:
    for id, (name, kind, version, hash, epoch, at) in streams.items():
        end = walks.get(id) or _Walk(name, kind)
        if end.version < version:
            text = f"cut off: the head is at version {version}, the log ends at {end.version}"
            yield Fault(name, end.version + 1, text)
        elif (end.version, end.hash) != (version, hash):
            text = f"the head (version {version}) does not match the log (version {end.version})"
            yield Fault(name, end.version, text)
        elif end.is_sound and (end.epoch, end.at) != (epoch, at):
            yield Fault(name, version, f"the head (epoch {epoch}, time {at}) does not match the log")
        if name not in created:
            yield Fault(name, 0, "the store has no record of this stream's creation")
        elif kind != created[name]:
            yield Fault(name, 0, f"it was created as a {created[name]}, and is a {kind} now")
    for name in sorted(created.keys() - {row[0] for row in streams.values()} - {STORE_STREAM}):
        yield Fault(name, 0, "dropped: the stream was created, and now it is gone")


def _verify_positions(db: apsw.Connection) -> Iterator[Fault]:
    """Verify the position of every event, which is the order of the feed. Archived events leave their
    positions empty."""
    found: list[tuple[Any, ...]] = db.execute(sql.query("count_positions")).fetchall()
    count, gone, first, last = found[0]
    if count + gone != last or first < 1:
        known = f"{count} events" + (f" and {gone} were archived" if gone else "")
        yield Fault("", 0, f"there are {known}, at positions {first} to {last}")
    for name, version in db.execute(sql.query("out_of_order")):
        yield Fault(name, version, "the event is not in its place among the others")
    for name, version in db.execute(sql.query("odd_synced")):
        yield Fault(name, version, "whether the event was synced is neither yes nor no")


def _verify_blobs(db: apsw.Connection) -> Iterator[Fault]:
    present = set()
    for hash, data in db.execute("SELECT hash, data FROM blobs"):
        present.add(hash)
        if hashlib.sha256(data).hexdigest() != hash:
            yield Fault("", 0, f"the large value {hash[:12]} was changed: it does not match its hash")
    present |= {hash for (hash,) in db.execute(sql.query("values_lost"))}  # known, and recorded
    wanted = db.execute(sql.query("blobs_named"), (0,))
    for name, version, hash in wanted:
        if hash is not None and hash not in present:
            yield Fault(name, version, f"its large value {hash[:12]} is missing")


def _verify_projections(path: Path) -> Iterator[Fault]:
    """Project the log into a database in memory and compare row by row."""
    fresh = apsw.Connection(":memory:")
    try:
        fresh.execute(sql.script("schema.sql"))
        projections.prepare(fresh)
        fresh.execute("ATTACH ? AS live", (str(path),))
        fresh.execute("BEGIN")
        for group in projections.GROUPS:
            yield from _verify_group(fresh, group)
    finally:
        fresh.close(True)


def _verify_group(fresh: apsw.Connection, group: projections.Group) -> Iterator[Fault]:
    try:
        if group.reads:
            fresh.execute(sql.query(group.reads))
        fresh.execute(group.replay().replace("FROM events", "FROM live.events"))
    except apsw.Error as error:
        yield Fault("", 0, f"the log cannot be projected into the tables of {group.name}: {error}")
        return
    for table, of in group.tables.items():
        yield from _compare(fresh, table, of)


def _compare(fresh: apsw.Connection, table: str, of: str) -> Iterator[Fault]:
    both = (
        f"SELECT {of} FROM (SELECT * FROM main.{table} EXCEPT SELECT * FROM live.{table}) UNION "
        f"SELECT {of} FROM (SELECT * FROM live.{table} EXCEPT SELECT * FROM main.{table})"
    )
    for (id,) in fresh.execute(both).fetchall():
        name = fresh.execute("SELECT name FROM live.streams WHERE id = ?", (id,)).get or f"#{id}"
        yield Fault(
            name, 0, f"the table {table} does not match the log; `holdfast repair --rebuild` makes it again"
        )
