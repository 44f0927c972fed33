"""Snapshot, edits, restore: every covered path is back, and nothing else was touched."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.workspace.trees import Gardener, look, values

from holdfast.workspace.workspace import Workspace


def round_trip(directory: Path, seed: int) -> int:
    """One story → how many changes the restore made."""
    root = directory / "tree"
    root.mkdir()
    gardener = Gardener(root, seed)
    gardener.plant(gardener.chance.randrange(5, 40))
    workspace = Workspace(root, directory / "store")
    planted = look(root)
    to = workspace.snapshot()
    uncovered = {one.path for one in to.uncovered}
    gardener.edit(gardener.chance.randrange(1, 40))
    edited = look(root)
    left = workspace.snapshot()
    plan = workspace.plan(to.id, left.id)
    restored = workspace.apply(plan)
    after = look(root)
    kept = {one.path for one in plan.kept}
    for path, sight in planted.items():
        if not _beneath(path, uncovered) and not _beneath(path, kept) and not _holds(path, kept):
            assert values(after).get(path) == (sight.mode, sight.content), (seed, path)
    for path, sight in after.items():
        if path not in planted:
            assert (
                _beneath(path, kept)
                or _beneath(path, {one.path for one in left.uncovered})
                or _holds(path, kept)
            ), (seed, path)
        elif (
            path in edited and values(edited)[path] == values(planted)[path] and not _is_directory(sight.mode)
        ):
            assert (sight.mtime_ns, sight.inode) == (edited[path].mtime_ns, edited[path].inode) or (
                _moved(path, plan.actions)
            ), (seed, path)
    for one in plan.kept:
        assert _special_is_near(one.path, planted, edited), (seed, one)
    undone = workspace.apply(workspace.plan(left.id, workspace.snapshot().id))
    assert values(look(root)) == values(edited), seed
    assert undone.rescued is restored.rescued is None
    assert workspace.contents.verify() == ()
    return len(restored.actions)


def _beneath(path: bytes, tops: set[bytes]) -> bool:
    return any(path == top or path.startswith(top + b"/") for top in tops)


def _holds(path: bytes, inner: set[bytes]) -> bool:
    return any(one.startswith(path + b"/") for one in inner)


def _moved(path: bytes, actions: tuple) -> bool:
    return _beneath(path, {one.path for one in actions})


def _is_directory(mode: int) -> bool:
    return stat.S_ISDIR(mode)


def _special_is_near(path: bytes, *trees: dict) -> bool:
    """A path is kept in these stories only on account of something that no snapshot covers."""
    for tree in trees:
        for other, sight in tree.items():
            special = not (stat.S_ISREG(sight.mode) or stat.S_ISDIR(sight.mode) or stat.S_ISLNK(sight.mode))
            own = other.endswith(b"/.git")
            if (special or own) and (
                other == path or other.startswith(path + b"/") or _beneath(path, {other})
            ):
                return True
    return False
