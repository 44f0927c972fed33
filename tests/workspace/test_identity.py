"""What is kept of a directory is found again after a move, and when its device has another number."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from holdfast.workspace.fs.workspace_identity import Identity, Root
from holdfast.workspace.restoring.restore import Restore
from holdfast.workspace.workspace import Workspace


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


@pytest.mark.parametrize("device", [None, 0xABCDEF], ids=["same number", "another number"])
def test_a_directory_is_the_same_by_another_path(
    root: Path, workspace: Workspace, tmp_path: Path, device: int | None
) -> None:
    """As where it is mounted a second time: both take the same locks."""
    Identity(root, tmp_path / "store").record()
    if device is not None:
        renumber(tmp_path / "store", device)
    mount = tmp_path / "mount"
    mount.symlink_to(root)
    assert Identity(mount, tmp_path / "store").name == Identity(root, tmp_path / "store").name


@pytest.mark.parametrize("filesystem", [0, 7], ids=["no id", "an id"])
def test_another_directory_at_the_old_path_is_another(tmp_path: Path, filesystem: int) -> None:
    """Without an id of the filesystem, what has the inode at the old path is taken for the one that was
    there: two filesystems may have changed their numbers."""
    here = Root(1, 128, b"here", filesystem)
    (tmp_path / "old").mkdir()
    old = Root.at(os.fsencode(tmp_path / "old"))
    moved = msgspec.structs.replace(here, path=old.path)
    assert moved.is_now(here)
    same_inode = msgspec.structs.replace(moved, inode=old.inode)
    assert same_inode.is_now(msgspec.structs.replace(here, inode=old.inode)) == bool(filesystem)


def test_another_filesystem_at_the_same_path_is_another(root: Path) -> None:
    """As two containers have it that share a store: the same path, the same inode, and other files."""
    here = Root.at(os.fsencode(root))
    before = msgspec.structs.replace(here, device=0xABCDEF)
    assert before.is_now(here)
    assert not msgspec.structs.replace(before, filesystem=here.filesystem + 1).is_now(here)


def test_a_directory_that_has_the_default_name_of_another_gets_one_of_its_own(
    root: Path, workspace: Workspace, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    first = Identity(root, store)
    first.record()
    (record,) = store.glob("root-*")
    other = msgspec.structs.replace(first.root, filesystem=first.root.filesystem + 1)
    record.write_bytes(msgspec.msgpack.encode(other))
    second = Identity(root, store)
    assert second.name != first.name
    second.record()
    assert Identity(root, store).name == second.name


def test_a_root_that_is_not_used_again_leaves_nothing(
    root: Path, workspace: Workspace, tmp_path: Path
) -> None:
    (root / "file").write_text("new")
    to = workspace.snapshot().id
    (root / "file").write_text("old")
    workspace.apply(workspace.plan(to, workspace.snapshot().id))
    workspace.forget()
    assert not [*(tmp_path / "store").glob(f"*-{os.stat(root).st_ino:x}*")]
