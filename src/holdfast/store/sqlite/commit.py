"""One batch of submissions becomes one transaction, in as few SQL statements as there can be.

apsw releases the GIL at every statement, and each release lets many other threads run. So all appends of runs
that this process owns are written by one statement, or two: events that no projection reads (a step that ran)
through the view `logged`, the beginnings and ends of runs through `lived`, all others through `appended`.
They build on the heads that are remembered from the last commit; the triggers compare these with the stored
ones. If one is stale, nothing is written, and the batch is written again with heads that are read inside the
transaction. There a stale owner is refused, and the other submissions are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import apsw

from holdfast.errors import OwnershipLost, RunArchived, RunDeleted
from holdfast.kernel import events as e
from holdfast.store.deciding import Deciding
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.connection import roll_back
from holdfast.store.sqlite.projections import run_life
from holdfast.store.streams import GENESIS, STORE_STREAM, chain
from holdfast.store.submission import (
    Append,
    Companion,
    DecideAll,
    Decision,
    Fate,
    NewEvent,
    Recorded,
    Source,
    companion_failed,
    new_event,
)


class Head:
    """The head of a stream. It is updated in place: the next append builds on it."""

    __slots__ = ("epoch", "hash", "id", "version")

    def __init__(self, id: int, version: int, hash: bytes, epoch: int) -> None:
        self.id = id
        self.version = version
        self.hash = hash
        self.epoch = epoch


class Command:
    """A submission for streams that the process need not own: its events for each stream are decided inside
    the transaction."""

    __slots__ = ("decide", "durable", "error", "fate", "seal", "sources", "versions", "wake")

    def __init__(
        self, sources: Sequence[Source], decide: DecideAll, durable: bool, fate: Fate | None = None
    ) -> None:
        self.sources = sources
        self.decide = decide
        self.durable = durable
        self.seal: Callable[[Any], None] | None = None
        self.fate = fate
        self.versions: Sequence[int] = ()
        """After the acknowledgement: the version of each stream."""
        self.error: BaseException | None = None
        self.wake: Any = None


Submission = Append | Command


def share(fate: Fate | None, error: BaseException) -> None:
    """Make later appends of the same execution fail with the first error."""
    if fate is not None:
        fate.error = fate.error or error


# Events after which this process does not execute the run: its head need not be remembered.
_LAST = frozenset(
    {"RunCompleted", "RunFailed", "RunCancelled", "RunReleased", "RunPaused", "Rewound", "GenerationRestored"}
)
# Events that no projection of any group looks at.
_LOGGED = frozenset({"StepRan", "ValueRecorded", "Emitted", "PatchSeen", "OutputCaptured"})


class _Sorted:
    """A batch, sorted by how its items are written."""

    __slots__ = ("begun", "logged", "others", "rows", "singly")

    def __init__(self, singly: list[Submission] | None = None) -> None:
        self.logged: list[Append] = []
        """Events that no projection looks at; `rows` is how many."""
        self.rows = 0
        self.begun: list[Append] = []
        """First events of new streams."""
        self.others: list[Append] = []
        self.singly = singly or []
        """Submissions that are decided one by one, on what the transaction reads."""

    def is_one_statement(self) -> bool:
        if self.singly or self.begun:
            return False
        if self.others:
            return not self.logged and len(self.others) == len(self.others[0].events) == 1
        return self.rows <= _MOST_ROWS


class Committer:
    """Writes batches through one connection. Remembers the heads of the streams that this process owns, from
    the claim or the first append to the last one: streams that it only sends commands to are too many."""

    def __init__(self, db: apsw.Connection, *, waits: bool, deciding: Deciding | None = None) -> None:
        self._db = db
        self._deciding = deciding or Deciding()
        self._waits = waits
        """Whether durable submissions wait for the disk; if not, all count as synced."""
        self._full: bool | None = None
        """The last setting given to SQLite; None if it is not known."""
        self._heads: dict[str, Head] = {}
        self._life = run_life() | _LOGGED

    def write(self, batch: Sequence[Submission]) -> None:
        """Commit the batch. Refusals are left in `error`; raises only if nothing was committed."""
        synced = not self._waits
        for item in batch:
            synced = synced or item.durable
        full = synced and self._waits
        if full is not self._full:
            self._wait_for_disk(full)
        try:
            if len(batch) == 1 and self._write_lone_step(batch[0], synced):
                return
            parts = self._sort(batch)
            if parts.is_one_statement():
                # A statement outside a transaction is one: it takes the write lock at its beginning,
                # as BEGIN IMMEDIATE would, and commits at its end.
                self._write_appends(parts, synced)
            else:
                self._transact(parts, synced)
        except apsw.ConstraintError:
            self._heads.clear()
            self._transact(_Sorted(singly=list(batch)), synced)
        except BaseException:
            self._heads.clear()
            raise

    def _wait_for_disk(self, full: bool) -> None:
        # Never OFF: a checkpoint after an unsynced commit must still sync the WAL first.
        self._full = None
        self._db.execute("PRAGMA synchronous=FULL" if full else "PRAGMA synchronous=NORMAL")
        self._full = full

    def _sort(self, batch: Sequence[Submission]) -> _Sorted:
        """Sort the submissions by path, so that each stream's own order is kept."""
        heads = self._heads
        parts = _Sorted()
        behind: set[str] = set()
        singly: set[str] = set()
        for item in batch:
            if isinstance(item, Command):
                parts.singly.append(item)
                singly.update(source.stream for source in item.sources)
                continue
            stream = item.stream
            if item.blobs or item.also or stream in singly:
                parts.singly.append(item)
                singly.add(stream)
                singly.update(companion.source.stream for companion in item.also)
                continue
            head = heads.get(stream)
            if head is None and item.begins and stream not in behind:
                parts.begun.append(item)
                behind.add(stream)
            elif head is None or head.epoch != item.epoch or item.begins:
                parts.singly.append(item)
                singly.add(stream)
            elif stream in behind:
                parts.others.append(item)
            elif item.events and (
                item.events[0].type in _LOGGED if len(item.events) == 1 else _are_all(item.events, _LOGGED)
            ):
                parts.logged.append(item)
                parts.rows += len(item.events)
            else:
                parts.others.append(item)
                behind.add(stream)
        return parts

    def _transact(self, parts: _Sorted, synced: bool) -> None:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            self._write_appends(parts, synced)
            for item in parts.singly:
                self._write_one(item, synced)
            db.execute("COMMIT")
        except BaseException:
            self._heads.clear()
            roll_back(db)
            raise

    # Appends on remembered heads

    def _write_lone_step(self, item: Submission, synced: bool) -> bool:
        """Write a batch of one event that no projection reads, as a run with sequential steps makes them;
        returns whether it was one. Sorting such a batch would cost 2 % of a step."""
        if isinstance(item, Command) or item.blobs or item.also or len(item.events) != 1:
            return False
        event, head = item.events[0], self._heads.get(item.stream)
        if event.type not in _LOGGED or head is None or head.epoch != item.epoch or item.begins:
            return False
        head.version += 1
        head.hash = chain(head.hash, item.stream.encode(), head.version, *event)
        self._db.execute(_ONE_LOGGED, (head.id, head.version, *event, head.hash, synced, head.epoch))
        item.version = head.version
        return True

    def _write_appends(self, parts: _Sorted, synced: bool) -> None:
        heads = self._heads
        values: list[Any] = []
        for item in parts.logged:
            head = heads[item.stream]
            name = item.stream.encode()
            for event in item.events:
                head.version += 1
                head.hash = chain(head.hash, name, head.version, *event)
                values += (head.id, head.version, *event, head.hash, synced, head.epoch)
            item.version = head.version
        if values:
            self._insert("logged", _LOGGED_COLUMNS, values)
        if not (parts.begun or parts.others):
            return
        values = []
        log = self._log_head() if parts.begun else None
        for item in parts.begun:
            assert log is not None
            head = heads[item.stream] = self._begin(
                log, item.stream, item.begins, item.events[0].at, synced, values
            )
            _chain(item.stream, head, item.events, synced, values, fence=item.epoch)
            item.version = head.version
        for item in parts.others:
            head = heads[item.stream]
            if item.events:
                _chain(item.stream, head, item.events, synced, values)
            item.version = head.version
        written = (*parts.begun, *parts.others)
        if values:
            life = all(_are_all(item.events, self._life) for item in written)
            self._insert("lived" if life else "appended", _APPENDED_COLUMNS, values)
        for item in written:
            if item.events and item.events[-1].type in _LAST:
                heads.pop(item.stream, None)

    def _insert(self, view: str, columns: int, values: list[Any]) -> None:
        """One row per event; in pieces, because SQLite binds 32,766 values at most."""
        most = _MOST_ROWS * columns
        if len(values) <= most:
            self._db.execute(_statement(view, columns, len(values) // columns), values)
            return
        for start in range(0, len(values), most):
            self._insert(view, columns, values[start : start + most])

    # One by one, on what the transaction reads

    def _write_one(self, item: Submission, synced: bool) -> None:
        """Write one submission. All that can refuse it comes before the first write; companions, which see
        that write, are rolled back with it."""
        try:
            if item.fate is not None and item.fate.error is not None:
                raise item.fate.error
            if isinstance(item, Append):
                if item.also:
                    self._write_with_companions(item, synced)
                    return
                heads = [self._head(item.stream)]
                writes = [(item.stream, heads[0], _accepted(item, heads[0]))]
            else:
                heads = [self._head(source.stream) for source in item.sources]
                recorded = [self._load(*one) for one in zip(item.sources, heads, strict=True)]
                with self._deciding:
                    decisions = item.decide(recorded)
                streams = [source.stream for source in item.sources]
                writes = list(zip(streams, heads, decisions, strict=True))
            for stream, head, decision in writes:
                if head is None and decision.events:
                    self._refuse_archived(stream)
        except apsw.Error:
            raise
        except Exception as error:
            item.error = error
            share(item.fate, error)
            if isinstance(item, Append):
                self._heads.pop(item.stream, None)
            return
        owned = isinstance(item, Append)
        versions = [self._append(*write, synced, owned=owned) for write in writes]
        if isinstance(item, Append):
            item.version = versions[0]
        else:
            item.versions = versions

    def _write_with_companions(self, item: Append, synced: bool) -> None:
        db = self._db
        head = self._head(item.stream)
        accepted = _accepted(item, head)
        if head is None and item.events:
            self._refuse_archived(item.stream)
        db.execute("SAVEPOINT companions")
        try:
            item.version = self._append(item.stream, head, accepted, synced, owned=True)
            for companion in item.also:
                self._write_companion(item, companion, synced)
        except apsw.Error:
            raise  # the whole transaction is rolled back
        except Exception:
            db.execute("ROLLBACK TO companions")
            db.execute("RELEASE companions")
            for companion in item.also:
                self._heads.pop(companion.source.stream, None)
            item.version = 0
            raise
        db.execute("RELEASE companions")

    def _write_companion(self, item: Append, companion: Companion, synced: bool) -> None:
        stream = companion.source.stream
        head = self._head(stream)
        if head is None and self._db.execute(sql.query("any_head"), (stream,)).fetchone() is not None:
            return  # archived or deleted
        try:
            if stream == item.stream:
                raise ValueError("a companion cannot write to its owner's own stream")
            recorded = self._load(companion.source, head)
            with self._deciding:
                decision = companion.decide(recorded)
        except apsw.Error:
            raise
        except Exception as error:
            raise companion_failed(item, companion, error) from error
        self._append(stream, head, decision, synced)

    def _append(
        self, stream: str, head: Head | None, decision: Decision, synced: bool, *, owned: bool = False
    ) -> int:
        if not decision.events:
            return head.version if head else 0
        values: list[Any] = []
        if head is None:
            head = self._begin(self._log_head(), stream, decision.kind, decision.events[0].at, synced, values)
        for blob in decision.blobs:
            self._db.execute(sql.query("put_blob"), blob)
        _chain(stream, head, decision.events, synced, values, fence=decision.epoch)
        life = _are_all(decision.events, self._life)
        self._insert("lived" if life else "appended", _APPENDED_COLUMNS, values)
        last = decision.events[-1].type
        if last in _LAST:
            self._heads.pop(stream, None)
        elif owned or last == "RunClaimed" or stream in self._heads:
            self._heads[stream] = head
        return head.version

    def _begin(self, log: Head, stream: str, kind: str, at: int, synced: bool, values: list[Any]) -> Head:
        """Begin a new stream, and record its creation in the store's own stream. Its id is the version of
        that record plus 1, because the store's own stream has the id 1. So no id is used twice, even after
        streams were archived."""
        id = 1 + log.version + 1
        _chain(STORE_STREAM, log, [new_event(e.StreamCreated(stream, kind), at)], synced, values, begins=id)
        return Head(id, 0, GENESIS, 0)

    def _log_head(self) -> Head:
        head = self._head(STORE_STREAM)
        if head is None:
            self._db.execute(sql.query("begin_log"), (STORE_STREAM,))
            head = Head(1, 0, GENESIS, 0)
        return head

    def _refuse_archived(self, stream: str) -> None:
        deleted = self._db.execute(sql.query("deleted_by"), (stream,)).fetchone()
        if deleted is not None:
            raise RunDeleted(stream, deleted[0], final=bool(deleted[1]))
        file = self._archived_in(stream)
        if file is not None:
            raise RunArchived(stream, file)

    def _archived_in(self, stream: str) -> str | None:
        file: str | None = self._db.execute(sql.query("archived_in"), (stream,)).get
        return file

    def _head(self, stream: str) -> Head | None:
        row = self._db.execute(sql.query("head"), (stream,)).fetchone()
        return Head(*row) if row else None

    def _load(self, source: Source, head: Head | None) -> list[Recorded]:
        if head is None or head.version <= source.after:
            return []
        rows = self._db.execute(sql.query("load_by_id"), (head.id, source.after, sql.listed(source.types)))
        return [Recorded(e.decode(type, payload), version, at) for version, type, at, payload in rows]


def _accepted(item: Append, head: Head | None) -> Decision:
    """The rows of an owner's append, if the stream is still its own."""
    refused = head is not None if item.begins else head is None or head.epoch != item.epoch
    if refused and (item.events or item.also):
        raise OwnershipLost(item.stream)
    return Decision(item.begins, item.events, item.epoch, item.blobs)


def _are_all(events: Sequence[NewEvent], types: frozenset[str]) -> bool:
    return all(event.type in types for event in events)


def _chain(
    stream: str,
    head: Head,
    events: Sequence[NewEvent],
    synced: bool,
    values: list[Any],
    *,
    fence: int | None = None,
    begins: int | None = None,
) -> None:
    """Add the rows of `events` to `values` and move the head past them."""
    base, name = head.version, stream.encode()
    for event in events:
        head.version += 1
        head.hash = chain(head.hash, name, head.version, *event)
        values += (head.id, head.version, *event, head.hash, synced, None, None, None, None)
    values[-4:] = (base, head.epoch, fence, begins)
    if fence is not None:
        head.epoch = fence


_LOGGED_COLUMNS = 8
_APPENDED_COLUMNS = 11
_MOST_ROWS = 2_500


@lru_cache(maxsize=256)
def _statement(view: str, columns: int, rows: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"INSERT INTO {view} VALUES " + ",".join([row] * rows)


_ONE_LOGGED = _statement("logged", _LOGGED_COLUMNS, 1)
