"""The journal of operations: what was done to runs, by whom, and whether it can be taken back.

An operation is a stream of its own, written in the transaction that does what it says (decision 0007): a
crash leaves both or neither.
"""

from __future__ import annotations

from datetime import datetime

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


def log(store: Store, *, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
    """Operations, the newest first."""
    return [_info(store, row) for row in store.operations(run=run_id, limit=limit)]


def _info(store: Store, row: OperationRow) -> OperationInfo:

    return OperationInfo(
        row.id,
        row.kind,
        row.run,
        row.by,
        row.to,
        row.undoes,
        row.status,
        stands(store, row),
        instant(row.begun_at),
    )


def stands(store: Store, row: OperationRow) -> bool:
    """Whether what it did still holds: its generation is the live one, or its files were not put back."""
    if row.opened >= 0:
        run = store.run(row.run)
        return run is not None and run.generation == row.opened
    undoings = [one for one in store.operations(run=row.run) if one.undoes == row.id]
    return row.status == "done" and not any(stands(store, one) for one in undoings)


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
    undoes = {row.id: row.undoes for row in store.operations()}
    for row in store.operations(by=person):
        depth, one = 0, row.id
        while one := undoes.get(one, ""):
            depth += 1
        if depth % 2 and stands(store, row):
            return row
    raise NotFound(
        f"there is nothing to redo: {_why_none(store, person)}; `holdfast op log` lists all operations"
    )


def _why_none(store: Store, person: str) -> str:
    """Why no undo of a person can be redone."""
    undone = {row.undoes: row for row in store.operations()}
    for row in store.operations(by=person):
        if row.undoes and row.id in undone and stands(store, undone[row.id]):
            return f"the last undo of user {person} was itself undone"
        if row.undoes and not stands(store, row):
            return f"the last undo of user {person} no longer stands"
    return f"user {person} has undone nothing"


def last_of(store: Store, person: str) -> OperationRow:
    """The last operation of a person, an undo too."""
    found = store.operations(by=person, limit=1)
    if not found:
        raise NotFound(
            f"user {person} has done nothing that can be undone; `holdfast op log` lists all operations"
        )
    return found[0]
