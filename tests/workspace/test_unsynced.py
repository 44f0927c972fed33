"""What a power cut leaves of a restore if the filesystem keeps names longer than contents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.workspace import Workspace
from holdfast.workspace.removal import Removal

COUNT = 8


def test_nothing_is_deleted_before_it_is_on_the_disk_that_all_is_done(
    root: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power goes while the old files are deleted, and takes along what was written and not synced."""
    for number in range(COUNT):
        (root / f"removed{number}").write_text("old")
        (root / f"modified{number}").write_text("old")
    old = workspace.snapshot().id
    for number in range(COUNT):
        (root / f"removed{number}").unlink()
        (root / f"modified{number}").write_text("new")
    new = {path.name: path.read_text() for path in root.iterdir()}
    to = workspace.snapshot().id
    workspace.apply(workspace.plan(old, to))
    cut_off(workspace, to, old, tmp_path, monkeypatch)

    recovered = Workspace(root, tmp_path / "store").recover()
    assert recovered is not None and recovered.finished
    assert {path.name: path.read_text() for path in root.iterdir()} == new


def cut_off(
    workspace: Workspace, to: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore in a process that dies when the old contents and half of the removed files are deleted. Of
    its journal there is what was synced last."""
    plan, delete, sync, deleted = workspace.plan(to, left), Removal.delete, os.fdatasync, []
    synced = tmp_path / "synced"

    def journal() -> Path:
        return next((tmp_path / "store").rglob("restore-*"))

    def dying(self: Removal, *what: object) -> bool:
        if len(deleted) == COUNT + COUNT // 2:
            os._exit(9)
        deleted.append(what)
        return delete(self, *what)  # type: ignore[arg-type]

    def syncing(fd: int) -> None:
        sync(fd)
        synced.write_bytes(journal().read_bytes())

    child = os.fork()
    if not child:
        monkeypatch.setattr(Removal, "delete", dying)
        monkeypatch.setattr(os, "fdatasync", syncing)
        workspace.apply(plan)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    journal().write_bytes(synced.read_bytes())
