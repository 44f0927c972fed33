"""The store port: all that the engine knows of a store.

**Invariants.** A stream's events have the versions 1, 2, 3, ... without gaps, each chained to the
one before by SHA-256. What a submission appends becomes visible and durable as a whole or not at
all, together with its projections. An acknowledged submission is durable. A refused one changes
nothing and does not touch the others in its batch. Every implementation passes
`holdfast.testing.StoreContract`.

Two kinds of append. The **owner's** (`Append` with an epoch): refused with `OwnershipLost` when
another owner has claimed the run since. A **foreign** one (`command`): no epoch; what to append is
decided inside the write transaction, on the events that are there at that moment.

An owner's append can carry **companions** (`Append.also`): foreign decisions on other streams that are
committed with it or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from holdfast.errors import Resync as Resync
from holdfast.errors import StoreError
from holdfast.kernel import events as e
from holdfast.store.budget_port import BudgetStore
from holdfast.store.learning_port import LearningStore
from holdfast.store.tracker_port import TrackerStore

if TYPE_CHECKING:
    from holdfast.kernel.memory import Memory
    from holdfast.store.statistics import Statistics

STORE_STREAM = "@store"
"""The stream that records every stream's creation; no run can have this id."""
GENESIS = b"\0" * 32


class Recorded(NamedTuple):
    """An event as the log has it."""

    event: e.Event
    version: int
    at: int


class Entry(NamedTuple):
    """An event with its place in the whole log, as feed and audit show it."""

    position: int
    stream: str
    version: int
    type: str
    at: int
    payload: str
    hash: bytes


class NewEvent(NamedTuple):
    """An event on its way into the log, encoded by its submitter, outside every lock."""

    type: str
    at: int
    payload: str


def new_event(event: e.Event, at: int) -> NewEvent:
    # On the path of every step: a NamedTuple's own constructor is a Python function.
    return tuple.__new__(NewEvent, (e.type_of(event), at, e.encode(event)))


class Fate:
    """The fate that the submissions of one execution share: once one was refused or lost, no later one is
    written. A value recorded with the lost one would be missing, and the replay would see another value than
    the steps that were recorded after it."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BaseException | None = None


class Companion(NamedTuple):
    """A decision on another stream that is committed with an owner's append, or not at all.

    `decide` gets the events of `source` as they are inside the transaction: also those of earlier companions
    and of earlier submissions in the same batch. It runs once, under the write lock, in whichever thread
    commits; it must not call the store.

    A companion must not refuse. If `decide` raises, the append fails with a `StoreError` that names the
    companion's stream, nothing is written, and the run is lost as by any failed append. Whatever can be
    refused (a reservation) belongs in a command of its own before the append.

    If its stream is archived, the companion is skipped and `decide` is not called: the owner's result must
    not be lost because a stream beside it was archived. Its stream must not be the owner's own."""

    source: Source
    decide: Decide


class Append:
    """The owner's submission. `durable=False` commits without waiting for the disk: it survives a
    kill, and the next durable commit of anybody makes it survive a power cut too."""

    __slots__ = (
        "also",
        "begins",
        "blobs",
        "durable",
        "epoch",
        "error",
        "events",
        "fate",
        "seal",
        "stream",
        "version",
        "wake",
    )

    def __init__(
        self,
        stream: str,
        epoch: int,
        events: Sequence[NewEvent],
        *,
        durable: bool = True,
        blobs: Sequence[tuple[str, bytes]] = (),
        seal: Callable[[Append], None] | None = None,
        fate: Fate | None = None,
        begins: str = "",
        also: Sequence[Companion] = (),
    ) -> None:
        self.stream = stream
        self.epoch = epoch
        self.begins = begins
        """The kind of the stream, if this append makes it, with its epoch; refused if it is there."""
        self.events = events
        self.durable = durable
        self.blobs = blobs
        self.fate = fate
        self.also = also
        """Companions, decided in this order after the append's own events are written. A stale owner's
        append is refused together with them."""
        self.seal = seal
        """Called once with this append as it takes its place in the queue, under the queue's lock, to
        add or drop what rides along: whatever two appends of a run contend for is decided there. If it
        leaves no events and no companions, the append is acknowledged and writes nothing, whichever owner has
        the run. Companions without events are committed if the epoch is still the owner's."""
        self.version = 0
        """After the acknowledgement: the version of the last event."""
        self.error: BaseException | None = None
        self.wake: Any = None


Decide = Callable[[Sequence[Recorded]], "Decision"]
"""Decides on the events of one stream what is appended to it. Every `decide` runs at most once for each
command or companion, inside the write transaction, in whichever thread commits. It changes nothing that must
outlive a refusal, and does not call the store, which raises `StoreError` if it does. A caller that must look
at something else (is the owner alive?) looks before the command; if `decide` finds that the stream has
changed since, it writes nothing, and the caller looks again and submits a new command."""
DecideAll = Callable[[Sequence[Sequence[Recorded]]], "Sequence[Decision]"]


class Decision(NamedTuple):
    """The events that a foreign command appends. `kind` is the kind of the stream if they create it; `epoch`
    raises the stream's fence (a claim does). Without events nothing is written."""

    kind: str
    events: Sequence[NewEvent] = ()
    epoch: int | None = None
    blobs: Sequence[tuple[str, bytes]] = ()


NO_EVENTS: Final = Decision("")
"""The decision to write nothing."""


END: Final = 1 << 62
"""A version behind every event: of a command that need not read what is there."""


class Source(NamedTuple):
    """The input of a command: a stream's events after a version, of these types if any are named."""

    stream: str
    after: int = 0
    types: Sequence[str] = ()


class RunRow(msgspec.Struct, frozen=True):
    """A run as `list` shows it."""

    id: str
    workflow: str
    status: str
    reason: str
    cause: str
    attention_step: str
    owner: str
    epoch: int
    generation: int
    parent: str
    created_at: int
    updated_at: int
    version: int
    ended_at: int = 0
    """When it completed, failed or was cancelled; 0 if it has not ended."""
    stage: str = ""
    """The last one that its code has entered; empty if none."""
    number: int = 0
    """Its short number: its place among all runs and tasks, in the order of their creation."""


class RunFilter(msgspec.Struct, frozen=True):
    """Which runs. What is left as it is lets all through.

    status    any of these; and those of `orphaned` whose owner is none of `live`. `parked=False` leaves
              out runs that have no owner because they are parked
    workflow  a pattern with `*`, `?` and `[...]`; case counts
    parent    the children of that run; empty: runs that are no children
    changed_since, created_before  microseconds
    """

    status: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    parked: bool = True
    workflow: str | None = None
    parent: str | None = None
    changed_since: int | None = None
    created_before: int | None = None


class StepRow(msgspec.Struct, frozen=True):
    """A step as `show` lists it; `version` is that of the event that last changed it."""

    key: str
    generation: int
    name: str
    kind: str
    effect: str
    status: str
    attempt: int
    started_at: int
    ended_at: int
    due_at: int
    child: str
    version: int


class OperationRow(msgspec.Struct, frozen=True):
    """An operation as `op log` shows it; `left` and `opened` are generations, -1 if none was moved."""

    id: str
    kind: str
    run: str
    by: str
    to: str
    undoes: str
    left: int
    opened: int
    status: str
    begun_at: int


class EvidenceRow(NamedTuple):
    """An event of evidence, and the live generation of its run, which may be another one than the event's."""

    run: str
    live: int
    event: e.Event
    version: int
    at: int


class MemoryFilter(msgspec.Struct, frozen=True):
    """Which memories: by the beginning of the id, the run that recorded them, kind and scope; `every` also
    lets through those that are superseded or withdrawn."""

    prefix: str = ""
    run: str | None = None
    kind: str | None = None
    scope: str | None = None
    every: bool = False

    def lets_through(self, memory: Memory) -> bool:
        return (
            memory.id.startswith(self.prefix)
            and self.run in (None, memory.author.run)
            and self.kind in (None, memory.kind)
            and self.scope in (None, memory.scope)
            and (self.every or memory.status == "current")
        )


class OwnerRow(msgspec.Struct, frozen=True):
    """Who executes runs: one open Holdfast. It lives as long as its lock is held."""

    id: str
    host: str
    boot: str
    pid: int
    started_at: int


class Deleted(NamedTuple):
    """That a stream was deleted, and by which operation. `final`: its events are removed."""

    operation: str
    final: bool


class PendingDeletion(NamedTuple):
    """The streams that an operation has deleted, and when."""

    operation: str
    at: int
    streams: tuple[str, ...]


class Fault(msgspec.Struct, frozen=True):
    """A place where the log does not verify."""

    stream: str
    version: int
    what: str

    @property
    def place(self) -> str:
        """Where it is, in words."""
        if not self.stream:
            return "the database"
        return f"{self.stream} version {self.version}" if self.version else self.stream


class FeedPage(NamedTuple):
    entries: Sequence[Entry]
    cursor: str


def is_numbered(stream: str) -> bool:
    """Whether a stream is a run's or a task's, by its name: these have short numbers."""
    return not stream.startswith("@") or stream.startswith("@task/")


def companion_failed(append: Append, companion: Companion, error: Exception) -> StoreError:
    """The error of an append whose companion raised."""
    return StoreError(
        f"nothing was written to {append.stream}: its companion on {companion.source.stream} raised "
        f"{type(error).__name__}: {error}; fix the code of the companion, then resume"
    )


class Store(BudgetStore, TrackerStore, LearningStore, Protocol):
    """See the module's docstring for what every store promises."""

    def append(self, append: Append) -> None:
        """Append and wait for the acknowledgement. Raises `OwnershipLost`, `StoreError`."""
        ...

    def append_soon(self, append: Append, done: Callable[[Append], None]) -> None:
        """The same without waiting: `done(append)` is called later from a thread of the store,
        with `append.error` set if it was refused."""
        ...

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
        """Append what `decide(events after version `after`)` says, of these types if any are named,
        read and written in one transaction; the stream is created by its first event. Returns the
        stream's version. What `decide` raises is raised here, and nothing is written.

        `decide` sees what others write in the same transaction: nothing of it has happened before this
        returns. An owner's command shares the `fate` of its appends."""
        ...

    def command_all(self, sources: Sequence[Source], decide: DecideAll, *, durable: bool = True) -> list[int]:
        """The same over several streams: `decide` gets the events of each and says for each what is
        appended, all of it in one transaction. Returns the version of each."""
        ...

    def archive(self, families: Sequence[Sequence[e.StreamArchived]], at: int) -> list[str]:
        """Remove these streams with their rows, leaving the event of each in the store's own stream, in one
        transaction. A family of which one has another head by now stays whole. Returns the names of those
        that are gone: they read as if they had never been, and begin no more (`RunArchived`)."""
        ...

    def archived(self, stream: str) -> str | None:
        """The name of the file that a stream was archived in; None if it was not."""
        ...

    def delete(
        self,
        heads: Mapping[str, int | None],
        operation: str,
        at: int,
        also: Sequence[Source] = (),
        decide: DecideAll | None = None,
    ) -> bool:
        """Set these streams aside with their rows, leaving the record of each in the store's own stream, in
        one transaction with what `decide` appends to the streams of `also`. `heads` has the version of each,
        None for whatever it is. False, and nothing is written, if a stream has another version by now. They
        read as if they had never been, and begin no more (`RunDeleted`). Their blobs are kept."""
        ...

    def restore(
        self,
        streams: Sequence[str],
        operation: str,
        at: int,
        also: Sequence[Source] = (),
        decide: DecideAll | None = None,
    ) -> bool:
        """The inverse of `delete`: the streams are as they were, with their rows, their numbers and their
        places in the log. False, and nothing is written, if one of them is not deleted (any more)."""
        ...

    def purge(self, streams: Sequence[str], at: int) -> bool:
        """Make the deletion of these streams final, in one transaction: their events are removed. False, and
        nothing is written, if one of them is not deleted (any more)."""
        ...

    def deletions(self) -> list[PendingDeletion]:
        """The deletions that can still be undone, the oldest first."""
        ...

    def deleted(self, stream: str) -> Deleted | None:
        """By which operation a stream was deleted; None if it was not, or is restored."""
        ...

    def sweep(self) -> int:
        """Remove the blobs that no event names; how many they were. Others are not kept waiting."""
        ...

    def load(self, stream: str, *, after: int = 0, output: bool = False) -> list[Recorded]:
        """A stream's events in order, in one query; captured output only if asked for. Raises
        `StoreCorrupt` where the chain does not hold."""
        ...

    def history(self, stream: str, *, after: int = 0, output: bool = False) -> Iterator[Recorded]:
        """The same one by one, for a fold that keeps none of them: a long run's events are many."""
        ...

    def entries(self, stream: str, *, after: int = 0, type: str = "") -> Iterator[Entry]:
        """A stream's events as they are stored, of one type if it is named."""
        ...

    def blob(self, hash: str) -> bytes: ...

    def run(self, run_id: str) -> RunRow | None: ...

    def runs(
        self,
        *,
        status: Sequence[str] = (),
        limit: int | None = None,
        parent: str | None = None,
    ) -> list[RunRow]:
        """Runs, the newest first."""
        ...

    def find_runs(self, which: RunFilter, limit: int | None = None) -> list[RunRow]:
        """The runs that the filter lets through, the newest first. What it costs to find those that have
        not ended for good does not grow with those that have."""
        ...

    def count_runs(self, which: RunFilter) -> int:
        """How many `find_runs` finds without a limit."""
        ...

    def owners_named(self, status: Sequence[str]) -> list[str]:
        """The ids of the owners that runs of these statuses name, in order, each once."""
        ...

    def creations(self, run_ids: Sequence[str]) -> list[tuple[str, e.RunCreated]]:
        """(run, its first event) of each of these runs, the oldest first."""
        ...

    def open_gates(self, run_ids: Sequence[str]) -> list[tuple[str, str, str]]:
        """(run, `approval` or `signal`, name) of every open gate of these runs: the oldest run first, and
        its gates in the order in which they were opened."""
        ...

    def strays(self, run_ids: Sequence[str]) -> list[str]:
        """Those of these runs, the oldest first, that are children of a generation that was left, to any
        depth: no step of their parent's live generation is this run. Nothing waits for them, unless that
        generation is restored."""
        ...

    def ready_runs(self, now: int) -> list[tuple[str, str]]:
        """Runs that can continue and that no process owns, the oldest first, each with its parent: nothing
        holds them up, the end of a sleep or a gate of theirs has come, or a child run that they wait for
        has ended. Strays are not among them. What it costs does not grow with those that wait, but for
        those that wait for child runs."""
        ...

    def next_due(self, now: int) -> int:
        """The first end, after now, of a sleep or a gate of a run that has no owner and is no stray; 0 if
        there is none."""
        ...

    def statistics(self, changed_since: int = 0) -> Statistics:
        """Statistics of the runs that changed since then."""
        ...

    def run_ids(self, prefix: str, limit: int, *, parent: str | None = None) -> list[str]:
        """Ids with that beginning, in order; of the children of that run, or (empty) of no children."""
        ...

    def numbered(self, number: int) -> str | None:
        """The name of the stream of the run or the task with that short number, also if it is archived or
        deleted; None if there is none."""
        ...

    def steps(self, run_id: str) -> list[StepRow]: ...

    def operations(
        self, *, prefix: str = "", run: str | None = None, by: str | None = None, limit: int | None = None
    ) -> list[OperationRow]:
        """Operations, the newest first; with that beginning of their id, of that run, by that person."""
        ...

    def memories(self, which: MemoryFilter, *, before: int = 0, limit: int | None = None) -> list[Memory]:
        """Memories, the newest first; with `before`, those recorded before that version of their stream."""
        ...

    def authored_by(self, run_ids: Sequence[str]) -> list[str]:
        """The streams of tasks, and of links, that these runs have written to, in the order of their
        creation."""
        ...

    def put_owner(self, owner: OwnerRow) -> None: ...

    def owner(self, owner_id: str) -> OwnerRow | None: ...

    def owners(self) -> list[OwnerRow]: ...

    def idle_owners(self, limit: int) -> list[OwnerRow]:
        """Owners, alive or dead, that no run names; the oldest first."""
        ...

    def drop_owner(self, owner_id: str) -> None: ...

    def release_stopped_writer(self, pid: int) -> None:
        """Before a run is taken from a stopped process: if that one was stopped in the middle of a write, and
        so keeps everybody from writing, let it end the write, as if the stop had come a moment later."""
        ...

    def feed(self, cursor: str = "", *, limit: int = 1000, types: Sequence[str] = ()) -> FeedPage:
        """The events durably appended after `cursor` (opaque; empty: from the beginning), of these types
        if any are named. Raises `Resync` when the cursor does not belong to this store's history, or is
        inside a stream that was archived."""
        ...

    def events_of(self, types: Sequence[str], *, with_deleted: bool = False) -> list[tuple[str, e.Event]]:
        """(stream, event) of every event of these types in the log, of whatever stream, synced or not; also
        of streams whose deletion is not final."""
        ...

    def evidence(self, run_id: str = "") -> list[EvidenceRow]:
        """Every `EvidenceWritten` and `EvidenceVerified`, of whatever generation: the oldest run first, and
        its events in order. Of one run, if it is named. What it costs does not grow with the rest of the
        log."""
        ...

    def pulse(self) -> int:
        """Another number after every commit, of whatever process. Costs next to nothing."""
        ...

    def tail(self) -> str:
        """The cursor of now: a feed from here has only what is still to come."""
        ...

    def verify(self) -> Iterator[Fault]:
        """Every place where the log, its chain, its heads or its projections do not hold."""
        ...

    def rebuild(self) -> None:
        """Make all projections again from the log, in one transaction."""
        ...

    def close(self) -> None: ...


def chain(previous: bytes, stream: bytes, version: int, type: str, at: int, payload: str) -> bytes:
    """The hash of an event: over the hash before it and everything that the log says of it."""
    return hashlib.sha256(
        b"%b%b\0%d\0%b\0%d\0%b" % (previous, stream, version, type.encode(), at, payload.encode())
    ).digest()
