"""The journal of operations: what was done to runs, tasks and the memory, by whom, and whether it stands.

An operation is a stream of its own, written in the transaction that does what it says (decision 0007): a
crash leaves both or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from holdfast.clock import instant
from holdfast.errors import NotFound, Refused
from holdfast.json_view import View
from holdfast.kernel import events as e
from holdfast.kernel.naming import find_id
from holdfast.kernel.operation import OperationState, fold, stream_of
from holdfast.kernel.task import ClaimReleased, ClaimRenewed, TaskClaimed, TaskNoted, task_of
from holdfast.kernel.task import stream_of as stream_of_task
from holdfast.operations.change_words import change_of
from holdfast.operations.tracked_parts import EditsStanding
from holdfast.store.port import OperationRow, Store


class OperationInfo(View, frozen=True):
    """An operation as `hf.operations()` and `op log` give it.

    run_id   empty for an edit of a task or a memory, and for the undo of one
    to       the step that a rewind went back to; of an edit, `task ID` or `memory ID`; of a
             deletion, what was deleted, in words
    undoes   the operation that an undo reversed
    change   of an edit: `created`, `edited name, labels`, `linked`, `remembered` and the like; empty if
             what was edited is no longer in the log
    status   `done`; `begun` if it was cut off, `dropped` if it could not be done
    stands   what it did still holds, and `undo` can reverse it
    state    `stands`; `undone`; `followed` by later operations or changes, on which it has its effect still;
             `final` for a deletion that `gc` completed; else the status
    """

    id: str
    kind: str
    run_id: str
    by: str
    to: str
    undoes: str
    status: str
    stands: bool
    at: datetime
    change: str = ""
    state: str = ""

    JSON: ClassVar = {
        "id": "of the operation",
        "kind": "`rewind`, `restore`, `delete`, `undo`, or `edit` of a task or a memory",
        "run": "the run it was done to; null for an edit",
        "by": "who did it",
        "to": "the step that a rewind went to, the snapshot of a restore, what was edited or deleted; "
        "else null",
        "change": "of an edit, what it did: `created`, `edited name, labels`, `completed`, `failed`, "
        "`blocked`, `unblocked`, `reopened`, `archived`, `linked`, `unlinked`, `remembered`, `forgotten`; "
        "else null",
        "undoes": "the operation that an undo reversed; else null",
        "status": "`done`, `dropped` if it was rolled back, or `begun` if it was cut off",
        "stands": "true: what it did still holds, and it can be undone",
        "state": "`stands`; `undone`; `followed`: it has its effect, and what was done later is to be undone "
        "first; `final`: a deletion that `gc` completed; or its status, if that is not `done`",
        "at": "when it began",
    }
    JSON_FROM: ClassVar = {"run": "run_id"}
    JSON_NULL: ClassVar = ("run", "to", "change", "undoes")


def log(store: Store, *, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
    """Operations, the newest first."""
    standing = Standing(store)
    rows = store.operations(run=run_id, limit=limit)
    undone = _undone(rows)
    return [
        OperationInfo(
            row.id,
            row.kind,
            row.run,
            row.by,
            row.to,
            row.undoes,
            row.status,
            stands := standing.has(row),
            instant(row.begun_at),
            _change(store, row),
            _state(row, stands, row.id in undone),
        )
        for row in rows
    ]


def _undone(rows: Sequence[OperationRow]) -> set[str]:
    """Those of these operations, the newest first, that another has undone which was not itself undone."""
    undone: set[str] = set()
    for row in rows:  # what undoes one is newer, and so comes before it
        if row.undoes and row.status == "done" and row.id not in undone:
            undone.add(row.undoes)
    return undone


def _state(row: OperationRow, stands: bool, undone: bool) -> str:
    if row.status != "done":
        return row.status
    if stands or undone:
        return "stands" if stands else "undone"
    return "final" if row.kind == "delete" else "followed"


def _change(store: Store, row: OperationRow) -> str:
    """The effect of an edit, by the event that it recorded."""
    if row.kind != "edit":
        return ""
    did = state_of(store, row.id)
    if did.memory is not None:
        return "forgotten" if did.memory.withdrawn else "remembered"
    if did.links is not None:
        return "unlinked" if did.links.removed else "linked"
    move = did.tasks.moves[0] if did.tasks is not None and did.tasks.moves else None
    entry = None if move is None else next(store.entries(stream_of_task(move.id), after=move.before), None)
    if entry is None:
        return ""
    return change_of(e.decode(entry.type, entry.payload))


class Standing:
    """The operations that still hold: their generation is the live one, or their files were not restored; of
    an edit, the task or the memory is still as it left it. Reads each run, and the operations on it, once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of_run: dict[str, set[str]] = {}
        self._pending: set[str] | None = None
        self._chains: dict[str, set[str]] = {}
        self._rows: dict[str, list[OperationRow]] = {}
        self._edits: EditsStanding | None = None

    def has(self, row: OperationRow) -> bool:
        found = self._has_deletion(row)
        if found is not None:
            return found
        if not row.run:
            return self._has_edit(row)
        if row.run not in self._of_run:
            self._of_run[row.run] = self._find(row.run)
        return row.id in self._of_run[row.run]

    def _has_edit(self, row: OperationRow) -> bool:
        if self._edits is None:
            self._edits = EditsStanding(self._store)
        return self._edits.has(row, state_of(self._store, row.id))

    def _find(self, run_id: str) -> set[str]:
        run = self._store.run(run_id)
        live = -1 if run is None else run.generation
        standing: set[str] = set()
        undone: set[str] = set()
        for row in self._on(run_id):  # what undoes one is newer, and so comes before it
            if row.opened == live if row.opened >= 0 else row.status == "done" and row.id not in undone:
                standing.add(row.id)
                undone.add(row.undoes)
        return standing

    def _has_deletion(self, row: OperationRow) -> bool | None:
        """Whether what it deleted can be brought back, or what it brought back is there; None if it did
        neither."""
        if row.id not in self._chain(row):
            return None
        state = state_of(self._store, row.id)
        if state.deleted is not None:
            if self._pending is None:
                self._pending = {one.operation for one in self._store.deletions()}
            return row.id in self._pending
        return not self._is_gone(state.restored) if state.restored else None

    def _chain(self, row: OperationRow) -> set[str]:
        """The operations on its run that deleted, and those that undid such ones."""
        if row.opened >= 0 or (row.kind != "delete" and not row.undoes):
            return set()
        if row.run not in self._chains:
            found: set[str] = set()
            for one in reversed(self._on(row.run)):
                if one.kind == "delete" or one.undoes in found:
                    found.add(one.id)
            self._chains[row.run] = found
        return self._chains[row.run]

    def _on(self, run_id: str) -> list[OperationRow]:
        """The operations on a run, the newest first."""
        if run_id not in self._rows:
            self._rows[run_id] = self._store.operations(run=run_id)
        return self._rows[run_id]

    def _is_gone(self, deletion: str) -> bool:
        """Whether what was deleted then is deleted now."""
        deleted = state_of(self._store, deletion).deleted
        return deleted is not None and any(self._store.deleted(one) for one in deleted.streams)


def state_of(store: Store, operation: str) -> OperationState:
    state = fold(store.load(stream_of(operation)))
    assert state is not None, "an operation that is listed has begun"
    return state


def find(store: Store, text: str) -> OperationRow:
    """The operation whose id this is, or the beginning of it."""
    found = {row.id: row for row in store.operations(prefix=text, limit=9)} if text else {}
    none = NotFound(f"there is no operation {text!r}; `holdfast op log` lists them")
    return found[find_id(text, list(found), "operations", lambda: none)]


def last_undo_of(store: Store, person: str) -> OperationRow:
    """The last undo of a person that still stands. One that reversed an undo is none: it did again what
    that had undone."""
    standing = Standing(store)
    rows = store.operations()
    undoes: set[str] = set()
    for row in reversed(rows):
        if row.undoes and row.undoes not in undoes:
            undoes.add(row.id)
    own = [row for row in rows if row.by == person]
    for row in own:
        if row.id in undoes and standing.has(row):
            return row
    undone = {row.undoes: row for row in rows}
    why = f"user {person} has undone nothing"
    for row in own:
        if row.undoes and row.id in undone and standing.has(undone[row.id]):
            why = f"the last undo of user {person} was itself undone"
            break
        if row.undoes and not standing.has(row):
            why = f"the last undo of user {person} no longer stands"
            break
    raise NotFound(f"there is nothing to redo: {why}; `holdfast op log` lists all operations")


def last_of(store: Store, person: str) -> OperationRow:
    """The last operation of a person, an undo too."""
    found = store.operations(by=person, limit=1)
    if not found:
        raise NotFound(
            f"user {person} has done nothing that can be undone; `holdfast op log` lists all operations"
        )
    return found[0]


def refuse_later(store: Store, row: OperationRow) -> None:
    """Raise `Refused` if the person whose last operation it is has changed a task after it in a way that is
    no operation: claims end by themselves, notes stay, and an import is a copy of a history. An undo without
    an id would reach past that change."""
    position = max(entry.position for entry in store.entries(stream_of(row.id)))
    entry = store.last_task_change(row.by, position)
    if entry is None:
        return
    moves = (state_of(store, row.id).tasks or e.TasksApplied()).moves
    task = task_of(entry.stream)
    if any(move.id == task and entry.version <= move.after for move in moves):
        return
    found = store.task(task)
    name = "" if found is None else f" ({found.fields.name})"
    event = e.decode(entry.type, entry.payload)
    last = f"on task {task[:8]}{name}"
    if isinstance(event, TaskNoted):
        last = f"a note {last}, which stays"
    elif isinstance(event, TaskClaimed | ClaimRenewed):
        held = None if found is None else found.fields.claim
        lives = held is not None and held.number == event.number
        end = f"`holdfast task release {task[:8]}` ends" if lives else "has ended"
        last = f"a claim {last}, which {end}"
    elif isinstance(event, ClaimReleased):
        last = f"the release of a claim {last}; `holdfast task claim {task[:8]}` claims it again"
    else:
        last = f"an import {last}, which `holdfast task show {task[:8]}` shows"
    what = f"{_change(store, row) or row.kind} {row.to or row.run}".strip()
    raise Refused(
        f"your last change was {last}; it is no operation. The operation before it is {row.id} ({what}): "
        f"`holdfast undo {row.id}` undoes that"
    )
