"""One batch of submissions becomes one transaction, in as few SQL statements as there can be.

apsw drops the GIL at every statement, and each drop lets fifty other threads in between. So all
appends of runs that this process owns go in one statement, or two: steps that started and completed
in one go through `stepped`, whatever else through `appended`. They are built on heads remembered from
the last commit; the triggers compare them with the stored ones. If any is stale, nothing was written,
and the batch is done again with heads read inside the transaction, where a stale owner is refused
and the others are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import apsw

from holdfast.errors import OwnershipLost
from holdfast.kernel import events as e
from holdfast.store.port import (
    GENESIS,
    STORE_STREAM,
    Append,
    Decide,
    Decision,
    Fate,
    NewEvent,
    Recorded,
    chain,
    new_event,
)
from holdfast.store.sqlite import sql


class Head(NamedTuple):
    id: int
    version: int
    hash: bytes
    epoch: int


class Command:
    """A foreign submission: what it appends is decided inside the transaction."""

    __slots__ = ("after", "decide", "durable", "error", "fate", "seal", "stream", "version", "wake")

    def __init__(self, stream: str, decide: Decide, after: int, durable: bool) -> None:
        self.stream = stream
        self.decide = decide
        self.after = after
        self.durable = durable
        self.seal: Callable[[Any], None] | None = None
        self.fate: Fate | None = None
        self.version = 0
        self.error: BaseException | None = None
        self.wake: Any = None


Submission = Append | Command

# Versions after which an owner is done with its run: its head need not be remembered.
_LAST = frozenset({"RunCompleted", "RunFailed", "RunCancelled", "RunReleased"})


class Committer:
    """Writes batches through one connection. Remembers the heads of the streams that it appends to."""

    def __init__(self, db: apsw.Connection, *, always_synced: bool) -> None:
        self._db = db
        self._always_synced = always_synced
        self._full = True
        self._heads: dict[str, Head] = {}

    def write(self, batch: Sequence[Submission]) -> None:
        """Commit the batch. Refusals are left in `error`; raises only if nothing was committed."""
        synced = self._always_synced or any(item.durable for item in batch)
        self._wait_for_disk(synced)
        steps, others, commands = self._sort(batch)
        try:
            if not commands and (not others or (not steps and len(others) == len(others[0].events) == 1)):
                # A statement outside a transaction is one: it takes the write lock at its beginning,
                # as BEGIN IMMEDIATE would, and commits at its end.
                self._write_appends(steps, others, synced)
            else:
                self._transact(steps, others, commands, synced)
        except apsw.ConstraintError:
            self._heads.clear()
            self._transact((), (), batch, synced)
        except BaseException:
            self._heads.clear()
            raise

    def _wait_for_disk(self, synced: bool) -> None:
        full = synced and not self._always_synced
        if full != self._full:
            # Never OFF: a checkpoint after an unsynced commit must still sync the WAL first.
            self._db.execute("PRAGMA synchronous=FULL" if full else "PRAGMA synchronous=NORMAL")
            self._full = full

    def _sort(
        self, batch: Sequence[Submission]
    ) -> tuple[Sequence[Append], Sequence[Append], Sequence[Submission]]:
        """(steps, other appends, what must be looked at one by one), in an order that keeps each
        stream's own."""
        heads = self._heads
        steps: list[Append] = []
        others: list[Append] = []
        singly: list[Submission] = []
        behind: set[str] = set()
        for item in batch:
            stream = item.stream
            head = heads.get(stream)
            if type(item) is not Append or head is None or head.epoch != item.epoch or item.blobs:
                singly.append(item)
                behind.add(stream)
            elif stream in behind:
                (singly if any(one.stream == stream for one in singly) else others).append(item)
            elif item.step is not None and item.events:
                steps.append(item)
            else:
                others.append(item)
                behind.add(stream)
        return steps, others, singly

    def _transact(
        self,
        steps: Sequence[Append],
        others: Sequence[Append],
        singly: Sequence[Submission],
        synced: bool,
    ) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            self._write_appends(steps, others, synced)
            for item in singly:
                self._write_one(item, synced)
            db.execute("COMMIT")
        except BaseException:
            self._heads.clear()
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    # Appends on remembered heads

    def _write_appends(self, steps: Sequence[Append], others: Sequence[Append], synced: bool) -> None:
        heads = self._heads
        values: list[Any] = []
        for item in steps:
            stream, step = item.stream, item.step
            started, completed = item.events
            id, version, hash, epoch = heads[stream]
            name = stream.encode()
            hash1 = chain(hash, name, version + 1, *started)
            hash2 = chain(hash1, name, version + 2, *completed)
            assert step is not None
            values += (
                id, version, epoch, started.at, started.payload, hash1,
                completed.at, completed.payload, hash2, synced,
                step.key, step.name, step.kind, step.effect, step.generation, step.child,
            )  # fmt: skip
            item.version = version + 2
            heads[stream] = Head(id, version + 2, hash2, epoch)
        if values:
            self._db.execute(_steps_statement(len(steps)), values)
        values = []
        for item in others:
            if item.events:
                self._chain(item.stream, heads[item.stream], item.events, synced, values)
            item.version = heads[item.stream].version
        if values:
            self._insert_events(values)
        for item in others:
            if item.events and item.events[-1].type in _LAST:
                heads.pop(item.stream, None)

    def _chain(
        self, stream: str, head: Head, events: Sequence[NewEvent], synced: bool, values: list[Any]
    ) -> None:
        """Add the rows of `events` to `values` and remember the head after them."""
        version, hash, name = head.version, head.hash, stream.encode()
        for event in events:
            version += 1
            hash = chain(hash, name, version, *event)
            values += (head.id, version, event.type, event.at, event.payload, hash, synced, None, None)
        values[-2:] = (head.version, head.epoch)
        self._heads[stream] = Head(head.id, version, hash, head.epoch)

    def _insert_events(self, values: list[Any]) -> None:
        """The rows that `_chain` made; in pieces, because SQLite binds 32,766 values at most."""
        for start in range(0, len(values), _MOST_VALUES):
            piece = values[start : start + _MOST_VALUES]
            self._db.execute(_events_statement(len(piece) // _EVENT_COLUMNS), piece)

    # One by one, on what the transaction reads

    def _write_one(self, item: Submission, synced: bool) -> None:
        """Everything that can refuse the submission comes before the first write."""
        try:
            head = self._head(item.stream)
            if isinstance(item, Append):
                if item.events and (head is None or head.epoch != item.epoch):
                    raise OwnershipLost(item.stream)
                decision = Decision(item.events, None, item.blobs)
            else:
                decision = item.decide(self._load(head, item.after))
        except apsw.Error:
            raise
        except Exception as error:
            item.error = error
            return
        item.version = self._append(item.stream, head, decision, synced)

    def _append(self, stream: str, head: Head | None, decision: Decision, synced: bool) -> int:
        if not decision.events:
            return head.version if head else 0
        values: list[Any] = []
        if head is None:
            head = self._create(stream, decision, synced, values)
        elif decision.epoch is not None and decision.epoch != head.epoch:
            self._db.execute(sql.query("set_epoch"), (decision.epoch, head.id))
            head = head._replace(epoch=decision.epoch)
        for blob in decision.blobs:
            self._db.execute(sql.query("put_blob"), blob)
        self._chain(stream, head, decision.events, synced, values)
        self._insert_events(values)
        version = self._heads[stream].version
        if decision.events[-1].type in _LAST:
            del self._heads[stream]
        return version

    def _create(self, stream: str, decision: Decision, synced: bool, values: list[Any]) -> Head:
        """A new stream; the store's own stream records that it came to be."""
        head = self._new_head(stream, decision.kind, decision.epoch or 0)
        log = self._head(STORE_STREAM) or self._new_head(STORE_STREAM, "store", 0)
        created = new_event(e.StreamCreated(stream, decision.kind), decision.events[0].at)
        self._chain(STORE_STREAM, log, [created], synced, values)
        return head

    def _new_head(self, stream: str, kind: str, epoch: int) -> Head:
        id = self._db.execute(sql.query("create_stream"), (stream, kind, GENESIS, epoch)).get
        return Head(id, 0, GENESIS, epoch)

    def _head(self, stream: str) -> Head | None:
        row = self._db.execute(sql.query("head"), (stream,)).fetchone()
        return Head(*row) if row else None

    def _load(self, head: Head | None, after: int) -> list[Recorded]:
        if head is None or head.version <= after:
            return []
        rows = self._db.execute(sql.query("load_by_id"), (head.id, after))
        return [Recorded(e.decode(type, payload), version, at) for version, type, at, payload in rows]


_EVENT_COLUMNS = 9
_MOST_VALUES = 3_000 * _EVENT_COLUMNS


@cache
def _steps_statement(count: int) -> str:
    return "INSERT INTO stepped VALUES " + ",".join(["(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"] * count)


@cache
def _events_statement(count: int) -> str:
    return "INSERT INTO appended VALUES " + ",".join(["(?,?,?,?,?,?,?,?,?)"] * count)
