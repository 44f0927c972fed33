"""What a power cut leaves of a restore if the filesystem keeps names longer than contents."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.workspace.restoring.removal import Removal
from holdfast.workspace.restoring.restore_journal import Phase
from holdfast.workspace.restoring.restore_plan import Plan
from holdfast.workspace.workspace import Workspace

COUNT = 8
DIED = 9


def contents(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in root.iterdir()}


@pytest.fixture
def new(root: Path, workspace: Workspace) -> tuple[Plan, dict[str, str]]:
    """The plan of a restore that removes and modifies files, and what there is after it."""
    for number in range(COUNT):
        (root / f"removed{number}").write_text("old")
        (root / f"modified{number}").write_text("old")
    old = workspace.snapshot().id
    for number in range(COUNT):
        (root / f"removed{number}").unlink()
        (root / f"modified{number}").write_text("new")
    after, to = contents(root), workspace.snapshot().id
    workspace.apply(workspace.plan(old, to))
    return workspace.plan(to, old), after


class Disk:
    """Of the journal it has what was synced last."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._synced = directory / "synced"
        self._patch = patch

    @property
    def journal(self) -> Path:
        return next(self._directory.rglob("restore-*[!k]"))  # not its .lock

    def live(self, act: Callable[[], object], *, unsynced: Phase | None = None) -> None:
        """In a process that dies before it has synced a phase, or when the old contents and half of the
        removed files are deleted."""
        child = os.fork()
        if not child:
            self._die_in(unsynced)
            act()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == DIED

    def _die_in(self, unsynced: Phase | None) -> None:
        delete, sync, deleted = Removal.delete, os.fdatasync, []

        def dying(self: Removal, *what: object) -> bool:
            if len(deleted) == COUNT + COUNT // 2:
                os._exit(DIED)
            deleted.append(what)
            return delete(self, *what)  # type: ignore[arg-type]

        def syncing(fd: int) -> None:
            if unsynced is not None and self.journal.read_bytes()[:1] == unsynced.value.encode():
                os._exit(DIED)
            sync(fd)
            self._synced.write_bytes(self.journal.read_bytes())

        self._patch.setattr(Removal, "delete", dying)
        self._patch.setattr(os, "fdatasync", syncing)

    def cut(self) -> None:
        """The power goes."""
        self.journal.write_bytes(self._synced.read_bytes())


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "after a kill"])
def test_nothing_is_deleted_before_it_is_on_the_disk_that_all_is_done(
    root: Path,
    workspace: Workspace,
    new: tuple[Plan, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed: bool,
) -> None:
    """The power goes while the old files are deleted, and takes along what was written and not synced; also
    what somebody wrote who was killed, and another one continued from there."""
    plan, after = new
    disk = Disk(tmp_path, monkeypatch)
    if killed:
        disk.live(lambda: workspace.apply(plan), unsynced=Phase.DONE)
        disk.live(Workspace(root, tmp_path / "store").recover)
    else:
        disk.live(lambda: workspace.apply(plan))
    disk.cut()
    recovered = Workspace(root, tmp_path / "store").recover()
    assert recovered is not None and recovered.finished
    assert contents(root) == after
