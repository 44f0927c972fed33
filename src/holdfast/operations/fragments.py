"""Snapshots that stand for some paths only: what others wrote while files were restored (`rescued`), and
what an attempt had done that was cut off and rolled back.

Restored as if they were all files, they would remove whatever else there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.kernel import events as e
from holdfast.workspace.restoring.restore_plan import is_directory

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.workspace.snapshots.snapshot import Tree
    from holdfast.workspace.snapshots.snapshot_edit import Edits
    from holdfast.workspace.workspace import Workspace


class Fitted(NamedTuple):
    """A snapshot that is the files as they are but for some paths, and the paths that could not be had
    without taking others with them."""

    snapshot: str
    left_out: tuple[bytes, ...]


def of(engine: Engine, workspace: Workspace, snapshot: str, *, whole: bool = False) -> Edits | None:
    """The target of the paths that a snapshot stands for; None if it stands for all, or is to
    (`whole`): one that was rescued never does."""
    taken_back: list[tuple[str, str]] = []
    for _, event in engine.store.events_of(("FilesSaved", "FilesApplied")):
        if isinstance(event, (e.FilesApplied, e.FilesSaved)) and event.rescued == snapshot:
            walk = workspace.tree(snapshot).walk()
            return {path: entry for path, entry in walk if not entry.is_directory}
        if isinstance(event, e.FilesSaved) and event.instead_of == snapshot:
            taken_back.append((event.snapshot, snapshot))
    return workspace.edits(taken_back) if taken_back and not whole else None


def fit(workspace: Workspace, now: str, edits: Edits) -> Fitted:
    """The files as they are `now`, with these edits."""
    tree = workspace.tree(now)
    fits = {path: entry for path, entry in edits.items() if _fits(tree, path, edits)}
    left_out = tuple(path for path in edits if path not in fits)
    return Fitted(workspace.edited(now, fits), left_out)


def _fits(now: Tree, path: bytes, edits: Edits) -> bool:
    """Whether nothing else has to go: nothing in a directory that is to be none, no file where a directory is
    needed."""
    entry, there = edits[path], now.find(path)
    if is_directory(there) and not is_directory(entry):
        inside = path + b"/"
        return all(one in edits and edits[one] is None for one, _ in now.walk() if one.startswith(inside))
    parent = path.rpartition(b"/")[0]
    while entry is not None and parent and parent not in edits:
        found = now.find(parent)
        if found is not None:
            return is_directory(found)
        parent = parent.rpartition(b"/")[0]
    return True
