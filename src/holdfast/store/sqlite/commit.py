"""One batch of submissions becomes one transaction.

The common batch, steps of runs that this process owns, is one SQL statement: apsw drops the GIL at
every statement, and each drop lets fifty other threads in between. It works on heads remembered
from the last commit; the triggers compare them, and if any is stale, nothing was written and the
batch is done again the exact way: heads read inside the transaction, each submission in a savepoint
of its own, so that a refused one does not touch the others.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    __slots__ = ("after", "decide", "durable", "error", "seal", "stream", "version", "wake")

    def __init__(self, stream: str, decide: Decide, after: int, durable: bool) -> None:
        self.stream = stream
        self.decide = decide
        self.after = after
        self.durable = durable
        self.seal = None
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
        if not self._write_fast(batch, synced):
            self._write_exactly(batch, synced)

    def forget(self) -> None:
        self._heads.clear()

    def _wait_for_disk(self, synced: bool) -> None:
        full = synced and not self._always_synced
        if full != self._full:
            # Never OFF: a checkpoint after an unsynced commit must still sync the WAL first.
            self._db.execute("PRAGMA synchronous=FULL" if full else "PRAGMA synchronous=NORMAL")
            self._full = full

    # The fast way

    def _write_fast(self, batch: Sequence[Submission], synced: bool) -> bool:
        """Steps of remembered streams in one statement; False if that cannot be or was stale."""
        heads = self._heads
        moved: dict[str, Head] = {}
        values: list[Any] = []
        for item in batch:
            if type(item) is not Append or item.step is None:
                return False
            stream = item.stream
            head = moved.get(stream) or heads.get(stream)
            if head is None or head.epoch != item.epoch:
                return False
            started, completed = item.events
            version = head.version
            hash1 = chain(head.hash, stream, version + 1, started)
            hash2 = chain(hash1, stream, version + 2, completed)
            step = item.step
            values += (
                head.id, version, head.epoch, started.at, started.payload, hash1,
                completed.at, completed.payload, hash2, synced,
                step.key, step.name, step.kind, step.effect, step.generation, step.child,
            )  # fmt: skip
            item.version = version + 2
            moved[stream] = Head(head.id, version + 2, hash2, head.epoch)
        try:
            self._db.execute(_steps_statement(len(batch)), values)
        except apsw.ConstraintError:
            self.forget()
            return False
        heads.update(moved)
        return True

    # The exact way

    def _write_exactly(self, batch: Sequence[Submission], synced: bool) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for item in batch:
                self._write_one(item, synced)
            db.execute("COMMIT")
        except BaseException:
            self.forget()
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _write_one(self, item: Submission, synced: bool) -> None:
        db = self._db
        db.execute("SAVEPOINT one")
        try:
            head = self._head(item.stream)
            if type(item) is Append:
                if head is None or head.epoch != item.epoch:
                    raise OwnershipLost(item.stream)
                decision = Decision(item.events, None, item.blobs)
            else:
                decision = item.decide(self._load(head, item.after))
            item.version = self._append(item.stream, head, decision, synced)
        except apsw.Error:
            raise
        except BaseException as error:
            db.execute("ROLLBACK TO one; RELEASE one")
            self._heads.pop(item.stream, None)
            item.error = error
        else:
            db.execute("RELEASE one")

    def _append(self, stream: str, head: Head | None, decision: Decision, synced: bool) -> int:
        if not decision.events:
            return head.version if head else 0
        if head is None:
            head = self._create(stream, decision, synced)
        if decision.epoch is not None and decision.epoch != head.epoch:
            self._db.execute(sql.query("set_epoch"), (decision.epoch, head.id))
            head = head._replace(epoch=decision.epoch)
        for blob in decision.blobs:
            self._db.execute(sql.query("put_blob"), blob)
        head = self._append_events(stream, head, decision.events, synced)
        if decision.events[-1].type in _LAST:
            self._heads.pop(stream, None)
        else:
            self._heads[stream] = head
        return head.version

    def _append_events(self, stream: str, head: Head, events: Sequence[NewEvent], synced: bool) -> Head:
        values: list[Any] = []
        version, hash = head.version, head.hash
        for event in events:
            version += 1
            hash = chain(hash, stream, version, event)
            values += (head.id, version, event.type, event.at, event.payload, hash, synced, None, None)
        values[-2:] = (head.version, head.epoch)
        self._db.execute(_events_statement(len(events)), values)
        return Head(head.id, version, hash, head.epoch)

    def _create(self, stream: str, decision: Decision, synced: bool) -> Head:
        """A new stream; the store's own stream records that it came to be."""
        id = self._db.execute(sql.query("create_stream"), (stream, decision.kind, GENESIS)).get
        if stream != STORE_STREAM:
            log = self._head(STORE_STREAM)
            if log is None:
                log = Head(
                    self._db.execute(sql.query("create_stream"), (STORE_STREAM, "store", GENESIS)).get,
                    0,
                    GENESIS,
                    0,
                )
            created = new_event(e.StreamCreated(stream, decision.kind), decision.events[0].at)
            self._append_events(STORE_STREAM, log, [created], synced)
        return Head(id, 0, GENESIS, 0)

    def _head(self, stream: str) -> Head | None:
        row = self._db.execute(sql.query("head"), (stream,)).fetchone()
        return Head(*row) if row else None

    def _load(self, head: Head | None, after: int) -> list[Recorded]:
        if head is None or head.version <= after:
            return []
        rows = self._db.execute(sql.query("load_by_id"), (head.id, after))
        return [Recorded(e.decode(type, payload), version, at) for version, type, at, payload in rows]


@cache
def _steps_statement(count: int) -> str:
    return "INSERT INTO stepped VALUES " + ",".join(["(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"] * count)


@cache
def _events_statement(count: int) -> str:
    return "INSERT INTO appended VALUES " + ",".join(["(?,?,?,?,?,?,?,?,?)"] * count)
