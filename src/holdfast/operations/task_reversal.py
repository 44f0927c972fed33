"""The effects of an operation on tasks: it restores those that a rewound part of a run changed.

A task is restored to what it is without the events of that part, if one of them is its last event; an
operation that was undone does not count. One that someone else changed since is kept and named. A task that
the part created is archived.

Undoing an operation restores the fields that it changed, of each task that no other has changed since. A note
changes no field. Neither does a claim, its renewal or its release, where the operation did not move the task:
an edit is undone beneath a claim, which stays. A task that is claimed now is not moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from holdfast.kernel import events as e
from holdfast.kernel import task as t
from holdfast.kernel.author import NOBODY, Author
from holdfast.operations.change_words import change_of
from holdfast.operations.reversal import Gone, PartBack, PartChange, PartDecided, PartKept
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, Store, new_event


class _Move(NamedTuple):
    """A task on its way: what it is now, and what it becomes: `fields`, None if it had not been created then.
    `version` is the one that it goes back to."""

    task: str
    now: t.TaskState
    fields: t.TaskFields | None
    version: int

    @property
    def name(self) -> str:
        """Its name after the move."""
        return (self.now.fields if self.fields is None else self.fields).name

    @property
    def change(self) -> str:
        if self.fields is None or self.fields.archived:
            return "archived"
        now, fields = self.now.fields, self.fields
        status = fields.status.replace("_", " ")
        back = [name for name in t.EDITABLE if getattr(now, name) != getattr(fields, name)]
        if not back:
            return status
        is_same = (now.status, now.archived) == (fields.status, fields.archived)
        return f"{'' if is_same else f'{status}, '}{', '.join(back)} restored"


class TaskReversal:
    """Implements `Reversal`.

    gone     whose changes no longer count; None for none. `runs` are the runs that it may name
    applied  what the operation that is undone did to tasks
    kin      the operation itself, with those that undid it and those that undid these
    """

    def __init__(
        self,
        store: Store,
        reason: str,
        author: Author = NOBODY,
        *,
        gone: Gone | None = None,
        runs: Iterable[str] = (),
        applied: e.TasksApplied | None = None,
        kin: Set[str] = frozenset(),
    ) -> None:
        self._reason = reason
        self._author = author
        self._gone = gone
        self._kin = kin
        self._moves: list[_Move] = []
        self._kept: list[PartKept] = []
        self._versions: list[tuple[str, int]] = []
        undone = {move.id: move for move in (e.TasksApplied() if applied is None else applied).moves}
        streams = [t.stream_of(task) for task in undone]
        authored = (one for one in store.authored_by(list(runs)) if t.task_of(one))
        for stream in dict.fromkeys((*streams, *authored)):
            self._look(t.task_of(stream), store.load(stream), undone.get(t.task_of(stream)))

    def plan(self) -> PartBack:
        changes = [PartChange(one.task, one.name, one.change) for one in self._moves]
        return PartBack(tuple(changes), tuple(self._kept))

    def sources(self) -> Sequence[Source]:
        return [Source(t.stream_of(task), version) for task, version in self._versions]

    def decide(self, recorded: Sequence[Sequence[Recorded]], operation: str, at: int) -> PartDecided | None:
        if any(recorded):
            return None
        moves = {one.task: one for one in self._moves}
        decisions = [NO_EVENTS] * len(self._versions)
        applied: list[e.TaskMove] = []
        for n, (task, version) in enumerate(self._versions):
            move = moves.get(task)
            if move is not None:
                event = self._event(move, operation)
                decisions[n] = Decision(t.KIND, [new_event(event, at)])
                applied.append(e.TaskMove(task, version + 1, version))
        return PartDecided(decisions, e.TasksApplied(tuple(applied)) if applied else None)

    def _event(self, move: _Move, operation: str) -> e.Event:
        if move.fields is None:
            return t.TaskArchived(self._reason, self._author)
        return t.TaskReverted(move.version, operation, move.fields, self._author)

    def _look(self, task: str, recorded: list[Recorded], undone: e.TaskMove | None) -> None:
        """Find what becomes of one task."""
        now = t.fold(recorded)
        standing = recorded if undone is not None else _standing(recorded)
        counting = [one for one in standing if not self._is_gone(one.event)]
        if now is None or (undone is None and len(counting) == len(standing)):
            return
        self._versions.append((task, now.version))
        if undone is not None:
            self._undo(_Undoing(recorded, counting, undone, self._kin), now)
        elif standing[-1] not in counting:
            then = t.fold(counting)
            fields = None if then is None else t.restored(then.fields, now.fields)
            self._moves.append(_Move(task, now, fields, 0 if then is None else then.version))
        else:
            self._kept.append(PartKept(task, now.fields.name, f"changed by {_who(now.last)} since"))

    def _undo(self, undoing: _Undoing, now: t.TaskState) -> None:
        task = undoing.move.id
        found = undoing.hindrance()
        if found is None:
            self._moves.append(_Move(task, now, undoing.fields(now), undoing.move.before))
            return
        author: Author = getattr(found.event, "author", NOBODY)
        who = "you" if author.by == self._author.by and not author.run else _who(author)
        why = f"changed by {who} since: {change_of(found.event)}"
        held = now.fields.claim
        if held is not None and isinstance(found.event, CLAIMS):
            why += f"; `holdfast task release {task[:8]} --number {held.number}` ends that claim"
        self._kept.append(PartKept(task, now.fields.name, why))

    def _is_gone(self, event: e.Event) -> bool:
        author: Author = getattr(event, "author", NOBODY)
        return self._gone is not None and self._gone(author)


def _standing(recorded: Sequence[Recorded]) -> list[Recorded]:
    """The events that the task as it is now is made of. A reversal that restored an earlier version leaves
    those of that version: neither it nor what it reversed is a change that stands."""
    made_of: dict[int, list[Recorded]] = {}
    found: list[Recorded] = []
    for one in recorded:
        event = one.event
        earlier = made_of.get(event.version) if isinstance(event, t.TaskReverted) else None
        found = earlier if earlier is not None and _restores(one, recorded) else [*found, one]
        made_of[one.version] = found
    return found


CLAIMS = (t.TaskClaimed, t.ClaimRenewed, t.ClaimReleased)
_PASSABLE = (*CLAIMS, t.TaskNoted)
_MOVING = frozenset({"status", "archived", "claim", "started_at", "ended_at"})
"""The fields that a claim changes, or that say whether there can be one."""


class _Undoing:
    """The undo of what one operation did to a task. `counting` are the events of `recorded` that count; `kin`
    as in `TaskReversal`."""

    def __init__(
        self, recorded: Sequence[Recorded], counting: Sequence[Recorded], move: e.TaskMove, kin: Set[str]
    ) -> None:
        self.move = move
        self._recorded = recorded
        self._counting = counting
        self._kin = kin

    def fields(self, now: t.TaskState) -> t.TaskFields | None:
        """The row without the change; None if the task was created by it."""
        before, after = self._states
        base = t.fold(self._counting)
        if before is None or after is None or base is None:
            return None
        return t.without(base.fields, before.fields, after.fields, now.fields)

    def hindrance(self) -> Recorded | None:
        """The last event that changed since what the operation changed; None if it can be undone. A reversal
        that restored an earlier version has changed nothing since that version."""
        by_version = {one.version: one for one in self._recorded}
        found = self._recorded[-1]
        one = self._counting[-1] if self._counting else None
        while one is not None and one.version > self.move.before:
            found = one
            if task_stands(one, self.move, self._kin):
                return None
            if self.passes(one):
                one = next((old for old in reversed(self._counting) if old.version < found.version), None)
            elif isinstance(one.event, t.TaskReverted) and self._restores(one):
                one = by_version.get(one.event.version)
            else:
                return found
        return found

    @property
    def _states(self) -> tuple[t.TaskState | None, t.TaskState | None]:
        return t.at_version(self._recorded, self.move.before), t.at_version(self._recorded, self.move.after)

    @cached_property
    def _moves_task(self) -> bool:
        """Whether the operation changed more than what the task says: its status, or whether it is there."""
        before, after = self._states
        if before is None or after is None:
            return True
        return not _MOVING.isdisjoint(t.touched(before.fields, after.fields))

    @cached_property
    def _is_claimed(self) -> bool:
        base = t.fold(self._counting)
        return base is not None and base.fields.claim is not None

    def passes(self, one: Recorded) -> bool:
        """Whether an event is none that stands in the way."""
        if isinstance(one.event, CLAIMS):
            return not self._moves_task or not self._is_claimed
        return isinstance(one.event, t.TaskNoted)

    def _restores(self, one: Recorded) -> bool:
        return _restores(one, self._recorded, () if self._moves_task else _MOVING)


def _restores(one: Recorded, recorded: Sequence[Recorded], but: Iterable[str] = ()) -> bool:
    """Whether a reversal restored exactly what the task was at its version, but for these fields: a rewind
    leaves out changes of its run that lie before the last one that counts."""
    assert isinstance(one.event, t.TaskReverted)
    then, now = t.at_version(recorded, one.event.version), t.at_version(recorded, one.version - 1)
    if then is None or now is None:
        return False
    found = (t.restored(then.fields, now.fields), t.restored(then.fields, None))
    return any(set(t.touched(fields, one.event.fields)) <= {*but} for fields in found)


def is_undoable(recorded: Sequence[Recorded], move: e.TaskMove, kin: Set[str]) -> bool:
    """Whether what an operation did to a task is in effect, and can be undone."""
    for one in reversed(recorded):  # of a long history, nearly all is decided here, without a fold
        if one.version <= move.after or isinstance(one.event, t.TaskReverted):
            break
        if not isinstance(one.event, _PASSABLE):
            return False
    return _Undoing(recorded, recorded, move, kin).hindrance() is None


def task_stands(last: Recorded, move: e.TaskMove, kin: Set[str]) -> bool:
    """Whether an operation, or one that did it again (`kin`), wrote this event."""
    again = isinstance(last.event, t.TaskReverted) and last.event.operation in kin
    return last.version == move.after or again


def _who(author: Author) -> str:
    return f"run {author.run}" if author.run else author.by or "someone"
