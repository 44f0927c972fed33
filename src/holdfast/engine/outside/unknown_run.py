"""What is said of an id that no run of the store has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import RunArchived, RunNotFound

if TYPE_CHECKING:
    from holdfast.store.port import Store

_LOOKED_AT = 500


def missing(store: Store, run_id: str) -> RunNotFound | RunArchived:
    """The error: that the run was archived, and in which file, or else the nearest ids."""
    file = store.archived(run_id)
    if file is not None:
        return RunArchived(run_id, file)
    from holdfast.kernel.naming import nearest

    known = [row.id for row in store.runs(limit=_LOOKED_AT)]
    return RunNotFound(run_id, nearest(run_id, known, cutoff=0.5))
