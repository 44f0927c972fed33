"""A store in memory, as simple as can be: the second opinion on every other store.

No SQL, no group commit, no durability: a lock, dicts and lists, and projections that are folds of the
kernel's `evolve`. Where it and another store differ, one of them breaks the port's promise.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from holdfast.errors import OwnershipLost, RunArchived, RunDeleted, StoreClosed, StoreCorrupt, StoreError
from holdfast.kernel import events as e
from holdfast.kernel import operation
from holdfast.kernel.evolve import Impossible, evolve, fold
from holdfast.kernel.memory import STREAM as MEMORY
from holdfast.kernel.memory import Memory
from holdfast.kernel.state import PARKED, RunState
from holdfast.store import oracle_learning, oracle_memory
from holdfast.store.deciding import Deciding
from holdfast.store.learning_port import OutcomeRow, OutcomeSums
from holdfast.store.oracle_budgets import BudgetFolds
from holdfast.store.oracle_tracker import TrackerFolds
from holdfast.store.port import (
    GENESIS,
    STORE_STREAM,
    Append,
    Companion,
    Decide,
    DecideAll,
    Decision,
    Deleted,
    Entry,
    EvidenceRow,
    Fate,
    Fault,
    FeedPage,
    MemoryFilter,
    NewEvent,
    OperationRow,
    OwnerRow,
    PendingDeletion,
    Recorded,
    Resync,
    RunFilter,
    RunRow,
    Source,
    StepRow,
    chain,
    companion_failed,
    is_numbered,
    new_event,
)
from holdfast.store.run_row import run_row as run_row
from holdfast.store.statistics import (
    MOST_FAILING,
    FailingStep,
    Outcomes,
    Statistics,
    StepTotals,
    of_measures,
    of_runs,
)


class Stream:
    """One stream: its head, its part of the log, and what that adds up to."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.number = 0
        self.place = 0
        """Of its creation, in the store's own stream."""
        self.version = 0
        self.hash = GENESIS
        self.epoch = 0
        self.log: list[Entry] = []
        self.state: RunState | None = None

    def recorded(self, after: int = 0) -> list[Recorded]:
        return [
            Recorded(e.decode(entry.type, entry.payload), entry.version, entry.at)
            for entry in self.log
            if entry.version > after
        ]

    def projected(self) -> RunState | None:
        return fold(self.recorded()) if self.kind == "run" else None


class _Aside(NamedTuple):
    """A deleted stream, until it is restored or removed."""

    stream: Stream
    record: e.StreamDeleted
    at: int


class OracleStore(BudgetFolds, TrackerFolds):
    """Implements the port; thread-safe; gone when the process ends."""

    def __init__(self) -> None:
        self.incarnation = os.urandom(8).hex()
        self.streams: dict[str, Stream] = {}
        self.blobs: dict[str, bytes] = {}
        self._owners: dict[str, OwnerRow] = {}
        self._position = 0
        self._synced = 0
        self._numbers = 0
        self._closed = False
        self._archived: dict[str, e.StreamArchived] = {}
        self._deleted: dict[str, _Aside] = {}
        self._deleted_once: dict[str, str] = {}
        """By which operation each was deleted, also if that is final by now."""
        self._lock = threading.RLock()
        self._deciding = Deciding()

    # Writing

    def append(self, append: Append) -> None:
        with self._lock, _shared(append.fate):
            if append.seal is not None:
                append.seal(append)
            stream = self._open(append.stream)
            if append.begins:
                if stream is not None:
                    raise OwnershipLost(append.stream)
            elif (append.events or append.also) and (stream is None or stream.epoch != append.epoch):
                raise OwnershipLost(append.stream)
            decision = Decision(append.begins, append.events, append.epoch, append.blobs)
            self._refuse_archived(append.stream, decision)
            with self._restored_on_error(append):
                append.version = self._write(append.stream, decision, append.durable)
                for companion in append.also:
                    self._write_companion(append, companion)

    def _write_companion(self, append: Append, companion: Companion) -> None:
        stream = companion.source.stream
        if stream in self._archived or stream in self._deleted:
            return
        try:
            if stream == append.stream:
                raise ValueError("a companion cannot write to its owner's own stream")
            recorded = self._read(companion.source)
            with self._deciding:
                decision = companion.decide(recorded)
        except Exception as error:
            raise companion_failed(append, companion, error) from error
        self._write(stream, decision, append.durable)

    @contextmanager
    def _restored_on_error(self, append: Append) -> Iterator[None]:
        """Restore what the block has written if it raises."""
        if not append.also:
            yield
            return
        names = (append.stream, STORE_STREAM, *(companion.source.stream for companion in append.also))
        touched = {name: deepcopy(self.streams[name]) for name in names if name in self.streams}
        before = {name: touched.get(name, stream) for name, stream in self.streams.items()}
        rest = dict(self.blobs), self._position, self._synced, self._numbers
        try:
            yield
        except BaseException:
            self.streams = before
            self.blobs, self._position, self._synced, self._numbers = rest
            raise

    def append_soon(self, append: Append, done: Callable[[Append], None]) -> None:
        self._deciding.refuse_inside()
        try:
            self.append(append)
        except StoreError as error:
            append.error = error
        done(append)

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
        with self._lock, _shared(fate):
            return self.command_all(
                [Source(stream, after, types)], lambda recorded: [decide(recorded[0])], durable=durable
            )[0]

    def command_all(self, sources: Sequence[Source], decide: DecideAll, *, durable: bool = True) -> list[int]:
        with self._lock:
            return [self._write(*write, durable) for write in self._decided(sources, decide)]

    def _read(self, source: Source) -> list[Recorded]:
        found = self._open(source.stream)
        recorded = found.recorded(source.after) if found else []
        return [one for one in recorded if not source.types or e.type_of(one.event) in source.types]

    def _refuse_archived(self, stream: str, decision: Decision) -> None:
        if decision.events and (deleted := self.deleted(stream)) is not None:
            raise RunDeleted(stream, deleted.operation, final=deleted.final)
        if decision.events and stream in self._archived:
            raise RunArchived(stream, self._archived[stream].file)

    def archive(self, families: Sequence[Sequence[e.StreamArchived]], at: int) -> list[str]:
        with self._lock:
            there = [one for family in families if all(map(self._is_head, family)) for one in family]
            for one in there:
                self._write(STORE_STREAM, Decision("store", [new_event(one, at)]), durable=True)
                self._archived[one.stream] = one
                del self.streams[one.stream]
            return [one.stream for one in there]

    def _is_head(self, one: e.StreamArchived) -> bool:
        stream = self._open(one.stream)
        return stream is not None and (stream.version, stream.hash.hex()) == (one.version, one.hash)

    def archived(self, stream: str) -> str | None:
        with self._lock:
            self._open("")
            record = self._archived.get(stream)
            return None if record is None else record.file

    def delete(
        self,
        heads: Mapping[str, int | None],
        operation: str,
        at: int,
        also: Sequence[Source] = (),
        decide: DecideAll | None = None,
    ) -> bool:
        with self._lock:
            found = [self._open(stream) for stream in heads]
            streams = [one for one in found if one is not None and heads[one.name] in (None, one.version)]
            if len(streams) < len(heads):
                return False
            others = self._decided(also, decide)
            for one in streams:
                record = e.StreamDeleted(one.name, one.kind, one.version, one.hash.hex(), operation)
                self._write(STORE_STREAM, Decision("store", [new_event(record, at)]), durable=True)
                self._deleted[one.name] = _Aside(one, record, at)
                self._deleted_once[one.name] = operation
                del self.streams[one.name]
            self._write_all(others)
            return True

    def restore(
        self,
        streams: Sequence[str],
        operation: str,
        at: int,
        also: Sequence[Source] = (),
        decide: DecideAll | None = None,
    ) -> bool:
        with self._lock:
            self._open("")
            if any(stream not in self._deleted for stream in streams):
                return False
            others = self._decided(also, decide)
            for stream in streams:
                aside = self._deleted.pop(stream)
                record = e.StreamRestored(stream, aside.record.kind, operation)
                self._write(STORE_STREAM, Decision("store", [new_event(record, at)]), durable=True)
                self.streams[stream] = aside.stream
            self.streams = dict(sorted(self.streams.items(), key=lambda item: item[1].place))
            self._write_all(others)
            return True

    def purge(self, streams: Sequence[str], at: int) -> bool:
        with self._lock:
            self._open("")
            if any(stream not in self._deleted for stream in streams):
                return False
            for stream in streams:
                gone = self._deleted.pop(stream).record
                record = e.StreamArchived(stream, gone.version, gone.hash)
                self._write(STORE_STREAM, Decision("store", [new_event(record, at)]), durable=True)
                self._archived[stream] = record
            return True

    def _decided(self, also: Sequence[Source], decide: DecideAll | None) -> list[tuple[str, Decision]]:
        if decide is None:
            return []
        recorded = [self._read(source) for source in also]
        with self._deciding:
            decisions = decide(recorded)
        writes = [(one.stream, decision) for one, decision in zip(also, decisions, strict=True)]
        for stream, decision in writes:
            self._refuse_archived(stream, decision)
        return writes

    def _write_all(self, writes: Sequence[tuple[str, Decision]]) -> None:
        for stream, decision in writes:
            self._write(stream, decision, durable=True)

    def deletions(self) -> list[PendingDeletion]:
        with self._lock:
            self._open("")
            found: dict[tuple[str, int], list[str]] = {}
            for stream, aside in self._deleted.items():
                found.setdefault((aside.record.operation, aside.at), []).append(stream)
            return [PendingDeletion(*key, tuple(streams)) for key, streams in found.items()]

    def deleted(self, stream: str) -> Deleted | None:
        with self._lock:
            self._open("")
            is_final = stream in self._archived and stream in self._deleted_once
            is_gone = is_final or stream in self._deleted
            return Deleted(self._deleted_once[stream], is_final) if is_gone else None

    def sweep(self) -> int:
        with self._lock:
            self._open("")
            streams = [*self.streams.values(), *(aside.stream for aside in self._deleted.values())]
            named = {e.blob_of(one.event) for stream in streams for one in stream.recorded()}
            unnamed = self.blobs.keys() - named
            for hash in unnamed:
                del self.blobs[hash]
            return len(unnamed)

    def _write(self, name: str, decision: Decision, durable: bool) -> int:
        stream = self.streams.get(name)
        if not decision.events:
            return stream.version if stream else 0
        if stream is None:
            log = self.streams.setdefault(STORE_STREAM, Stream(STORE_STREAM, "store"))
            self._extend(log, [new_event(e.StreamCreated(name, decision.kind), decision.events[0].at)])
            stream = self.streams[name] = Stream(name, decision.kind)
            stream.place = log.version
            if is_numbered(name):
                stream.number = self._numbers = self._numbers + 1
        if decision.epoch is not None:
            stream.epoch = decision.epoch
        for hash, data in decision.blobs:
            self.blobs.setdefault(hash, bytes(data))
        self._extend(stream, decision.events)
        if durable:
            self._synced = self._position
        return stream.version

    def _extend(self, stream: Stream, events: Sequence[NewEvent]) -> None:
        for event in events:
            stream.version += 1
            stream.hash = chain(stream.hash, stream.name.encode(), stream.version, *event)
            self._position += 1
            entry = Entry(self._position, stream.name, stream.version, *event, stream.hash)
            stream.log.append(entry)
            if stream.kind == "run":
                stream.state = evolve(
                    stream.state, e.decode(entry.type, entry.payload), entry.version, entry.at
                )

    def _open(self, name: str) -> Stream | None:
        self._deciding.refuse_inside()
        if self._closed:
            raise StoreClosed("the store is closed")
        return self.streams.get(name)

    # Reading

    def load(self, stream: str, *, after: int = 0, output: bool = False) -> list[Recorded]:
        with self._lock:
            found = self._open(stream)
            if found is None:
                return []
            for version in _breaks(found):
                raise StoreCorrupt(f"the history of {stream} does not verify at version {version}")
            return [
                one for one in found.recorded(after) if output or not isinstance(one.event, e.OutputCaptured)
            ]

    def history(self, stream: str, *, after: int = 0, output: bool = False) -> Iterator[Recorded]:
        return iter(self.load(stream, after=after, output=output))

    def entries(self, stream: str, *, after: int = 0, type: str = "") -> Iterator[Entry]:
        with self._lock:
            found = self._open(stream)
            log = found.log if found else []
            return iter([entry for entry in log if entry.version > after and type in ("", entry.type)])

    def blob(self, hash: str) -> bytes:
        with self._lock:
            self._open("")
            if hash not in self.blobs:
                raise StoreCorrupt(f"a large value ({hash[:12]}) is missing from the store")
            return self.blobs[hash]

    def run(self, run_id: str) -> RunRow | None:
        with self._lock:
            found = self._open(run_id)
            return _row(found) if found else None

    def runs(
        self, *, status: Sequence[str] = (), limit: int | None = None, parent: str | None = None
    ) -> list[RunRow]:
        with self._lock:
            self._open("")
            rows = [row for stream in reversed(self.streams.values()) if (row := _row(stream)) is not None]
            return [
                row
                for row in rows
                if (not status or row.status in status) and (parent is None or row.parent == parent)
            ][:limit]

    def find_runs(self, which: RunFilter, limit: int | None = None) -> list[RunRow]:
        return [row for row in self.runs() if _passes(row, which)][:limit]

    def count_runs(self, which: RunFilter) -> int:
        return len(self.find_runs(which))

    def owners_named(self, status: Sequence[str]) -> list[str]:
        return sorted({row.owner for row in self.runs() if row.owner and row.status in status})

    def creations(self, run_ids: Sequence[str]) -> list[tuple[str, e.RunCreated]]:
        with self._lock:
            self._open("")
            firsts = [
                (stream.name, e.decode(stream.log[0].type, stream.log[0].payload))
                for stream in self.streams.values()
                if stream.name in run_ids and stream.state is not None
            ]
            return [(run_id, event) for run_id, event in firsts if isinstance(event, e.RunCreated)]

    def open_gates(self, run_ids: Sequence[str]) -> list[tuple[str, str, str]]:
        with self._lock:
            self._open("")
            return [
                (stream.name, gate.kind, gate.name)
                for stream in self.streams.values()
                if stream.name in run_ids and stream.state is not None
                for gate in sorted(stream.state.open_gates(), key=lambda gate: gate.version)
            ]

    def ready_runs(self, now: int) -> list[tuple[str, str]]:
        with self._lock:
            self._open("")
            return [
                (stream.name, stream.state.parent)
                for stream in self.streams.values()
                if stream.state
                and not stream.state.owner
                and (
                    stream.state.status in ("pending", "running")
                    or any(due <= now for due in _dues(stream.state))
                    or self._waits_in_vain(stream.state)
                )
                and not self._is_stray(stream)
            ]

    def _waits_in_vain(self, state: RunState) -> bool:
        """A child run that it waits for has ended."""
        if state.status not in PARKED:
            return False
        waits_for = (step.child for step in state.steps.values() if step.child and step.status == "running")
        children = (self.streams.get(child) for child in waits_for)
        return any(child is not None and child.state is not None and child.state.ended for child in children)

    def strays(self, run_ids: Sequence[str]) -> list[str]:
        with self._lock:
            self._open("")
            return [
                stream.name
                for stream in self.streams.values()
                if stream.name in run_ids and self._is_stray(stream)
            ]

    def _is_stray(self, stream: Stream) -> bool:
        while stream.state is not None and stream.state.parent:
            child, parent = stream.name, self.streams.get(stream.state.parent)
            if parent is None or parent.state is None:
                return True
            if all(step.child != child for step in parent.state.steps.values()):
                return True
            stream = parent
        return False

    def next_due(self, now: int) -> int:
        with self._lock:
            self._open("")
            states = [
                stream.state
                for stream in self.streams.values()
                if stream.state and not self._is_stray(stream)
            ]
            dues = [due for state in states if not state.owner for due in _dues(state)]
            return min((due for due in dues if due > now), default=0)

    def statistics(self, changed_since: int = 0) -> Statistics:
        with self._lock:
            rows = [row for row in self.runs() if row.updated_at >= changed_since]
            outcomes = [_outcome(row) for row in rows]
            steps = [(row.workflow, step) for row in rows for step in self.steps(row.id)]
            events = sum(stream.version for stream in self.streams.values())
            states = [self.streams[row.id].state for row in rows]
            used = of_measures(one for state in states if state for one in state.measured)
            return Statistics(*of_runs(outcomes), _step_totals(steps), _failing(steps), events, 0, used)

    def run_ids(self, prefix: str, limit: int, *, parent: str | None = None) -> list[str]:
        with self._lock:
            self._open("")
            names = (
                stream.name
                for stream in self.streams.values()
                if stream.kind == "run"
                and (parent is None or (stream.state and stream.state.parent == parent))
            )
            return sorted(name for name in names if name.startswith(prefix))[:limit]

    def numbered(self, number: int) -> str | None:
        with self._lock:
            self._open("")
            log = self.streams[STORE_STREAM].recorded() if STORE_STREAM in self.streams else ()
            made = [one.event.stream for one in log if isinstance(one.event, e.StreamCreated)]
            named = [stream for stream in made if is_numbered(stream)]
            return named[number - 1] if 0 < number <= len(named) else None

    def steps(self, run_id: str) -> list[StepRow]:
        with self._lock:
            found = self._open(run_id)
            return step_rows(found.state) if found and found.state else []

    def operations(
        self, *, prefix: str = "", run: str | None = None, by: str | None = None, limit: int | None = None
    ) -> list[OperationRow]:
        with self._lock:
            self._open("")
            streams = [one for one in reversed(self.streams.values()) if one.kind == operation.KIND]
            rows = [
                _operation_row(stream)
                for stream in streams
                if stream.name.startswith(operation.stream_of(prefix))
            ]
            return [row for row in rows if (run is None or row.run == run) and (by is None or row.by == by)][
                :limit
            ]

    def memories(self, which: MemoryFilter, *, before: int = 0, limit: int | None = None) -> list[Memory]:
        with self._lock:
            found = self._open(MEMORY)
            return oracle_memory.memories(found.recorded() if found else [], which, before, limit)

    def authored_by(self, run_ids: Sequence[str]) -> list[str]:
        with self._lock:
            self._open("")
            return [
                stream.name
                for stream in self.streams.values()
                if stream.kind in ("task", "links")
                and oracle_memory.is_written_by(stream.recorded(), run_ids)
            ]

    def outcomes(self, family: str, kind: str, candidate: str, limit: int) -> list[OutcomeRow]:
        with self._lock:
            self._open("")
            every = [stream.recorded() for stream in self.streams.values()]
            return oracle_learning.outcomes(every, family, kind, candidate, limit)

    def outcome_sums(self, family: str, kind: str | None = None) -> list[OutcomeSums]:
        with self._lock:
            self._open("")
            every = [stream.recorded() for stream in self.streams.values()]
            return oracle_learning.outcome_sums(every, family, kind)

    # Owners

    def put_owner(self, owner: OwnerRow) -> None:
        with self._lock:
            self._open("")
            self._owners[owner.id] = owner

    def owner(self, owner_id: str) -> OwnerRow | None:
        with self._lock:
            self._open("")
            return self._owners.get(owner_id)

    def owners(self) -> list[OwnerRow]:
        with self._lock:
            self._open("")
            return sorted(self._owners.values(), key=lambda owner: (owner.started_at, owner.id))

    def idle_owners(self, limit: int) -> list[OwnerRow]:
        with self._lock:
            named = {row.owner for row in self.runs()}
            return [owner for owner in self.owners() if owner.id not in named][:limit]

    def drop_owner(self, owner_id: str) -> None:
        with self._lock:
            self._open("")
            self._owners.pop(owner_id, None)

    def release_stopped_writer(self, pid: int) -> None:
        pass  # what is stopped with this process is this process

    # The feed

    def feed(self, cursor: str = "", *, limit: int = 1000, types: Sequence[str] = ()) -> FeedPage:
        with self._lock:
            self._open("")
            after = self._after(cursor)
            new = [entry for entry in self._whole_log() if after < entry.position <= self._synced]
            page = [entry for entry in new if not types or entry.type in types][:limit]
            seen = page if len(page) == limit else new
            return FeedPage(page, self._cursor(seen[-1]) if seen else cursor)

    def pulse(self) -> int:
        with self._lock:
            self._open("")
            return self._position

    def events_of(self, types: Sequence[str], *, with_deleted: bool = False) -> list[tuple[str, e.Event]]:
        with self._lock:
            self._open("")
            log = self._whole_log()
            if with_deleted:
                log = heapq.merge(log, *(aside.stream.log for aside in self._deleted.values()))
            found = [entry for entry in log if entry.type in types]
            return [(entry.stream, e.decode(entry.type, entry.payload)) for entry in found]

    def evidence(self, run_id: str = "") -> list[EvidenceRow]:
        types = ("EvidenceWritten", "EvidenceVerified")
        with self._lock:
            self._open("")
            found = [
                entry
                for name, stream in self.streams.items()
                for entry in stream.log
                if entry.type in types and run_id in ("", name)
            ]
            rows = {name: self.run(name) for name in {entry.stream for entry in found}}
            return [
                EvidenceRow(row.id, row.generation, e.decode(one.type, one.payload), one.version, one.at)
                for one in found
                if (row := rows[one.stream]) is not None
            ]

    def tail(self) -> str:
        with self._lock:
            self._open("")
            return next((self._cursor(one) for one in self._whole_log() if one.position == self._synced), "")

    def _whole_log(self) -> Iterator[Entry]:
        return heapq.merge(*(stream.log for stream in self.streams.values()))

    def _cursor(self, entry: Entry) -> str:
        return f"{self.incarnation}.{entry.position}.{entry.hash[:6].hex()}"

    def _after(self, cursor: str) -> int:
        if not cursor:
            return 0
        aside = (entry for one in self._deleted.values() for entry in one.stream.log)
        places = set()
        for entry in (*self._whole_log(), *aside):
            if cursor == self._cursor(entry):
                return entry.position
            places.add(entry.position)
        incarnation, _, place = cursor.partition(".")
        position, _, piece = place.partition(".")
        if incarnation == self.incarnation and any(piece == one.hash[:12] for one in self._archived.values()):
            return int(position)
        is_own = incarnation == self.incarnation and position.isdecimal()
        raise Resync(
            "the cursor is of another history of this store; read the feed from the beginning",
            is_removed=is_own and 0 < int(position) < self._synced and int(position) not in places,
        )

    # Audit

    def verify(self) -> Iterator[Fault]:
        with self._lock:
            self._open("")
            return iter([*self._log_faults(), *self._blob_faults(), *self._state_faults()])

    def _log_faults(self) -> Iterator[Fault]:
        created: set[str] = set()
        for stream in self.streams.values():
            for version in _breaks(stream):
                yield Fault(stream.name, version, "changed, missing, or not what the head says")
        for one in self._intact(STORE_STREAM):
            if isinstance(one.event, e.StreamCreated):
                created.add(one.event.stream)
            elif isinstance(one.event, (e.StreamArchived, e.StreamDeleted)):
                created.discard(one.event.stream)
            elif isinstance(one.event, e.StreamRestored):
                created.add(one.event.stream)
        for name in created.symmetric_difference(self.streams) - {STORE_STREAM}:
            yield Fault(name, 0, "the streams that are there are not those that were created")

    def _blob_faults(self) -> Iterator[Fault]:
        for hash, data in self.blobs.items():
            if hashlib.sha256(data).hexdigest() != hash:
                yield Fault("", 0, f"the large value {hash[:12]} was changed")
        for name in self.streams:
            for one in self._intact(name):
                wanted = e.blob_of(one.event)
                if wanted and wanted not in self.blobs:
                    yield Fault(name, one.version, f"its large value {wanted[:12]} is missing")

    def _intact(self, name: str) -> list[Recorded]:
        """A stream's events, none if it does not verify: what was changed may not decode."""
        stream = self.streams.get(name)
        return [] if stream is None or any(_breaks(stream)) else stream.recorded()

    def _state_faults(self) -> Iterator[Fault]:
        for stream in self.streams.values():
            try:
                right = stream.state == stream.projected()
            except (Impossible, msgspec.DecodeError):
                right = False
            if not right:
                yield Fault(stream.name, 0, "the projection does not match the log")

    def rebuild(self) -> None:
        with self._lock:
            self._open("")
            for stream in self.streams.values():
                stream.state = stream.projected()

    def close(self) -> None:
        self._closed = True


@contextmanager
def _shared(fate: Fate | None) -> Iterator[None]:
    """Nothing more after the first failure of those who share it."""
    if fate is not None and fate.error is not None:
        raise fate.error
    try:
        yield
    except Exception as error:
        if fate is not None:
            fate.error = error
        raise


def _breaks(stream: Stream) -> Iterator[int]:
    """The first version where the chain does not hold, and the end if the head says otherwise."""
    version, hash = 0, GENESIS
    for entry in stream.log:
        version += 1
        hash = chain(hash, stream.name.encode(), version, entry.type, entry.at, entry.payload)
        if (version, hash) != (entry.version, entry.hash):
            yield version
            return
    if (version, hash) != (stream.version, stream.hash):
        yield version + 1


def _passes(row: RunRow, which: RunFilter) -> bool:
    by_status = which.status or which.orphaned
    parked = row.status in ("sleeping", "pending") and not row.owner
    orphaned = row.status in which.orphaned and row.owner not in which.live and (which.parked or not parked)
    return (
        (not by_status or row.status in which.status or orphaned)
        and (which.workflow is None or fnmatchcase(row.workflow, which.workflow.replace("[^", "[!")))
        and (which.parent is None or row.parent == which.parent)
        and (which.changed_since is None or row.updated_at >= which.changed_since)
        and (which.created_before is None or row.created_at < which.created_before)
    )


def _dues(state: RunState) -> list[int]:
    """When the sleeps and gates of a run that waits for them are over."""
    if state.status not in PARKED:
        return []
    return [s.due_at for s in state.steps.values() if s.status in PARKED and s.due_at]


def _operation_row(stream: Stream) -> OperationRow:
    state = operation.fold(stream.recorded())
    assert state is not None
    return OperationRow(
        stream.name.removeprefix(operation.stream_of("")),
        state.kind,
        state.run,
        state.by,
        state.to,
        state.undoes,
        state.left,
        state.opened,
        state.status,
        state.begun_at,
    )


def _outcome(row: RunRow) -> Outcomes:
    took = [row.ended_at - row.created_at] if row.status == "completed" else []
    return Outcomes(row.workflow, row.status, 1, took)


def _step_totals(steps: Sequence[tuple[str, StepRow]]) -> StepTotals:
    by_status: dict[str, int] = {}
    for _, step in steps:
        by_status[step.status] = by_status.get(step.status, 0) + 1
    attempts = sum(step.attempt for _, step in steps)
    return StepTotals(attempts, sum(step.attempt > 1 for _, step in steps), by_status)


def _failing(steps: Sequence[tuple[str, StepRow]]) -> list[FailingStep]:
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for workflow, step in steps:
        lost = step.attempt - (step.status not in ("failed", "retrying", "reopened"))
        if lost:
            n, losses, failed = found.get((workflow, step.name), (0, 0, 0))
            found[workflow, step.name] = n + 1, losses + lost, failed + (step.status == "failed")
    listed = [FailingStep(*of, *counts) for of, counts in found.items()]
    return sorted(listed, key=lambda one: (-one.lost_attempts, one.workflow, one.name))[:MOST_FAILING]


def _row(stream: Stream) -> RunRow | None:
    return run_row(stream.name, stream.epoch, stream.state, stream.number) if stream.state else None


def step_rows(state: RunState) -> list[StepRow]:
    """Steps by the version that last changed them; what is only recorded is no step to a reader."""
    rows = [
        StepRow(
            key=step.key,
            generation=state.generation,
            name=step.name,
            kind=step.kind,
            effect=step.effect,
            status=step.status,
            attempt=step.attempt,
            started_at=step.started_at,
            ended_at=step.ended_at,
            due_at=step.due_at,
            child=step.child,
            version=step.version,
        )
        for step in state.steps.values()
        if step.kind not in ("value", "emit", "patch", "stage", "outcome")
    ]
    return sorted(rows, key=lambda row: row.version)
