"""A task: a piece of work that people and agents track together, folded from its stream.

**The row at a version.** `fold(recorded up to that version)` is the task as it was then; `at_version` does
that for a whole history. A `TaskReverted` carries the whole row: `restored` gives it for a rewind,
`without` for the undo of one change. `TaskState.last` is the author of the last event, by which a rewind
knows whether another has changed the task since.

What may happen to a task in which state is in `task_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, get_args

import msgspec

from holdfast.errors import BadInput
from holdfast.kernel.author import NOBODY, Author
from holdfast.kernel.events import Event

KIND: Final = "task"
"""The kind of its stream."""
PREFIX: Final = "@task/"

TaskStatus = Literal["pending", "in_progress", "completed", "failed"]
STATUSES: Final = get_args(TaskStatus)
OPEN: Final = ("pending", "in_progress")
ENDED: Final = ("completed", "failed")
"""Nothing happens to it until it is reopened."""


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process that has a claim: with its death the claim is free. A pid is used again; with its start
    time (in ticks since the boot) and the boot's id it is one process."""

    pid: int
    started: int = 0
    boot: str = ""


class ClaimState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who works on a task. `number` counts the claims of the task: whatever a holder does names it, and is
    refused once there is a later claim. `until` is when the lease ends; 0 for the claim of a run, which
    lasts as long as the run."""

    number: int
    actor: str = ""
    session: str = ""
    run: str = ""
    until: int = 0
    holder: Holder | None = None
    at: int = 0


class TaskFields(msgspec.Struct, frozen=True):
    """Everything of a task that a reversal restores: its row.

    priority           0 is the most urgent, 4 the least
    due                microseconds; 0 if there is no date
    checks             commands that must succeed before it counts as completed
    blocked            why it cannot be worked on now; empty if it can
    unchecked          why its checks were left out when it was completed
    started_at         its first claim since it was created or reopened
    ended_at           when it was completed or failed; 0 if it was not
    """

    name: str
    body: str = ""
    status: TaskStatus = "pending"
    priority: int = 2
    labels: tuple[str, ...] = ()
    assignee: str = ""
    due: int = 0
    checks: tuple[str, ...] = ()
    meta: dict[str, Any] = {}
    blocked: str = ""
    summary: str = ""
    evidence: Any = None
    error: str = ""
    unchecked: str = ""
    archived: bool = False
    started_at: int = 0
    ended_at: int = 0
    claim: ClaimState | None = None


ANYWAY: Final = "anyway"
"""The kind of the note by which a task shows that it was completed although it needed what was open."""


class Note(msgspec.Struct, frozen=True):
    """Something that was written down on the way."""

    kind: str
    text: str
    author: Author
    at: int
    version: int


class TaskCreated(Event, frozen=True, gc=False):
    """A task is there. Its links are events of `@links`, in the same commit."""

    name: str
    body: str = ""
    priority: int = 2
    labels: tuple[str, ...] = ()
    assignee: str = ""
    due: int = 0
    checks: tuple[str, ...] = ()
    meta: dict[str, Any] = {}  # noqa: RUF012 of a struct: each gets its own
    author: Author = NOBODY


class TaskEdited(Event, frozen=True, gc=False):
    """Fields were changed: the new values by name, and what they were."""

    changes: dict[str, Any]
    was: dict[str, Any] = {}  # noqa: RUF012 of a struct: each gets its own
    author: Author = NOBODY


class TaskClaimed(Event, frozen=True, gc=False):
    """It is claimed: by an actor until a time, a process until its death, or a run until its end. The
    number fences off every claim before."""

    number: int
    actor: str = ""
    session: str = ""
    run: str = ""
    until: int = 0
    holder: Holder | None = None
    author: Author = NOBODY


class ClaimRenewed(Event, frozen=True, gc=False):
    """The lease of a claim ends later."""

    number: int
    until: int
    author: Author = NOBODY


class ClaimReleased(Event, frozen=True, gc=False):
    """Its claim has ended: it is pending again."""

    number: int
    reason: str = ""
    author: Author = NOBODY


class TaskCompleted(Event, frozen=True, gc=False):
    """It is done. `number` is that of the claim, 0 if it was completed without one; `checked` are the
    commands that succeeded, `unchecked` is why they were left out. `anyway` is why it counts as done although
    the tasks `needed` were open."""

    number: int = 0
    summary: str = ""
    evidence: Any = None
    checked: tuple[str, ...] = ()
    unchecked: str = ""
    anyway: str = ""
    needed: tuple[str, ...] = ()
    author: Author = NOBODY


class TaskFailed(Event, frozen=True, gc=False):
    """It was given up."""

    number: int = 0
    why: str = ""
    author: Author = NOBODY


class TaskBlocked(Event, frozen=True, gc=False):
    """It cannot be worked on; without a reason, it can be again."""

    reason: str = ""
    author: Author = NOBODY


class TaskReopened(Event, frozen=True, gc=False):
    """It was completed, failed or archived, and is pending again."""

    reason: str = ""
    author: Author = NOBODY


class TaskNoted(Event, frozen=True, gc=False):
    """Something to remember about it: a decision, a file that was changed, a review, a log."""

    kind: str
    text: str
    author: Author = NOBODY


class TaskArchived(Event, frozen=True, gc=False):
    """It is no longer listed, and no longer holds up what needs it."""

    reason: str = ""
    author: Author = NOBODY


class TaskReverted(Event, frozen=True, gc=False):
    """An operation restored it to what it was at a version, which `fields` has as a whole."""

    version: int
    operation: str
    fields: TaskFields
    author: Author = NOBODY


EVENTS: Final = (
    TaskCreated,
    TaskEdited,
    TaskClaimed,
    ClaimRenewed,
    ClaimReleased,
    TaskCompleted,
    TaskFailed,
    TaskBlocked,
    TaskReopened,
    TaskNoted,
    TaskArchived,
    TaskReverted,
)


class TaskState(msgspec.Struct, frozen=True):
    """A task after its last event; `number` is that of its last claim, whether that still holds or not."""

    fields: TaskFields
    number: int = 0
    created_at: int = 0
    updated_at: int = 0
    version: int = 0
    created: Author = NOBODY
    last: Author = NOBODY
    moved: Author = NOBODY
    """The author of the last claim, release, end or reopening; notes and edits do not count."""
    notes: tuple[Note, ...] = ()
    session: str = ""
    """That of the last claim; before the first one, that in which the task was created."""

    @property
    def settled(self) -> bool:
        """Whether it no longer holds up the tasks that need it."""
        return self.fields.status == "completed" or self.fields.archived


def stream_of(task: str) -> str:
    """The stream of a task; no run can have this id. Raises `BadInput` for what is no text."""
    return PREFIX + check_id(task)


def check_id(task: object) -> str:
    """The id itself. Raises `BadInput` for what is no text, such as a `Task`."""
    if not isinstance(task, str):
        raise BadInput(f"a task is named by its id, a text, not by a {type(task).__name__}; write task.id")
    return task


def task_of(stream: str) -> str:
    """The id of the task of a stream; empty if it is another kind of stream."""
    return stream[len(PREFIX) :] if stream.startswith(PREFIX) else ""


def evolve(state: TaskState | None, event: Event, version: int, at: int) -> TaskState | None:
    """The task after an event. Events of other families, and those of a newer holdfast, change nothing but
    the version and the time."""
    if isinstance(event, TaskCreated):
        fields = TaskFields(
            event.name,
            event.body,
            priority=event.priority,
            labels=event.labels,
            assignee=event.assignee,
            due=event.due,
            checks=event.checks,
            meta=event.meta,
        )
        author = event.author
        return TaskState(fields, 0, at, at, version, author, author, session=author.session)
    if state is None:
        return None
    change = _CHANGES.get(type(event))
    fields = state.fields if change is None else change(state.fields, event, at)
    notes = state.notes
    if isinstance(event, TaskNoted):
        notes = (*notes, Note(event.kind, event.text, event.author, at, version))
    elif isinstance(event, TaskCompleted) and event.anyway:
        open_then = ", ".join(one[:8] for one in event.needed)
        text = f"{event.anyway} (completed while open: {open_then})"
        notes = (*notes, Note(ANYWAY, text, event.author, at, version))
    number, session = state.number, state.session
    if isinstance(event, TaskClaimed):
        number, session = max(number, event.number), event.session or session
    last: Author = getattr(event, "author", NOBODY)
    moved = last if isinstance(event, _MOVES) else state.moved
    return TaskState(
        fields, number, state.created_at, at, version, state.created, last, moved, notes, session
    )


_MOVES = (TaskClaimed, ClaimReleased, TaskCompleted, TaskFailed, TaskReopened, TaskReverted)


def fold(recorded: Iterable[tuple[Event, int, int]]) -> TaskState | None:
    """The task that (event, version, time) add up to; None if there are none."""
    state: TaskState | None = None
    for event, version, at in recorded:
        state = evolve(state, event, version, at)
    return state


def at_version(recorded: Iterable[tuple[Event, int, int]], version: int) -> TaskState | None:
    """The task as it was at a version of its stream; None if there was none yet."""
    return fold(one for one in recorded if one[1] <= version)


def restored(then: TaskFields, now: TaskFields | None) -> TaskFields:
    """The row that a reversal writes to restore `then` where the row is `now`. A claim that is held now stays
    as it is now. One that has ended since comes back only if it is the claim of a run, which lasts as long as
    the run. Without a claim the task is pending."""
    claim, held = then.claim, None if now is None else now.claim
    if claim is not None and not claim.run:
        claim = held if held is not None and held.number == claim.number else None
    status: TaskStatus = "pending" if then.status == "in_progress" and claim is None else then.status
    return msgspec.structs.replace(then, claim=claim, status=status)


def touched(before: TaskFields, after: TaskFields) -> tuple[str, ...]:
    """The names of the fields that are different."""
    return tuple(one for one in TaskFields.__struct_fields__ if getattr(before, one) != getattr(after, one))


def without(base: TaskFields, before: TaskFields, after: TaskFields, now: TaskFields) -> TaskFields:
    """The row `base` without a change, which made `after` of `before`: only the fields that the change
    touched are restored. Of the claim `restored` says what becomes; the row is `now`."""
    changed = {name: getattr(before, name) for name in touched(before, after)}
    return restored(msgspec.structs.replace(base, **changed), now)


def _edited(fields: TaskFields, event: TaskEdited, at: int) -> TaskFields:
    return msgspec.structs.replace(fields, **as_fields(event.changes))


def as_fields(changes: dict[str, Any]) -> dict[str, Any]:
    """Changed fields as the row has them: JSON has no tuples. Names that this version does not know are left
    out."""
    found = {name: value for name, value in changes.items() if name in EDITABLE}
    return {name: tuple(value) if name in ("labels", "checks") else value for name, value in found.items()}


EDITABLE: Final = ("name", "body", "priority", "labels", "assignee", "due", "checks", "meta")


def _claimed(fields: TaskFields, event: TaskClaimed, at: int) -> TaskFields:
    claim = ClaimState(event.number, event.actor, event.session, event.run, event.until, event.holder, at)
    return msgspec.structs.replace(
        fields, status="in_progress", claim=claim, started_at=fields.started_at or at
    )


def _renewed(fields: TaskFields, event: ClaimRenewed, at: int) -> TaskFields:
    if fields.claim is None:
        return fields
    return msgspec.structs.replace(fields, claim=msgspec.structs.replace(fields.claim, until=event.until))


def _released(fields: TaskFields, event: ClaimReleased, at: int) -> TaskFields:
    return msgspec.structs.replace(fields, status="pending", claim=None)


def _completed(fields: TaskFields, event: TaskCompleted, at: int) -> TaskFields:
    return msgspec.structs.replace(
        fields,
        status="completed",
        summary=event.summary,
        evidence=event.evidence,
        unchecked=event.unchecked,
        error="",
        ended_at=at,
        started_at=fields.started_at or at,
        claim=None,
    )


def _failed(fields: TaskFields, event: TaskFailed, at: int) -> TaskFields:
    return msgspec.structs.replace(
        fields, status="failed", error=event.why, ended_at=at, started_at=fields.started_at or at, claim=None
    )


def _blocked(fields: TaskFields, event: TaskBlocked, at: int) -> TaskFields:
    return msgspec.structs.replace(fields, blocked=event.reason)


def _reopened(fields: TaskFields, event: TaskReopened, at: int) -> TaskFields:
    return msgspec.structs.replace(
        fields,
        status="pending",
        summary="",
        evidence=None,
        unchecked="",
        error="",
        archived=False,
        started_at=0,
        ended_at=0,
        claim=None,
    )


def _archived(fields: TaskFields, event: TaskArchived, at: int) -> TaskFields:
    return msgspec.structs.replace(fields, archived=True)


def _reverted(fields: TaskFields, event: TaskReverted, at: int) -> TaskFields:
    return event.fields


_CHANGES: Final[dict[type[Event], Callable[[TaskFields, Any, int], TaskFields]]] = {
    TaskEdited: _edited,
    TaskClaimed: _claimed,
    ClaimRenewed: _renewed,
    ClaimReleased: _released,
    TaskCompleted: _completed,
    TaskFailed: _failed,
    TaskBlocked: _blocked,
    TaskReopened: _reopened,
    TaskArchived: _archived,
    TaskReverted: _reverted,
}
