"""The error for an id that no run of the store has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import RunArchived, RunDeleted, RunNotFound

if TYPE_CHECKING:
    from holdfast.store.port import Store

_LOOKED_AT = 500


def gone(store: Store, run_id: str) -> RunArchived | None:
    """The error for a run that was archived, and in which file, or deleted, and by which operation; None if
    it was neither."""
    deleted = store.deleted(run_id)
    if deleted is not None:
        return RunDeleted(run_id, deleted.operation, final=deleted.final)
    file = store.archived(run_id)
    return None if file is None else RunArchived(run_id, file)


def missing(store: Store, run_id: str) -> RunNotFound | RunArchived:
    """The error for an id that no run has: what `gone` says, or else the nearest ids. If a run
    has got the id since the caller looked for it, the error says that."""
    error = gone(store, run_id)
    if error is not None:
        return error
    from holdfast.spelling import nearest

    known = [row.id for row in store.runs(limit=_LOOKED_AT)]
    if run_id in known:
        created = RunNotFound(run_id)
        created.args = (f"run {run_id} was created only after it was looked for; try again",)
        return created
    return RunNotFound(run_id, nearest(run_id, known, cutoff=0.5))
