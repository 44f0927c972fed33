"""The parts of a rewind and of an undo: tasks and memory, which move with the run or by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.kernel import links
from holdfast.kernel import memory as m
from holdfast.kernel.author import Author
from holdfast.kernel.generations import again, up_to
from holdfast.kernel.task import stream_of
from holdfast.operations.link_reversal import LinkReversal, last_changes, links_stand
from holdfast.operations.memory_reversal import MemoryReversal, memory_stands
from holdfast.operations.repeats import children_of
from holdfast.operations.reversal import Gone, PartBack, Reversal, left, rewound
from holdfast.operations.task_reversal import TaskReversal, is_undoable

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.events import LinkMove, TaskMove
    from holdfast.kernel.operation import OperationState
    from holdfast.kernel.state import RunState, StepState
    from holdfast.operations.points import Point
    from holdfast.store.port import OperationRow, Recorded, Store


def parts_of_rewind(
    engine: Engine, run_id: str, state: RunState, point: Point, by: str
) -> tuple[Reversal, ...]:
    """Withdraw what the run remembered after a point, and restore the tasks that it changed after it."""
    kept = up_to(state.steps, point.version)
    children = children_of(engine.store, again(state, kept))
    gone = rewound(run_id, state, {*kept}, children)
    reason = f"run {run_id} was rewound to {point.name}"
    return _parts(engine.store, reason, by, gone, {run_id, *children})


def parts_of_undo(
    store: Store,
    row: OperationRow,
    undone: OperationState,
    by: str,
    state: RunState | None = None,
    steps: Sequence[StepState] = (),
) -> tuple[Reversal, ...]:
    """Undo what the operation did to tasks and memory; with `state`, also what the run did since in `steps`,
    which only the generation that is left has."""
    gone: Gone | None = None
    runs: set[str] = set()
    if state is not None:
        children = children_of(store, steps)
        gone, runs = left(row.run, state, steps, children), {row.run, *children}
    return _parts(store, f"{row.kind} {row.id} was undone", by, gone, runs, undone, kin_of(store, row))


def _parts(
    store: Store,
    reason: str,
    by: str,
    gone: Gone | None,
    runs: Set[str],
    undone: OperationState | None = None,
    kin: frozenset[str] = frozenset(),
) -> tuple[Reversal, ...]:
    author = Author(by)
    tasks = TaskReversal(
        store, reason, author, gone=gone, runs=runs, applied=undone.tasks if undone else None, kin=kin
    )
    moved = LinkReversal(
        store, author, gone=gone, runs=runs, applied=undone.links if undone else None, kin=kin
    )
    memory = MemoryReversal(
        store, reason, author, gone=gone, applied=undone.memory if undone else None, kin=kin
    )
    return tasks, moved, memory


def plans_of(parts: Sequence[Reversal]) -> tuple[PartBack, PartBack]:
    """The effects on tasks with their links, and on the memory."""
    if not parts:
        return PartBack(), PartBack()
    tasks, linked, memory = (part.plan() for part in parts)
    return PartBack(tasks.changes + linked.changes, tasks.kept + linked.kept), memory


def kin_of(store: Store, row: OperationRow) -> frozenset[str]:
    """The operation, with those that did it again: each undid an undo of it, or of one that did it again."""
    return _kin(row.id, _undone_by(store.operations(run=row.run)))


def _undone_by(rows: Iterable[OperationRow]) -> dict[str, list[str]]:
    undone_by: dict[str, list[str]] = {}
    for row in rows:
        if row.undoes:
            undone_by.setdefault(row.undoes, []).append(row.id)
    return undone_by


def _kin(operation: str, undone_by: dict[str, list[str]]) -> frozenset[str]:
    kin, left = {operation}, [operation]
    while left:
        again = [one for undo in undone_by.get(left.pop(), []) for one in undone_by.get(undo, [])]
        kin.update(again)
        left += again
    return frozenset(kin)


class EditsStanding:
    """Which edits still hold: undoing one would change something. Reads memory, operations, links and the
    stream of each task once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._memory = m.fold(store.load(m.STREAM))
        self._undone_by = _undone_by(store.operations(run=""))
        self._recorded: dict[str, list[Recorded]] = {}
        """Task → its events; none if it is deleted."""

    def has(self, row: OperationRow, did: OperationState) -> bool:
        kin = _kin(row.id, self._undone_by)
        return (did.memory is not None and memory_stands(self._memory, did.memory, kin)) or (
            (did.tasks is not None and any(self._has_task(one, kin) for one in did.tasks.moves))
            or (did.links is not None and links_stand(self._links, did.links, kin))
        )

    @cached_property
    def _links(self) -> dict[LinkMove, Recorded]:
        return last_changes(self._store.load(links.STREAM))

    def _has_task(self, move: TaskMove, kin: Set[str]) -> bool:
        if move.id not in self._recorded:
            self._recorded[move.id] = self._store.load(stream_of(move.id))
        return is_undoable(self._recorded[move.id], move, kin)
