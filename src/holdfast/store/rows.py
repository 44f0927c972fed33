"""The answers of a store: rows of its tables, filters for them, and entries of its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.kernel import events as e

if TYPE_CHECKING:
    from holdfast.kernel.memory import Memory


class Entry(NamedTuple):
    """An event with its place in the whole log, as feed and audit show it."""

    position: int
    stream: str
    version: int
    type: str
    at: int
    payload: str
    hash: bytes


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
    """An owner of runs: one open Holdfast. It is alive as long as its lock is held."""

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
