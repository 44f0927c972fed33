"""What stands in the way of a restore: a full disk, no permission. The files are as they were then."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workspace.trees import as_somebody, look, values

from holdfast.errors import RestoreUndone, StoreFull
from holdfast.workspace.workspace import Workspace

ROOM = 4 * 1024 * 1024
FILES = 100
SIZE = 20_000


@pytest.fixture(autouse=True)
def for_root() -> None:
    if os.geteuid():
        pytest.xfail("only root can mount a filesystem and make files that others may not change")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A filesystem with little room."""
    point = tmp_path / "small"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM},mode=0755", "tmpfs", str(point)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


def fill(path: Path, but: int = 0) -> None:
    """Take all the room that there is, but so many bytes."""
    room = os.statvfs(path.parent)
    path.write_bytes(bytes(max(0, room.f_bavail * room.f_bsize - but)))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_full_disk_in_the_middle(small: Path, tmp_path: Path, share: float) -> None:
    """Room for some of the files only: the restore changes nothing, and is done when there is room."""
    root = small / "tree"
    root.mkdir()
    for number in range(FILES):
        (root / f"file{number}").write_bytes(os.urandom(SIZE))
    workspace = Workspace(root, tmp_path / "store")
    good, to = values(look(root)), workspace.snapshot().id
    for number in range(FILES):
        (root / f"file{number}").write_bytes(b"bad")
    left = workspace.snapshot().id
    fill(small / "other", int(FILES * SIZE * share))
    bad = values(look(root))
    with pytest.raises(RestoreUndone, match="No space"):
        workspace.apply(workspace.plan(to, left))
    assert values(look(root)) == bad
    (small / "other").unlink()
    workspace.apply(workspace.plan(to, left))
    assert values(look(root)) == good


def test_a_full_store(small: Path, root: Path) -> None:
    """What is there now cannot be saved, so nothing is touched."""
    (root / "file").write_bytes(b"good")
    workspace = Workspace(root, small / "store")
    to = workspace.snapshot().id
    (root / "file").write_bytes(os.urandom(SIZE))
    left = workspace.snapshot().id
    (root / "file").write_bytes(mine := os.urandom(SIZE))
    fill(small / "other")
    with pytest.raises(StoreFull):
        workspace.plan(to, left)
    assert (root / "file").read_bytes() == mine
    (small / "other").unlink()
    assert [one.path for one in workspace.plan(to, left).kept] == [b"file"]


def test_no_permission_for_one_directory() -> None:
    """Of somebody else: nothing at all is changed, and the error names what is in the way."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        root = directory / "tree"
        for name in ("ours", "theirs"):
            (root / name).mkdir(parents=True)
            (root / name / "file").write_text("good")
        os.chown(root, 65534, 65534)
        os.chown(root / "ours", 65534, 65534)
        as_somebody(remember, directory)
        for name in ("ours", "theirs"):
            (root / name / "file").write_text("bad")
        as_somebody(fail_to_restore, directory)
        assert [path.read_text() for path in sorted(root.glob("*/file"))] == ["bad", "bad"]


def remember(directory: Path) -> None:
    (directory / "id").write_text(Workspace(directory / "tree", directory / "store").snapshot().id)


def fail_to_restore(directory: Path) -> None:
    workspace = Workspace(directory / "tree", directory / "store")
    plan = workspace.plan((directory / "id").read_text(), workspace.snapshot().id)
    before = values(look(workspace.root))
    with pytest.raises(RestoreUndone, match="Permission denied"):
        workspace.apply(plan)
    assert values(look(workspace.root)) == before
    assert workspace.recover() is None
