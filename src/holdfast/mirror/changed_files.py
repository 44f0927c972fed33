"""The files that a run has changed, by its snapshots."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError
from holdfast.kernel import events as e
from holdfast.workspace.fs.beneath import shown

if TYPE_CHECKING:
    from holdfast.engine.files.workspaces import Files
    from holdfast.store.port import Store
    from holdfast.workspace.snapshots.changes import Change

MOST: Final = 200


def changed_files(store: Store, open_files: Callable[[], Files], run_id: str) -> list[str]:
    """The paths, sorted, at most `MOST` of them; none if the snapshots are gone. Changes that others made
    between two executions of the run are left out."""
    saved = [e.decode(entry.type, entry.payload) for entry in store.entries(run_id, type="FilesSaved")]
    pairs = [
        (earlier.snapshot, later.snapshot)
        for earlier, later in pairwise(one for one in saved if isinstance(one, e.FilesSaved))
        if later.place != "start" and earlier.snapshot != later.snapshot
    ]
    last = saved[-1] if saved else None
    if not pairs or not isinstance(last, e.FilesSaved):
        return []
    files = open_files()
    try:
        workspace = files.of(last.root, last.mark)
        with workspace.contents.hold():
            paths = {
                change.path
                for before, after in pairs
                for change in workspace.diff(before, after)
                if change.path and not _is_directory(change)
            }
    except (HoldfastError, OSError):
        return []
    finally:
        files.close()
    return [shown(path) for path in sorted(paths)[:MOST]]


def _is_directory(change: Change) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.is_directory
