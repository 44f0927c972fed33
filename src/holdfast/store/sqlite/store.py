"""The SQLite store: connections, the commit path, reads.

The path of a submission to the disk: `append` → `GroupCommit` (which thread commits) → `_commit` (write lock,
transaction, check that the file is still there) → `Committer` (what is written).
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from holdfast.errors import (
    Resync,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreInDoubt,
    StoreReadOnly,
    StoreVanished,
    store_error_for,
)
from holdfast.kernel import events as e
from holdfast.project import DATABASE
from holdfast.store.deciding import Deciding
from holdfast.store.rows import (
    Deleted,
    Entry,
    EvidenceRow,
    Fault,
    FeedPage,
    MemoryFilter,
    OperationRow,
    OwnerRow,
    PendingDeletion,
    RunFilter,
    RunRow,
    StepRow,
)
from holdfast.store.sqlite import choice, forked, projections, sql
from holdfast.store.sqlite.budgets import BudgetQueries
from holdfast.store.sqlite.commit import Command, Committer, Submission, share
from holdfast.store.sqlite.connection import (
    MISREAD,
    connect,
    migrate,
    prepare_to_write,
    refuse_network,
    translate,
)
from holdfast.store.sqlite.group import GroupCommit
from holdfast.store.sqlite.inode import Inode, inode_of
from holdfast.store.sqlite.tracker import TrackerQueries
from holdfast.store.sqlite.write_lock import WriteLock
from holdfast.store.streams import GENESIS, GONE, STORE_STREAM, chain
from holdfast.store.submission import (
    END,
    NO_EVENTS,
    Append,
    Decide,
    DecideAll,
    Decision,
    Fate,
    Recorded,
    Source,
    new_event,
)

if TYPE_CHECKING:
    from holdfast.kernel.memory import Memory
    from holdfast.store.learning_port import OutcomeRow, OutcomeSums
    from holdfast.store.statistics import Statistics

WAL_LOOK_S = 1.0


class SqliteStore(BudgetQueries, TrackerQueries):
    """A store in a directory. Open it once per process and share it among threads.

    `durability="full"` waits for the disk at every acknowledgement (survives a power cut);
    `"process"` does not (survives kill -9). Not usable in a forked child.
    """

    def __init__(self, home: Path, *, durability: str = "full") -> None:
        self.path = home / DATABASE
        self._file = str(self.path)
        self._inode: Inode | None = None
        self._wal: Inode | None = None
        self._wal_due = 0.0
        _make_private(home)
        refuse_network(home)
        self._closed = ""
        self._reading = threading.Lock()
        self._reader: apsw.Connection | None = None
        self._readers = 0
        """The number of readers so far, as a part of `pulse`: each reader counts the commits of others from
        0."""
        self._db: apsw.Connection | None = None
        self._committer: Committer | None = None
        self._durability = durability
        self._deciding = Deciding()
        self._write_lock = _open_write_lock(home)
        self._group: GroupCommit[Submission] = GroupCommit(self._commit)
        forked.watch(self)
        try:
            self._open()
        except BaseException:
            forked.forget(self)
            self._write_lock.close()
            raise

    # Writing

    def append(self, append: Append) -> None:
        if self._deciding.thread:
            self._deciding.refuse_inside()
        try:
            self._group.submit(append)
        except BaseException as error:  # Ctrl-C, too: it may have been withdrawn
            share(append.fate, error)
            raise

    def append_soon(self, append: Append, done: Callable[[Append], None]) -> None:
        if self._deciding.thread:
            self._deciding.refuse_inside()
        try:
            self._group.submit_soon(append, done)  # type: ignore[arg-type]
        except BaseException as error:
            share(append.fate, error)
            raise

    def command(
        self,
        stream: str,
        decide: Decide,
        *,
        after: int = 0,
        types: Sequence[str] = (),
        durable: bool = True,
        fate: Fate | None = None,
    ) -> int:
        def decide_one(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
            return [decide(recorded[0])]

        return self._command(Command([Source(stream, after, types)], decide_one, durable, fate))[0]

    def command_all(self, sources: Sequence[Source], decide: DecideAll, *, durable: bool = True) -> list[int]:
        return self._command(Command(sources, decide, durable))

    def _command(self, command: Command) -> list[int]:
        self._deciding.refuse_inside()
        try:
            self._group.submit(command)
        except BaseException as error:
            share(command.fate, error)
            raise
        return list(command.versions)

    def archive(self, families: Sequence[Sequence[e.StreamArchived]], at: int) -> list[str]:
        gone: list[str] = []

        def decide(_: Sequence[Recorded]) -> Decision:
            there = [one for family in families if all(map(self._is_head, family)) for one in family]
            gone[:] = [one.stream for one in there]
            return Decision("store", [new_event(one, at) for one in there])

        self.command(STORE_STREAM, decide, after=END)
        return gone

    def _is_head(self, one: e.StreamArchived) -> bool:
        assert self._db is not None
        values = (one.stream, one.version, bytes.fromhex(one.hash))
        return self._db.execute(sql.query("head_is"), values).get is not None

    def archived(self, stream: str) -> str | None:
        found = self._read("archived_in", (stream,))
        return found[0][0] if found else None

    def delete(
        self,
        heads: Mapping[str, int | None],
        operation: str,
        at: int,
        also: Sequence[Source] = (),
        decide: DecideAll | None = None,
    ) -> bool:
        def record(stream: str) -> e.Event | None:
            head = self._any_head(stream)
            if head is None or head[0] in GONE or heads[stream] not in (None, head[1]):
                return None
            return e.StreamDeleted(stream, *head, operation)

        return self._record_all(list(heads), record, at, also, decide)

    def restore(
        self,
        streams: Sequence[str],
        operation: str,
        at: int,
        also: Sequence[Source] = (),
        decide: DecideAll | None = None,
    ) -> bool:
        def record(stream: str) -> e.Event | None:
            assert self._db is not None
            row = self._db.execute(sql.query("deleted_by"), (stream,)).fetchone()
            return None if row is None or row[1] else e.StreamRestored(stream, row[2], operation)

        return self._record_all(streams, record, at, also, decide)

    def purge(self, streams: Sequence[str], at: int) -> bool:
        def record(stream: str) -> e.Event | None:
            head = self._any_head(stream)
            is_deleted = head is not None and head[0] == "deleted"
            return e.StreamArchived(stream, head[1], head[2]) if head is not None and is_deleted else None

        return self._record_all(streams, record, at, (), None)

    def _record_all(
        self,
        streams: Sequence[str],
        record: Callable[[str], e.Event | None],
        at: int,
        also: Sequence[Source],
        decide: DecideAll | None,
    ) -> bool:
        """Write the record of each stream, and what `decide` appends, in one transaction; nothing, and return
        False, if one of them has none. The store's own stream comes first: what is decided for the others may
        begin a stream, which is written there too."""
        done = False

        def decide_all(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
            nonlocal done
            assert self._db is not None
            # SQLite overwrites what this connection deletes from here on. Copies that a page split left
            # behind may stay until their page is used again.
            self._db.execute("PRAGMA secure_delete=ON")
            records = [record(stream) for stream in streams]
            done = all(one is not None for one in records)
            if not done:
                return [NO_EVENTS] * (1 + len(also))
            events = [new_event(one, at) for one in records if one is not None]
            others = [] if decide is None else decide(recorded[1:])
            return [Decision("store", events), *others]

        self.command_all([Source(STORE_STREAM, END), *also], decide_all)
        return done

    def _any_head(self, stream: str) -> tuple[str, int, str] | None:
        """(kind, version, hash) of a stream, in the transaction."""
        assert self._db is not None
        row = self._db.execute(sql.query("any_head"), (stream,)).fetchone()
        return None if row is None else (row[0], row[1], row[2].hex())

    def deletions(self) -> list[PendingDeletion]:
        found: dict[tuple[str, int], list[str]] = {}
        for operation, at, stream in self._read("deletions"):
            found.setdefault((operation, at), []).append(stream)
        return [PendingDeletion(*key, tuple(streams)) for key, streams in found.items()]

    def deleted(self, stream: str) -> Deleted | None:
        found = self._read("deleted_by", (stream,))
        return Deleted(found[0][0], bool(found[0][1])) if found else None

    def sweep(self) -> int:
        from holdfast.store.sqlite import sweeping

        self._check_usable()
        behind, unnamed = sweeping.find(self.path)
        swept = 0

        def drop(db: apsw.Connection) -> None:
            nonlocal swept
            swept += sweeping.drop(db, some, behind)

        for start in range(0, len(unnamed), sweeping.AT_ONCE):
            some = unnamed[start : start + sweeping.AT_ONCE]
            self._change(drop)
        return swept

    def _commit(self, batch: list[Submission]) -> None:
        """Write one batch. If that fails, every submitter gets the error."""
        live = batch
        try:
            live = _without_doomed(batch)
            error = self._write(live)
            if error is not None:
                self._fail(live, error)
            for item in live:
                if item.error is not None:
                    share(item.fate, item.error)
        except BaseException:  # Ctrl-C in the leader: for the others the outcome is unknown
            self._fail(
                live, StoreInDoubt(f"a commit to {self.path} was interrupted; resume to see its outcome")
            )
            raise

    def _write(self, batch: list[Submission]) -> BaseException | None:
        """Write the batch and make sure that it is where the next process will look for it."""
        try:
            if self._closed:
                raise StoreClosed(f"the store {self.path} is {self._closed}")
            with self._write_lock:
                self._writer().write(batch)
                self._check_file()
        except apsw.IOError as io_error:
            return self._after_io_error(batch, io_error)
        except apsw.Error as sqlite_error:
            return translate(sqlite_error, self.path)
        except Exception as other:
            return other
        return None

    @staticmethod
    def _fail(batch: list[Submission], error: BaseException) -> None:
        """Nothing of the batch is written. Refusals are replaced, too: they were decided on events that are
        not written."""
        for item in batch:
            item.error = error
            if item.fate is not None:
                item.fate.error = error

    def _after_io_error(self, batch: list[Submission], error: apsw.IOError) -> StoreError:
        """It is unknown whether the commit took place: drop the connection, so that nothing is built on its
        cached state, connect again and look. A commit that is there is still not acknowledged: after a failed
        sync, a power cut may undo it."""
        with self._reading:
            self._disconnect()
        try:
            missing = any(self._is_missing(item) for item in batch)
            if missing:
                self._overwrite_what_failed()
        except (StoreError, apsw.Error):  # what cannot be read may be there
            missing = False
            with self._reading:
                self._disconnect()
        if missing:
            return StoreError(
                f"the disk failed under {self.path} ({error}); nothing of the last commit was written: "
                "check the disk, then resume"
            )
        return StoreInDoubt(
            f"the disk failed under {self.path} ({error}); whether the last commit took place shows "
            "when the store is opened again: check the disk, then resume"
        )

    def _is_missing(self, item: Submission) -> bool:
        """Whether the log is known to lack what this submission was to write, and with it the whole batch:
        a batch is one transaction."""
        if item.error is not None:
            return False  # refused: it was to write nothing
        if isinstance(item, Command):
            return any(
                version > 0 and not self._read("hash_at", (source.stream, version))
                for source, version in zip(item.sources, item.versions, strict=False)
            )
        if not item.events:
            return False
        found = self._read("load", (item.stream, item.version - 1)) if item.version else []
        return not found or found[0][3] != item.events[-1].payload

    def _overwrite_what_failed(self) -> None:
        """Overwrite a commit whose sync failed. It is whole in the write-ahead log, after the end that other
        processes know: if all were killed now, the next one to open the store would find it. One more commit
        overwrites it."""
        with self._write_lock:
            self._writer()
            assert self._db is not None
            self._db.execute(sql.query("touch"))

    def _check_file(self) -> None:
        """Check that the database is the file that was opened, and is not emptied. Its write-ahead log is
        checked only once per second: a stat of a file that is written continuously makes each sync of it 80
        µs slower (measured on Linux 6.18)."""
        vanished = inode_of(self._file, least=1) != self._inode
        if vanished or (time.monotonic() >= self._wal_due and not self._has_wal()):
            raise StoreVanished(
                f"the store {self.path} was deleted, replaced or emptied while it was open; what was done "
                "since is not recorded: restore the directory or begin a new store"
            )

    def _has_wal(self) -> bool:
        if self._wal is not None and inode_of(self._file + "-wal") != self._wal:
            return False
        self._wal_due = time.monotonic() + WAL_LOOK_S
        return True

    def _writer(self) -> Committer:
        if self._committer is None:
            if self._db is None:
                self._check_file()
                self._connect()
            assert self._db is not None
            try:
                prepare_to_write(self._db)
                self._wal = inode_of(self._file + "-wal")
                self._committer = Committer(
                    self._db, waits=self._durability == "full", deciding=self._deciding
                )
            except BaseException:  # Ctrl-C: a connection that is half prepared is no use
                with self._reading:
                    self._disconnect()
                raise
        return self._committer

    # Opening and closing

    def _open(self) -> None:
        if self._write_lock.had_store and inode_of(self._file, least=1) is None:
            raise StoreCorrupt(
                f"the store in {self.path.parent} has lost its database: {self.path} is missing or empty; "
                "`holdfast repair` brings back what other copies have, or remove the directory to begin anew"
            )
        try:
            self._connect(create=True)
            assert self._db is not None
            is_old = self._db.pragma("user_version") < sql.schema_version()
            if is_old:
                with self._write_lock:
                    migrate(self._db)
            elif self._db.pragma("journal_mode") != "wal":  # a copy that SQLite made has none
                with self._write_lock:
                    self._db.pragma("journal_mode", "wal")
            if not projections.is_current(self._db):
                with self._write_lock:
                    self._writer()
                    projections.renew(self._db)
            if self._db.execute(sql.query("incarnation")).get is None:
                with self._write_lock:
                    self._db.execute(sql.query("set_incarnation"), (os.urandom(8).hex(),))
            self.incarnation: str = self._db.execute(sql.query("incarnation")).get
            if self._write_lock.incarnation != self.incarnation:
                self._write_lock.record_store(self.incarnation)
            if self._committer is None and not is_old:
                # It has no triggers yet, so it becomes the reader: a process that only reads opens no other.
                self._reader, self._db = self._db, None
        except (apsw.Error, *MISREAD) as error:
            self._disconnect()
            raise translate(error, self.path) from None

    def _connect(self, *, create: bool = False) -> None:
        self._db = connect(self.path, create=create)
        self._inode = inode_of(self._file)

    def _disconnect(self) -> None:
        self._committer = None
        self._wal = None  # the last connection that closes removes it
        connections = (self._db, self._reader)
        self._db = self._reader = None
        for db in connections:
            if db is not None:
                try:
                    db.close(True)
                except apsw.Error:
                    pass  # its last checkpoint failed: what was acknowledged is in the write-ahead log

    def close(self) -> None:
        if self._closed:
            return
        self._group.close()
        self._closed = "closed"
        with self._reading:
            self._disconnect()
        forked.forget(self)
        self._write_lock.close()

    def abandon(self) -> tuple[Inode | None, object]:
        """In a forked child: never touch the parent's connections again, not even to close them."""
        self._closed = "not usable in a forked child; start the process anew (spawn, exec)"
        self._group = GroupCommit(self._commit)  # the leader of the old one may be a thread of the parent
        self._write_lock.close()  # or this child would keep the lock after its parent's death
        return self._inode, (self._db, self._reader)

    # Reading

    def _read(self, name: str, values: Sequence[Any] = (), chosen: str = "") -> list[tuple[Any, ...]]:
        text = sql.query(name)
        if chosen:
            text = text.replace("FROM chosen", f"FROM {chosen}")
        self._deciding.refuse_inside()
        self._refuse_closed()  # a forked child may never get the lock
        with self._reading:
            self._refuse_closed()  # after `close`, no thread may open a reader again
            try:
                if self._reader is None or not self._readers:
                    self._check_file()
                    self._readers += 1
                    self._reader = self._reader or connect(self.path)
                return self._reader.execute(text, values).fetchall()
            except UnicodeEncodeError:
                return []  # half a character, as a terminal can give it: nothing in the store is named so
            except (apsw.Error, UnicodeDecodeError) as error:
                raise translate(error, self.path) from None

    def _check_usable(self) -> None:
        """Called before the database is read through connections of others than this store."""
        self._deciding.refuse_inside()
        self._refuse_closed()
        self._check_file()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreClosed(f"the store {self.path} is {self._closed}")

    def load(self, stream: str, *, after: int = 0, output: bool = False) -> list[Recorded]:
        return list(self.history(stream, after=after, output=output))

    def history(self, stream: str, *, after: int = 0, output: bool = False) -> Iterator[Recorded]:
        rows = self._read("load", (stream, after))
        if not rows:
            return
        previous = GENESIS
        if after:
            found = self._read("hash_at", (stream, after))
            previous = found[0][0] if found else b""
        decode, link, name = e.decode, chain, stream.encode()
        head, expected = rows[0][5], after
        if rows[0][0] is None:
            rows = []
        for version, type, at, payload, hash, _ in rows:
            expected += 1
            try:
                sound = version == expected and hash == link(previous, name, version, type, at, payload)
            except (TypeError, AttributeError):  # a damaged page can make a number of a text
                sound = False
            if not sound:
                raise self._damaged(stream, expected)
            previous = hash
            if output or type != "OutputCaptured":
                yield Recorded(decode(type, payload), version, at)
        if not isinstance(head, int) or expected < head:
            raise self._damaged(stream, expected + 1)

    def _damaged(self, stream: str, version: int) -> StoreCorrupt:
        return StoreCorrupt(
            f"the history of {stream} does not verify at version {version}; "
            "`holdfast audit verify` lists every place"
        )

    def entries(self, stream: str, *, after: int = 0, type: str = "") -> Iterator[Entry]:
        return (Entry(*row) for row in self._read("entries", (stream, after, type)))

    def blob(self, hash: str) -> bytes:
        rows = self._read("blob", (hash,))
        if not rows:
            raise StoreCorrupt(f"a large value ({hash[:12]}) is missing from the store")
        data = rows[0][0]  # a damaged page can make a text of it
        if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != hash:
            raise StoreCorrupt(f"a large value ({hash[:12]}) was changed: it does not match its hash")
        return data

    def run(self, run_id: str) -> RunRow | None:
        rows = self._read("run", (run_id,))
        return RunRow(*rows[0]) if rows else None

    def runs(
        self, *, status: Sequence[str] = (), limit: int | None = None, parent: str | None = None
    ) -> list[RunRow]:
        return self.find_runs(RunFilter(status=tuple(status), parent=parent), limit)

    def find_runs(self, which: RunFilter, limit: int | None = None) -> list[RunRow]:
        table = choice.table(which.status, which.orphaned, parent=which.parent)
        values = (*choice.values(which), -1 if limit is None else limit)
        return [RunRow(*row) for row in self._read("find_runs", values, table)]

    def count_runs(self, which: RunFilter) -> int:
        table = choice.table(which.status, which.orphaned, parent=which.parent)
        found = self._read("count_runs", choice.values(which), table)
        return found[0][0] if found else 0

    def owners_named(self, status: Sequence[str]) -> list[str]:
        found = self._read("owners_named", (choice.array(status),), choice.table(status))
        return [row[0] for row in found]

    def statistics(self, changed_since: int = 0) -> Statistics:
        from holdfast.store.sqlite.statistics import statistics

        self._check_usable()
        return statistics(self.path, changed_since)

    def run_ids(self, prefix: str, limit: int, *, parent: str | None = None) -> list[str]:
        return [row[0] for row in self._read("run_ids", (prefix, limit, parent))]

    def numbered(self, number: int) -> str | None:
        found = self._read("numbered", (number,)) if 0 < number < 1 << 62 else []
        return found[0][0] if found else None

    def steps(self, run_id: str) -> list[StepRow]:
        return [StepRow(*row) for row in self._read("steps", (run_id,))]

    def creations(self, run_ids: Sequence[str]) -> list[tuple[str, e.RunCreated]]:
        found = self._read("creations", (choice.array(run_ids),))
        events = ((run_id, e.decode("RunCreated", payload)) for run_id, payload in found)
        return [(run_id, event) for run_id, event in events if isinstance(event, e.RunCreated)]

    def open_gates(self, run_ids: Sequence[str]) -> list[tuple[str, str, str]]:
        found = self._read("open_gates", (choice.array(run_ids),))
        return [(run_id, kind, name) for run_id, kind, name in found]

    def operations(
        self, *, prefix: str = "", run: str | None = None, by: str | None = None, limit: int | None = None
    ) -> list[OperationRow]:
        from holdfast.kernel.operation import stream_of

        values = (stream_of(prefix), run, by, -1 if limit is None else limit, len(stream_of("")))
        return [OperationRow(*row) for row in self._read("operations", values)]

    def memories(self, which: MemoryFilter, *, before: int = 0, limit: int | None = None) -> list[Memory]:
        from holdfast.store.sqlite.memory_rows import BEGINNING, memory_of

        fields = (which.prefix, which.run, which.kind, which.scope, which.every)
        values = (*fields, before, -1 if limit is None else limit)
        found = self._read("memories", values, BEGINNING if which.prefix else "memories")
        return [memory_of(*row) for row in found]

    def authored_by(self, run_ids: Sequence[str]) -> list[str]:
        return [row[0] for row in self._read("authored_by", (choice.array(run_ids),))]

    def outcomes(self, family: str, kind: str, candidate: str, limit: int) -> list[OutcomeRow]:
        from holdfast.store.learning_port import OutcomeRow

        found = self._read("outcomes", (family, kind, candidate, limit))
        return [OutcomeRow(at, bool(ok), usd, error) for at, ok, usd, error in found]

    def outcome_sums(self, family: str, kind: str | None = None) -> list[OutcomeSums]:
        from holdfast.store.learning_port import OutcomeSums

        return [OutcomeSums(*row) for row in self._read("outcome_sums", (family, kind))]

    def strays(self, run_ids: Sequence[str]) -> list[str]:
        return [row[0] for row in self._read("strays", (choice.array(run_ids),))]

    def ready_runs(self, now: int) -> list[tuple[str, str]]:
        return [(id, parent) for id, parent in self._read("ready_runs", (now,))]

    def next_due(self, now: int) -> int:
        found = self._read("next_due", (now,))
        return found[0][0] if found else 0

    # Owners: outside the log, because a dead one leaves no trace worth keeping

    def put_owner(self, owner: OwnerRow) -> None:
        self._write_owner("put_owner", (owner.id, owner.host, owner.boot, owner.pid, owner.started_at))

    def drop_owner(self, owner_id: str) -> None:
        self._write_owner("drop_owner", (owner_id,))

    def release_stopped_writer(self, pid: int) -> None:
        self._write_lock.release_stopped_writer(pid)

    def _write_owner(self, name: str, values: Sequence[Any]) -> None:
        self._change(lambda db: db.execute(sql.query(name), values), durable=False)

    def _change(self, write: Callable[[apsw.Connection], object], *, durable: bool = True) -> None:
        """Write to tables that are not the log, in a transaction of the queue."""

        def decide(_: Sequence[Recorded]) -> Decision:
            assert self._db is not None
            write(self._db)
            return NO_EVENTS

        self.command("", decide, durable=durable)

    def owner(self, owner_id: str) -> OwnerRow | None:
        rows = self._read("owner", (owner_id,))
        return OwnerRow(*rows[0]) if rows else None

    def owners(self) -> list[OwnerRow]:
        return [OwnerRow(*row) for row in self._read("owners")]

    def idle_owners(self, limit: int) -> list[OwnerRow]:
        return [OwnerRow(*row) for row in self._read("idle_owners", (limit,))]

    # The feed

    def feed(self, cursor: str = "", *, limit: int = 1000, types: Sequence[str] = ()) -> FeedPage:
        after = self._position(cursor)
        synced, hash = self._last_synced()
        if synced <= after:
            return FeedPage([], cursor)
        entries = [Entry(*row) for row in self._read("feed", (after, synced, limit, sql.listed(types)))]
        if len(entries) < limit:  # the end of the feed: skipped events need not be read again
            return FeedPage(entries, self._cursor(synced, hash))
        return FeedPage(entries, self._cursor(entries[-1].position, entries[-1].hash))

    def events_of(self, types: Sequence[str], *, with_deleted: bool = False) -> list[tuple[str, e.Event]]:
        found = self._read("events_of_all" if with_deleted else "events_of", (sql.listed(types),))
        return [(stream, e.decode(type, payload)) for stream, type, payload in found]

    def evidence(self, run_id: str = "") -> list[EvidenceRow]:
        rows = self._read("evidence_of", (run_id,)) if run_id else self._read("evidence")
        return [
            EvidenceRow(run, generation, e.decode(type, payload), version, at)
            for run, generation, type, payload, version, at in rows
        ]

    def tail(self) -> str:
        synced, hash = self._last_synced()
        return self._cursor(synced, hash) if synced else ""

    def pulse(self) -> int:
        readers = self._readers  # before the look: a new one in between is another number for certain
        return readers << 32 | int(self._read("pulse")[0][0])

    def _last_synced(self) -> tuple[int, bytes]:
        """The position and the hash in one query: between two queries the event may be archived."""
        found = self._read("last_synced")
        return (found[0][0], found[0][1]) if found else (0, b"")

    def _cursor(self, position: int, hash: bytes) -> str:
        import base64  # 2 ms that `holdfast list` need not pay

        return base64.urlsafe_b64encode(f"{self.incarnation}.{position}.{hash[:6].hex()}".encode()).decode()

    def _position(self, cursor: str) -> int:
        if not cursor:
            return 0
        import base64

        try:
            incarnation, position, piece = base64.urlsafe_b64decode(cursor).decode().split(".")
            after = int(position)
        except ValueError:
            raise Resync(f"{cursor!r} is not a cursor of this store") from None
        found = self._read("hash_at_position", (after,)) if 0 < after < 1 << 63 else []
        if not found:  # a reader at the end must not start over because its last run was archived
            found = self._read("archived_head", (piece.upper(),))
        # Compared as text: base64 ignores unknown letters, and `int` accepts "1_0".
        if not found or cursor != self._cursor(after, found[0][0]):
            is_past = incarnation == self.incarnation and 0 < after < self._last_synced()[0]
            raise Resync(
                "the cursor is of another history of this store; read the feed from the beginning",
                is_removed=is_past and not found,
            )
        return after

    # Audit

    def verify(self) -> Iterator[Fault]:
        self._check_usable()
        from holdfast.store.sqlite import audit

        return audit.verify(self.path)

    def rebuild(self) -> None:
        self._change(projections.rebuild)


def _without_doomed(batch: list[Submission]) -> list[Submission]:
    """The batch without what follows a loss of the same execution (see `Fate`)."""
    doomed = False
    for item in batch:
        fate = item.fate
        if fate is not None and fate.error is not None:
            item.error = fate.error
            doomed = True
    return [item for item in batch if item.error is None] if doomed else batch


def _make_private(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        in_the_way = isinstance(error, (NotADirectoryError, FileExistsError))
        kind = StoreReadOnly if in_the_way else store_error_for(error)
        raise kind(f"the store's directory {home} cannot be made: {error.strerror}") from None


def _open_write_lock(home: Path) -> WriteLock:
    try:
        return WriteLock(str(home / "write.lock"))
    except OSError as error:
        raise store_error_for(error)(f"the store in {home} cannot be written: {error.strerror}") from None
