"""An operation: something done from outside to a run, a task or the memory that can be undone, as its own
stream records it.

It begins, it is applied stage by stage, and it is done. One that is only begun was cut off: its stages
say what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from holdfast.errors import Refused
from holdfast.kernel import events as e

KIND: Final = "operation"
"""The kind of its stream."""
_PREFIX: Final = "@op/"

KINDS: Final = frozenset({"rewind", "undo", "restore", "edit", "delete"})
"""The kinds that this version can begin, finish and undo; an operation of another kind can only be read."""

OperationStatus = Literal["begun", "done", "dropped"]


class OperationState(msgspec.Struct):
    kind: str
    run: str
    by: str
    to: str
    undoes: str
    begun_at: int
    status: OperationStatus = "begun"
    left: int = -1
    """The generation that was live before, and (`opened`) after; -1 if the state was not moved."""
    opened: int = -1
    planned: e.FilesPlanned | None = None
    applied: e.FilesApplied | None = None
    git_planned: e.GitPlanned | None = None
    git_applied: e.GitApplied | None = None
    deleted: e.ItemsDeleted | None = None
    """The items that a deletion, or the undo of an undo of one, has deleted."""
    restored: str = ""
    """The deletion whose runs and tasks an undo has brought back."""
    memory: e.MemoryApplied | None = None
    """Its effects on the memory, on tasks and on their links; None if there are none."""
    tasks: e.TasksApplied | None = None
    links: e.LinksApplied | None = None


_KEPT: Final[dict[type[e.Event], str]] = {
    e.FilesPlanned: "planned",
    e.FilesApplied: "applied",
    e.GitPlanned: "git_planned",
    e.GitApplied: "git_applied",
    e.ItemsDeleted: "deleted",
    e.MemoryApplied: "memory",
    e.TasksApplied: "tasks",
    e.LinksApplied: "links",
}
"""Stages that the state has as they are → where."""


def stream_of(operation: str) -> str:
    """The stream of an operation; no run can have this id."""
    return _PREFIX + operation


def begin(kind: str, run: str, by: str = "", to: str = "", undoes: str = "") -> e.OperationBegun:
    """Decide to begin an operation. Raises `Refused` for a kind that this version does not know."""
    if kind not in KINDS:
        raise Refused(f"{kind!r} is no kind of operation; there are {', '.join(sorted(KINDS))}")
    return e.OperationBegun(kind, run, by, to, undoes)


def edit(by: str, to: str, stage: e.Event) -> list[e.Event]:
    """Decide to record what a person did to a task or to the memory, for `undo`: the whole operation, which
    is done in the transaction that does it."""
    return [begin("edit", "", by, to), stage, e.OperationDone()]


def refuse_unknown(operation: str, kind: str) -> None:
    """Raise `Refused` unless this version knows what an operation of that kind has done, or has to do."""
    if kind not in KINDS:
        raise Refused(
            f"operation {operation} is a {kind!r}, which only a newer holdfast knows; upgrade holdfast, then "
            "try again"
        )


def fold(recorded: Iterable[tuple[e.Event, int, int]]) -> OperationState | None:
    state = None
    for event, _, at in recorded:
        state = evolve(state, event, at)
    return state


def evolve(state: OperationState | None, event: e.Event, at: int) -> OperationState | None:
    """The state after `event`; one of a type that is not known leaves it as it is."""
    if isinstance(event, e.OperationBegun):
        return OperationState(event.kind, event.run, event.by, event.to, event.undoes, at)
    if state is not None:
        if type(event) in _KEPT:
            setattr(state, _KEPT[type(event)], event)
        elif isinstance(event, e.StateApplied):
            state.left, state.opened = event.left, event.opened
        elif isinstance(event, e.ItemsRestored):
            state.restored = event.deletion
        elif isinstance(event, e.OperationDone):
            state.status = "done"
        elif isinstance(event, e.OperationDropped):
            state.status = "dropped"
    return state
