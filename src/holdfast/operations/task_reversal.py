"""The effects of an operation on tasks: it restores those that a rewound part of a run changed.

A task is restored to what it is without the events of that part, if one of them is its last event; an
operation that was undone does not count. One that someone else changed since is kept and named. A task that
the part created is archived. Undoing an operation restores each task that it changed, if no other has changed
it since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from holdfast.kernel import events as e
from holdfast.kernel import task as t
from holdfast.kernel.author import NOBODY, Author
from holdfast.operations.reversal import Gone, PartBack, PartChange, PartDecided, PartKept
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, Store, new_event


class _Move(NamedTuple):
    """A task on its way: what it is now, and what it becomes; None if it had not been created then."""

    task: str
    now: t.TaskState
    then: t.TaskState | None

    @property
    def name(self) -> str:
        """Its name after the move."""
        return (self.now if self.then is None else self.then).fields.name

    @property
    def change(self) -> str:
        if self.then is None:
            return "archived"
        now, fields = self.now.fields, t.revert(self.then, "").fields
        status = "archived" if fields.archived else fields.status.replace("_", " ")
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
        if move.then is None:
            return t.TaskArchived(self._reason, self._author)
        return t.revert(move.then, operation, self._author)

    def _look(self, task: str, recorded: list[Recorded], undone: e.TaskMove | None) -> None:
        """Find what becomes of one task."""
        now = t.fold(recorded)
        standing = recorded if undone is not None else _standing(recorded)
        counting = [one for one in standing if not self._is_gone(one.event)]
        if now is None or (undone is None and len(counting) == len(standing)):
            return
        self._versions.append((task, now.version))
        stands = undone is not None and any(
            task_stands(one, undone, self._kin) for one in _same_as_last(counting, recorded)
        )
        if undone is not None and stands:
            self._moves.append(_Move(task, now, t.at_version(recorded, undone.before)))
        elif undone is None and standing[-1] not in counting:
            self._moves.append(_Move(task, now, t.fold(counting)))
        else:
            self._kept.append(PartKept(task, now.fields.name, f"changed by {_who(now.last)} since"))

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


def _same_as_last(counting: Sequence[Recorded], recorded: Sequence[Recorded]) -> Iterator[Recorded]:
    """The last event, and while that restored an earlier version, the event of that version."""
    by_version = {one.version: one for one in recorded}
    one = counting[-1] if counting else None
    while one is not None:
        yield one
        event = one.event
        if not isinstance(event, t.TaskReverted) or not _restores(one, recorded):
            return
        one = by_version.get(event.version)


def _restores(one: Recorded, recorded: Sequence[Recorded]) -> bool:
    """Whether a reversal restored exactly what the task was at its version: a rewind leaves out changes of
    its run that lie before the last one that counts."""
    assert isinstance(one.event, t.TaskReverted)
    then = t.at_version(recorded, one.event.version)
    return then is not None and t.revert(then, "").fields == one.event.fields


def task_stands(last: Recorded, move: e.TaskMove, kin: Set[str]) -> bool:
    """Whether an operation, or one that did it again (`kin`), wrote the task's last event."""
    again = isinstance(last.event, t.TaskReverted) and last.event.operation in kin
    return last.version == move.after or again


def _who(author: Author) -> str:
    return f"run {author.run}" if author.run else author.by or "someone"
