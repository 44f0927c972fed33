"""The journal of operations: what was done to runs, by whom, and whether it can be taken back.

An operation is a stream of its own, written in the transaction that does what it says (decision 0007): a
crash leaves both or neither.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from holdfast.clock import instant
from holdfast.errors import NotFound
from holdfast.kernel.naming import find_id
from holdfast.kernel.operation import OperationState, fold, stream_of
from holdfast.store.port import OperationRow, Store


class OperationInfo(msgspec.Struct, frozen=True):
    """An operation as `hf.operations()` and `op log` give it.

    to       the step that a rewind went back to
    undoes   the operation that an undo took back
    status   `done`; `begun` if it was cut off, `dropped` if it could not be done
    stands   what it did still holds, and `undo` can take it back
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

    JSON: ClassVar = {
        "id": "of the operation",
        "kind": "`rewind`, `restore` or `undo`",
        "run": "the run it was done to",
        "by": "who did it",
        "to": "the step that a rewind went to, or the snapshot of a restore; else null",
        "undoes": "the operation that an undo reversed; else null",
        "status": "`done`, `dropped` if it was rolled back, or `begun` if it was cut off",
        "stands": "true: what it did still holds, and it can be undone",
        "at": "when it began",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "run": self.run_id,
            "by": self.by,
            "to": self.to or None,
            "undoes": self.undoes or None,
            "status": self.status,
            "stands": self.stands,
            "at": self.at.isoformat(),
        }


def log(store: Store, *, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
    """Operations, the newest first."""
    standing = Standing(store)
    return [
        OperationInfo(
            row.id,
            row.kind,
            row.run,
            row.by,
            row.to,
            row.undoes,
            row.status,
            standing.has(row),
            instant(row.begun_at),
        )
        for row in store.operations(run=run_id, limit=limit)
    ]


class Standing:
    """The operations that still hold: their generation is the live one, or their files were not put back.
    Reads each run, and the operations on it, once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of_run: dict[str, set[str]] = {}

    def has(self, row: OperationRow) -> bool:
        if row.run not in self._of_run:
            self._of_run[row.run] = self._find(row.run)
        return row.id in self._of_run[row.run]

    def _find(self, run_id: str) -> set[str]:
        run = self._store.run(run_id)
        live = -1 if run is None else run.generation
        standing: set[str] = set()
        undone: set[str] = set()
        for row in self._store.operations(run=run_id):  # what undoes one is newer, and so comes before it
            if row.opened == live if row.opened >= 0 else row.status == "done" and row.id not in undone:
                standing.add(row.id)
                undone.add(row.undoes)
        return standing


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
    """The last undo of a person that still stands. One that took an undo back is none: it did again what that
    had taken back."""
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
