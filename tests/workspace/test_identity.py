"""What is kept of a directory is found again after a move, and when its device has another number."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from holdfast.workspace import Workspace
from holdfast.workspace.identity import Identity, Root
from holdfast.workspace.restore import Restore


def cut_off(workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore of "new" over "old" in a process that dies when it is ready to begin."""
    (root / "file").write_text("new")
    to = workspace.snapshot().id
    (root / "file").write_text("old")
    plan = workspace.plan(to, workspace.snapshot().id)
    child = os.fork()
    if not child:
        monkeypatch.setattr(Restore, "apply", lambda _: os._exit(9))
        workspace.apply(plan)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def renumber(store: Path, device: int) -> None:
    """As if all of it had been written while the filesystem had that number."""
    (record,) = store.glob("root-*")
    root = msgspec.msgpack.decode(record.read_bytes(), type=Root)
    record.write_bytes(msgspec.msgpack.encode(msgspec.structs.replace(root, device=device)))
    name = record.name.removeprefix("root-")
    for path in store.glob(f"*-{name}*"):
        path.rename(path.with_name(path.name.replace(name, f"{device:x}-{root.inode:x}")))


def finished(root: Path, store: Path) -> bool:
    recovered = Workspace(root, store).recover()
    return recovered is not None and recovered.finished and [*os.listdir(root)] == ["file"]


def test_a_restore_is_finished_when_the_device_has_another_number(
    root: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(workspace, root, monkeypatch)
    renumber(tmp_path / "store", 0xABCDEF)
    assert finished(root, tmp_path / "store")
    assert (root / "file").read_text() == "new"


def test_a_restore_is_finished_in_a_directory_that_was_moved(
    root: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(workspace, root, monkeypatch)
    moved = root.rename(tmp_path / "moved")
    root.mkdir()
    assert finished(moved, tmp_path / "store")


def test_a_directory_is_the_same_by_another_path(root: Path, workspace: Workspace, tmp_path: Path) -> None:
    """As where it is mounted a second time: both take the same locks."""
    Identity(root, tmp_path / "store").record()
    mount = tmp_path / "mount"
    mount.symlink_to(root)
    assert Identity(mount, tmp_path / "store").name == Identity(root, tmp_path / "store").name


def test_another_directory_with_the_numbers_that_one_had_is_another(
    root: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two filesystems have changed their numbers, and the roots of both have the same inode."""
    store, other = tmp_path / "store", tmp_path / "other"
    other.symlink_to(root)  # it was seen with the numbers that the root has now
    first = Identity(other, store)
    first.record()
    monkeypatch.setattr(Root, "is_beside", lambda *_: True)
    second = Identity(root, store)
    assert second.name != first.name
    second.record()
    assert [Identity(path, store).name for path in (other, root)] == [first.name, second.name]
