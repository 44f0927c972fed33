"""The rules of tasks: what each state permits. Pure: whether a claim's holder lives is looked at before, and
given as `free`, the number of the claim that was found dead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import BadInput, ClaimLost, Refused, TaskHeld
from holdfast.json_input import MAX_LEVELS, is_deeper
from holdfast.kernel.author import Author
from holdfast.kernel.task import (
    EDITABLE,
    ENDED,
    OPEN,
    ClaimReleased,
    ClaimRenewed,
    ClaimState,
    Holder,
    TaskArchived,
    TaskBlocked,
    TaskClaimed,
    TaskCompleted,
    TaskCreated,
    TaskEdited,
    TaskFailed,
    TaskNoted,
    TaskReopened,
    TaskState,
    as_fields,
)

MOST_NAME: Final = 500
MOST_TEXT: Final = 256 << 10
"""Characters. A task is read as a whole, by `list`, by prime and by agents: what is larger is a file."""
MOST_PRIORITY: Final = 4
NOTE_KINDS: Final = ("note", "decision", "scope", "file", "plan", "review", "verification", "log")


def create(fields: Mapping[str, Any], author: Author) -> TaskCreated:
    """Decide to create a task. Raises `BadInput` for what no task can have."""
    check(fields)
    return TaskCreated(**as_fields(dict(fields)), author=author)


def edit(state: TaskState, changes: Mapping[str, Any], author: Author) -> TaskEdited | None:
    """Decide to change fields; None if they are so already."""
    check(changes)
    new = as_fields(dict(changes))
    was = {name: getattr(state.fields, name) for name in new}
    changed = {name: value for name, value in new.items() if value != was[name]}
    if not changed:
        return None
    return TaskEdited(changed, {name: was[name] for name in changed}, author)


def claim(
    task: str,
    state: TaskState,
    author: Author,
    *,
    now: int,
    until: int = 0,
    run: str = "",
    holder: Holder | None = None,
    free: int = 0,
) -> TaskClaimed:
    """Decide to claim a task. Raises `TaskHeld` if another has it, `Refused` if it is done, blocked or
    archived. `free` is the number of a claim whose holder was found dead."""
    fields = state.fields
    if fields.archived:
        raise Refused(f"task {task[:8]} is archived; `holdfast task reopen {task[:8]}` brings it back")
    if fields.status in ENDED:
        raise Refused(
            f"task {task[:8]} is {fields.status}; reopen it with `holdfast task reopen {task[:8]}` first"
        )
    if fields.blocked:
        raise Refused(
            f"task {task[:8]} is blocked: {fields.blocked}; when that is over, "
            f"`holdfast task unblock {task[:8]}`"
        )
    held = fields.claim
    if held is not None and held.number != free and not is_over(held, now):
        raise held_by(task, held)
    return TaskClaimed(state.number + 1, author.by, author.session, run, until, holder, author)


def is_over(claim: ClaimState, now: int) -> bool:
    """Whether the lease of a claim has ended. That of a run's claim never does."""
    return not claim.run and claim.until <= now


def held_by(task: str, claim: ClaimState, pid: int = 0) -> TaskHeld:
    """The error for a task that is claimed; `pid` is the live process that holds the claim, if that is
    known."""
    return TaskHeld(task, claim.actor, claim.number, claim.until, claim.run, pid)


def renew(task: str, state: TaskState, number: int | None, until: int, author: Author) -> ClaimRenewed:
    """Decide that a lease ends later."""
    held = own_claim(task, state, number, author)
    if held is None:
        raise Refused(f"task {task[:8]} is not claimed; `holdfast task claim {task[:8]}` claims it")
    if held.run:
        raise Refused(f"task {task[:8]} is claimed by run {held.run}, whose claim lasts as long as the run")
    return ClaimRenewed(held.number, until, author)


def release(
    task: str, state: TaskState, number: int | None, reason: str, author: Author
) -> ClaimReleased | None:
    """Decide to give a task back; None if it is not claimed, or the same step has done so already."""
    if state.fields.claim is None and author.is_step_of(state.moved):
        return None
    held = own_claim(task, state, number, author)
    return None if held is None else ClaimReleased(held.number, reason, author)


def complete(
    task: str,
    state: TaskState,
    number: int | None,
    author: Author,
    *,
    summary: str = "",
    evidence: Any = None,
    checked: tuple[str, ...] = (),
    unchecked: str = "",
    anyway: str = "",
    needed: tuple[str, ...] = (),
) -> TaskCompleted | None:
    """Decide that a task is done. None if the same step has completed it already, or the same actor under the
    same claim with the same summary and evidence: it tries again after a crash. Raises `ClaimLost` for any
    other task that is completed. `needed` are the open tasks that it needs, which a reason `anyway` leaves
    out of account."""
    if state.fields.status == "completed":
        is_same = (summary, evidence) == (state.fields.summary, state.fields.evidence)
        if _has_ended(state, number, author, is_same=is_same):
            return None
        raise _lost(task, state, number or 0)
    held = _ending(task, state, number, author, "completed")
    check({"summary": summary, "evidence": evidence, "unchecked": unchecked, "why": anyway})
    claim = held.number if held else 0
    return TaskCompleted(claim, summary, evidence, checked, unchecked, anyway, needed, author)


def fail(task: str, state: TaskState, number: int | None, why: str, author: Author) -> TaskFailed | None:
    """Decide that a task is given up; None if the same step has given it up already, or the same actor under
    the same claim for the same reason."""
    if state.fields.status == "failed" and _has_ended(
        state, number, author, is_same=why == state.fields.error
    ):
        return None
    held = _ending(task, state, number, author, "failed")
    check({"why": why})
    return TaskFailed(held.number if held else 0, why, author)


def _has_ended(state: TaskState, number: int | None, author: Author, *, is_same: bool) -> bool:
    """Whether the caller has ended the task itself, and in the same way, so that nothing of it is lost."""
    if author.is_step_of(state.moved):
        return number is None or number == state.number
    return is_same and number == state.number and author.by == state.moved.by


def _lost(task: str, state: TaskState, number: int) -> ClaimLost:
    """The error for a claim that has ended, or that never was; it names who has the task, or who ended it."""
    held, moved = state.fields.claim, state.moved
    has_ended = state.fields.status in ENDED
    by = f"run {moved.run}" if moved.run else moved.by or "unknown"
    return ClaimLost(
        task,
        number,
        state.number,
        held.actor if held else "",
        state.fields.status,
        by if has_ended else "",
        state.fields.ended_at if has_ended else 0,
    )


def _ending(task: str, state: TaskState, number: int | None, author: Author, end: str) -> ClaimState | None:
    held = own_claim(task, state, number, author)
    if state.fields.archived:
        raise Refused(f"task {task[:8]} is archived; `holdfast task reopen {task[:8]}` brings it back")
    if state.fields.status in ENDED:
        raise Refused(
            f"task {task[:8]} is {state.fields.status} already, and cannot be {end}; reopen it first"
        )
    return held


def own_claim(task: str, state: TaskState, number: int | None, author: Author) -> ClaimState | None:
    """The claim that the caller acts under; None if there is none. With a number, that one must be the last:
    raises `ClaimLost` otherwise. Without, a claim of another actor or of a run refuses it with `TaskHeld`."""
    held = state.fields.claim
    if number is not None:
        if held is None or held.number != number:
            raise _lost(task, state, number)
        return held
    if held is None:
        return None
    if held.run and held.run != author.run:
        raise held_by(task, held)
    if not held.run and held.actor != author.by:
        raise held_by(task, held)
    return held


def block(task: str, state: TaskState, reason: str, author: Author) -> TaskBlocked | None:
    """Decide that a task cannot be worked on, or (without a reason) that it can; None if that is so
    already."""
    check({"reason": reason})
    if state.fields.status == "completed" and reason:
        raise Refused(f"task {task[:8]} is completed; `holdfast task reopen {task[:8]}` first")
    return None if state.fields.blocked == reason else TaskBlocked(reason, author)


def reopen(task: str, state: TaskState, reason: str, author: Author) -> TaskReopened | None:
    """Decide that a task is pending again; None if the same step has done so already."""
    if state.fields.status == "pending" and author.is_step_of(state.moved):
        return None
    if state.fields.status in OPEN and not state.fields.archived:
        raise Refused(f"task {task[:8]} is {state.fields.status}: there is nothing to reopen")
    check({"reason": reason})
    return TaskReopened(reason, author)


def note(state: TaskState, kind: str, text: str, author: Author) -> TaskNoted | None:
    """Decide to write something down; None if the same step has done so: it ran again after a crash."""
    if any((one.kind, one.text) == (kind, text) and author.is_step_of(one.author) for one in state.notes):
        return None
    if kind not in NOTE_KINDS:
        raise BadInput(f"{kind!r} is no kind of note; there are {', '.join(NOTE_KINDS)}")
    check({"text": text})
    if not text.strip():
        raise BadInput("a note needs a text")
    return TaskNoted(kind, text, author)


def archive(
    task: str, state: TaskState, reason: str, author: Author, *, now: int, free: int = 0
) -> TaskArchived | None:
    """Decide to take a task out of the lists; None if it is out. Raises `TaskHeld` if another has claimed
    it."""
    if state.fields.archived:
        return None
    held = state.fields.claim
    if held is not None and held.number != free and not is_over(held, now):
        raise held_by(task, held)
    check({"reason": reason})
    return TaskArchived(reason, author)


def check(fields: Mapping[str, Any]) -> None:
    """Raise `BadInput` for a value that no task can have."""
    for name, value in fields.items():
        if name == "name":
            _check_name(value)
        elif name == "priority":
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_PRIORITY:
                raise BadInput(f"priority {value!r} is none: 0 is the most urgent, {MOST_PRIORITY} the least")
        elif name in ("labels", "checks"):
            _check_texts(name, value)
        elif name == "meta":
            if not isinstance(value, dict):
                raise BadInput("meta takes names with values: {'effort': 'small'}")
            _check_size(name, value)
        elif name == "evidence":
            _check_size(name, value)
        elif name == "due":
            check_time("due", value)
        elif name in EDITABLE or name in _TEXTS:
            if not isinstance(value, str):
                raise BadInput(f"the {name} of a task is a text, not {value!r:.60}")
            _check_length(name, value)
    unknown = [name for name in fields if name not in EDITABLE and name not in _TEXTS]
    if unknown:
        raise BadInput(f"a task has no {unknown[0]!r}; what can be changed is {', '.join(EDITABLE)}")


_TEXTS: Final = ("summary", "unchecked", "why", "reason", "text", "evidence")
_LAST_TIME: Final = 253_402_300_799_999_999
"""The end of the year 9999, in microseconds."""


def check_time(what: str, at: Any) -> None:
    """Raise `BadInput` for what is no time in microseconds."""
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= _LAST_TIME:
        raise BadInput(f"{what} {at!r:.60} is no time: it is in microseconds, from 1970 to the year 9999")


def check_state(state: TaskState) -> None:
    """Raise `BadInput` if a task that was read from elsewhere has a value that no task can have."""
    fields = state.fields
    check({name: getattr(fields, name) for name in (*EDITABLE, "summary", "evidence", "unchecked")})
    check({"why": fields.error, "reason": fields.blocked})
    for at in (fields.started_at, fields.ended_at, fields.claim.until if fields.claim else 0):
        check_time("time", at)
    if state.notes and state.notes[-1].version == state.version:
        check({"text": state.notes[-1].text})


def _check_name(value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise BadInput("a task needs a name, in a few words")
    if len(value) > MOST_NAME or "\n" in value:
        raise BadInput(
            f"the name of a task is one line of at most {MOST_NAME} characters; put the rest in its body"
        )


def _check_texts(name: str, value: Any) -> None:
    if isinstance(value, str) or not all(isinstance(one, str) and one.strip() for one in value):
        raise BadInput(f"{name} takes a list of texts")
    _check_length(name, "".join(value))


def _check_size(name: str, value: Any) -> None:
    if is_deeper(value):
        raise BadInput(f"the {name} of a task is nested deeper than {MAX_LEVELS} levels")
    _check_length(name, msgspec.json.encode(value).decode())


def _check_length(name: str, value: str) -> None:
    if len(value) > MOST_TEXT:
        raise BadInput(
            f"the {name} of a task has {len(value):,} characters, and {MOST_TEXT:,} at most; put it in a "
            "file, and name that"
        )
