"""A person's change of a task or a link is an operation, too, in the same commit: `holdfast undo` undoes it.

Claims are not among them: they end by themselves, and `release` ends one. Nor are notes, which stay. A rewind
undoes what a run does.
"""

from __future__ import annotations

from typing import Final

from holdfast.clock import Clock
from holdfast.kernel import events as e
from holdfast.kernel import operation
from holdfast.kernel import task as tasks
from holdfast.kernel.author import NOBODY, Author
from holdfast.store.port import NO_EVENTS, Decision, Source, new_event

_EDITS: Final = (
    tasks.TaskCreated,
    tasks.TaskEdited,
    tasks.TaskCompleted,
    tasks.TaskFailed,
    tasks.TaskBlocked,
    tasks.TaskReopened,
    tasks.TaskArchived,
)


def edit_source(clock: Clock) -> Source:
    """The stream of a new operation."""
    return Source(operation.stream_of(clock.uuid().hex[:12]))


def edit_decision(task: str, event: e.Event | None, before: int, at: int) -> Decision:
    """The whole operation, for the stream of `edit_source`; nothing if the event is none that a person
    undoes. `before` is the version of the task before it."""
    author: Author = getattr(event, "author", NOBODY)
    if not isinstance(event, _EDITS) or author.run:
        return NO_EVENTS
    moved = e.TasksApplied((e.TaskMove(task, before + 1, before),))
    events = operation.edit(author.by, f"task {task}", moved)
    return Decision(operation.KIND, [new_event(one, at) for one in events])


def link_decision(task: str, links: e.LinksApplied, author: Author, at: int) -> Decision:
    """The whole operation that added or removed links of a task; nothing if a run is the author."""
    if author.run:
        return NO_EVENTS
    events = operation.edit(author.by, f"task {task}", links)
    return Decision(operation.KIND, [new_event(one, at) for one in events])
