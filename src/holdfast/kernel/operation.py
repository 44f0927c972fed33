"""An operation: something done to a run from outside that can be taken back, as its own stream tells it.

It begins, it is applied stage by stage, and it is done. What is only begun was cut off: whoever finds it
knows by its stages what is left to do.
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

KINDS: Final = frozenset({"rewind", "undo", "restore"})
"""What this version can begin, finish and undo; an operation of another kind can only be read."""

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


def stream_of(operation: str) -> str:
    """The stream of an operation; no run can have this id."""
    return _PREFIX + operation


def begin(kind: str, run: str, by: str = "", to: str = "", undoes: str = "") -> e.OperationBegun:
    """Decide to begin an operation. Raises `Refused` for a kind that this version does not know."""
    if kind not in KINDS:
        raise Refused(f"{kind!r} is no kind of operation; there are {', '.join(sorted(KINDS))}")
    return e.OperationBegun(kind, run, by, to, undoes)


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
        if isinstance(event, e.FilesPlanned):
            state.planned = event
        elif isinstance(event, e.FilesApplied):
            state.applied = event
        elif isinstance(event, e.GitPlanned):
            state.git_planned = event
        elif isinstance(event, e.GitApplied):
            state.git_applied = event
        elif isinstance(event, e.StateApplied):
            state.left, state.opened = event.left, event.opened
        elif isinstance(event, e.OperationDone):
            state.status = "done"
        elif isinstance(event, e.OperationDropped):
            state.status = "dropped"
    return state
