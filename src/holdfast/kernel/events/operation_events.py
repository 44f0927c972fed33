"""Events of an operation: a rewind, undo, fork or deletion, from its plan to its end."""

from __future__ import annotations

import msgspec

from holdfast.kernel.events.event import Event, GitPosition


class OperationBegun(Event, frozen=True, gc=False):
    """An operation that can be undone: it goes back to the step `to`, or undoes the operation `undoes`.

    `kind` is any text: a kind that only a newer holdfast knows can be read and listed. `operation.begin` and
    `operation.refuse_unknown` are where kinds are checked."""

    kind: str
    run: str
    by: str = ""
    to: str = ""
    undoes: str = ""


class FilesPlanned(Event, frozen=True, gc=False):
    """The files beneath `root` go back to `to` in what was done until `left`; they are saved as `now`.
    `version` is the run's when that was planned; `point` is `to` without what others did since. With
    `died` the run's history does not have `left`: its owner died before it could record it. What matches
    `keep` stays."""

    root: str
    to: str
    left: str
    now: str
    version: int
    only: tuple[str, ...] = ()
    theirs: bool = False
    partial: bool = False
    point: str = ""
    died: bool = False
    mark: str = ""
    """Which directory the root is, wherever it is moved."""
    keep: tuple[str, ...] = ()


class FilesApplied(Event, frozen=True, gc=False):
    """The files were moved: they were `before` and are `after`. `rescued` is what others wrote then."""

    root: str
    before: str
    after: str
    rescued: str = ""
    mark: str = ""
    """Which directory the root is, wherever it is moved."""


class GitPlanned(Event, frozen=True, gc=False):
    """The repository of `root` goes back to `to` in what was done until `left`; it stands at `now`."""

    root: str
    to: GitPosition
    now: GitPosition
    left: GitPosition | None = None


class GitApplied(Event, frozen=True, gc=False):
    """The repository was moved: it stood at `before` and stands at `after`."""

    root: str
    before: GitPosition
    after: GitPosition


class StateApplied(Event, frozen=True, gc=False):
    """The run's state was moved, in this same transaction: its live generation was `left` and is `opened`."""

    left: int
    opened: int


class DeletedItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run or a task that was deleted, without any of its contents. `events` is how many it had, and
    `parent` the run that it is a child of."""

    kind: str
    id: str
    title: str = ""
    number: int = 0
    events: int = 0
    parent: str = ""


class ItemsDeleted(Event, frozen=True, gc=False):
    """These runs and tasks were deleted in this same transaction. `streams` are all streams that were set
    aside with them: their own, and those of earlier operations on them."""

    items: tuple[DeletedItem, ...]
    streams: tuple[str, ...]


class ItemsRestored(Event, frozen=True, gc=False):
    """The items that the operation `deletion` had deleted are restored in this same transaction."""

    deletion: str


class OperationDone(Event, frozen=True, gc=False):
    """Nothing of it is left to do."""


class OperationDropped(Event, frozen=True, gc=False):
    """It could not be done, and nothing of it is left."""

    reason: str = ""


class TaskMove(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A task was changed: its stream was at the version `before` and is at `after`; 0 before its creation."""

    id: str
    after: int
    before: int = 0


class TasksApplied(Event, frozen=True, gc=False):
    """These tasks were changed, in this same transaction."""

    moves: tuple[TaskMove, ...] = ()


class LinkMove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A link from `task` to `on`."""

    task: str
    on: str
    kind: str = "blocks"


class LinksApplied(Event, frozen=True, gc=False):
    """These links of tasks were added and removed, in this same transaction."""

    added: tuple[LinkMove, ...] = ()
    removed: tuple[LinkMove, ...] = ()


class MemoryApplied(Event, frozen=True, gc=False):
    """These memories were withdrawn and restored, in this same transaction. A new memory is one of the
    restored."""

    withdrawn: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
