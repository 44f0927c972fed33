"""The effects of an operation on the memory: it withdraws what a rewound run remembered, or restores it.

Undoing an operation restores what it withdrew, if that was its last change, and withdraws what it restored.
What someone else withdrew or restored since stays, and is named.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from holdfast.kernel import events as e
from holdfast.kernel import memory as m
from holdfast.kernel.author import NOBODY, Author
from holdfast.operations.reversal import Gone, PartBack, PartChange, PartDecided, PartKept
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, Store, new_event

_MOST_NAME = 200


class _Moves(NamedTuple):
    withdraw: tuple[str, ...]
    restore: tuple[str, ...]
    kept: tuple[PartKept, ...]


class MemoryReversal:
    """Implements `Reversal`.

    gone     whose memories are withdrawn; None for none
    applied  what the operation that is undone did to the memory
    kin      the operation itself, with those that undid it and those that undid these
    """

    def __init__(
        self,
        store: Store,
        reason: str,
        author: Author = NOBODY,
        *,
        gone: Gone | None = None,
        applied: e.MemoryApplied | None = None,
        kin: Set[str] = frozenset(),
    ) -> None:
        self._is_idle = gone is None and applied is None
        recorded = [] if self._is_idle else store.load(m.STREAM)
        self._version = recorded[-1].version if recorded else 0
        self._state = m.fold(recorded)
        self._reason = reason
        self._author = author
        self._gone = gone
        self._applied = applied or e.MemoryApplied()
        self._kin = kin
        self._moves = self._find(self._state)

    def plan(self) -> PartBack:
        changes = [
            PartChange(id, self._name(id), change)
            for ids, change in ((self._moves.withdraw, "withdrawn"), (self._moves.restore, "restored"))
            for id in ids
        ]
        return PartBack(tuple(changes), self._moves.kept)

    def sources(self) -> Sequence[Source]:
        return [] if self._is_idle else [Source(m.STREAM, self._version)]

    def decide(self, recorded: Sequence[Sequence[Recorded]], operation: str, at: int) -> PartDecided | None:
        if self._is_idle:
            return PartDecided([], None)
        state = self._state
        for one in recorded[0]:
            state = m.evolve(state, one)
        moves = self._find(state) if recorded[0] else self._moves
        if moves != self._moves:
            return None
        withdrawn = [m.MemoryWithdrawn(id, self._reason, operation, self._author) for id in moves.withdraw]
        restored = [m.MemoryRestored(id, operation, self._author) for id in moves.restore]
        if not withdrawn and not restored:
            return PartDecided([NO_EVENTS], None)
        events = [new_event(one, at) for one in (*withdrawn, *restored)]
        return PartDecided([Decision(m.KIND, events)], e.MemoryApplied(moves.withdraw, moves.restore))

    def _name(self, id: str) -> str:
        memory = self._state.get(id)
        return "" if memory is None else memory.text[:_MOST_NAME]

    def _find(self, state: m.MemoryState) -> _Moves:
        withdraw: list[str] = []
        restore: list[str] = []
        kept: list[PartKept] = []
        for id in (*self._applied.withdrawn, *self._applied.restored):
            memory = state.get(id)
            if memory is None:
                continue
            if id in self._applied.restored and not memory.withdrawn:
                withdraw.append(id)
            elif id in self._applied.withdrawn and memory.withdrawn and memory.operation in self._kin:
                restore.append(id)
            else:
                kept.append(PartKept(id, memory.text[:_MOST_NAME], _since(memory)))
        if self._gone is not None:
            known = {*withdraw, *restore, *(one.id for one in kept)}
            live = (one for one in state if not one.withdrawn and one.id not in known)
            withdraw += [one.id for one in live if self._gone(one.author)]
        return _Moves(tuple(withdraw), tuple(restore), tuple(kept))


def memory_stands(state: m.MemoryState, applied: e.MemoryApplied, kin: Set[str]) -> bool:
    """Whether something that an operation did to the memory still holds."""
    restored = (state.get(id) for id in applied.restored)
    withdrawn = (state.get(id) for id in applied.withdrawn)
    return any(one is not None and not one.withdrawn for one in restored) or any(
        one is not None and one.withdrawn and one.operation in kin for one in withdrawn
    )


def _since(memory: m.Memory) -> str:
    what = "withdrawn" if memory.withdrawn else "restored"
    by = f" by operation {memory.operation}" if memory.operation else ""
    return f"{what}{by} since" + (f": {memory.reason}" if memory.reason else "")
