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

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import Resync
from holdfast.kernel import events as e
from holdfast.store.budget_port import BudgetStore
from holdfast.store.learning_port import LearningStore
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
from holdfast.store.streams import GENESIS, STORE_STREAM, chain, is_numbered
from holdfast.store.submission import (
    END,
    NO_EVENTS,
    Append,
    Companion,
    Decide,
    DecideAll,
    Decision,
    Fate,
    NewEvent,
    Recorded,
    Source,
    companion_failed,
    new_event,
)
from holdfast.store.tracker_port import TrackerStore

if TYPE_CHECKING:
    from holdfast.kernel.memory import Memory
    from holdfast.store.statistics import Statistics


__all__ = [
    "END", "GENESIS", "NO_EVENTS", "STORE_STREAM", "Append", "Companion", "Decide", "DecideAll",
    "Decision", "Deleted", "Entry", "EvidenceRow", "Fate", "Fault", "FeedPage", "MemoryFilter",
    "NewEvent", "OperationRow", "OwnerRow", "PendingDeletion", "Recorded", "Resync", "RunFilter",
    "RunRow", "Source", "StepRow", "Store", "chain", "companion_failed", "is_numbered", "new_event",
]  # fmt: skip


class Store(BudgetStore, TrackerStore, LearningStore, Protocol):
    """See the module's docstring for what every store promises. `incarnation` tells one life of it from those
    before a restore or a repair."""

    incarnation: str

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
        inside a stream that was archived or finally deleted (`is_removed`)."""
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
