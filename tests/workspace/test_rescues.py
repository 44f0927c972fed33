"""What somebody wrote while files were put back is kept, and told to whoever puts files back next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.workspace.restoring import rescues
from holdfast.workspace.restoring.restore import Restore
from holdfast.workspace.workspace import Workspace

NAMES = "abcd"


def contents(root: Path) -> str:
    return "".join((root / name).read_text() for name in NAMES)


def cut_off(workspace: Workspace, to: str, left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore in a process that dies when half of the files are in their places."""
    plan, apply, moved = workspace.plan(to, left), Restore._apply, []

    def dying(self: Restore, move: object) -> None:
        if len(moved) == len(NAMES) // 2:
            os._exit(9)
        moved.append(move)
        apply(self, move)  # type: ignore[arg-type]

    child = os.fork()
    if not child:
        monkeypatch.setattr(Restore, "_apply", dying)
        workspace.apply(plan)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_edits_after_a_crash_are_told_by_the_next_restore(
    root: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a file that was in its place, one of a file that was not: the restore is taken back, the second
    stays, and the first is in a snapshot that is kept until somebody has taken note of it."""
    for name in NAMES:
        (root / name).write_text("1")
    to = workspace.snapshot().id
    for name in NAMES:
        (root / name).write_text("2 ")
    left = workspace.snapshot().id
    cut_off(workspace, to, left, monkeypatch)
    assert sorted(contents(root).replace(" ", "")) == ["1", "1", "2", "2"]
    done, undone = ([name for name in NAMES if (root / name).read_text() == text] for text in ("1", "2 "))
    (root / done[0]).write_text("mine, in its place")
    (root / undone[0]).write_text("mine, before its turn")

    now = workspace.snapshot().id
    assert (root / done[0]).read_text() == "2 "
    assert (root / undone[0]).read_text() == "mine, before its turn"
    (kept,) = rescues.unnoted(tmp_path / "store")
    again = Workspace(root, tmp_path / "store")
    assert again.apply(again.plan(now, now)).rescued == kept
    entry = again.tree(kept).find(done[0].encode())
    assert entry is not None and b"".join(again.contents.pieces(entry.ref)) == b"mine, in its place"
    again.rescues.noted(kept)
    assert not list(rescues.unnoted(tmp_path / "store"))
    assert again.apply(again.plan(now, now)).rescued is None


def test_what_was_not_noted_is_told_with_what_comes_later(root: Path, workspace: Workspace) -> None:
    """As one snapshot; a file that was rescued twice is the later one."""
    for name, text in (("a", "first"), ("b", "other")):
        (root / name).write_text(text)
    first = workspace.tree(workspace.snapshot().id)
    (root / "a").write_text("second")
    second = workspace.tree(workspace.snapshot().id)
    entries = [{path: one for path, one in tree.walk() if one.is_file} for tree in (first, second)]
    workspace.rescues.add(entries[0])
    kept = workspace.rescues.add({b"a": entries[1][b"a"]})
    assert kept is not None
    found = dict(workspace.tree(kept).walk())
    assert (found[b"a"], found[b"b"]) == (entries[1][b"a"], entries[0][b"b"])
