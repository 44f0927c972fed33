"""Trees as deep as the filesystem allows: deeper than a stack, and than a path that a call takes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.workspace.workspace import Workspace

DEPTHS = (700, 2100)
"""More than a function that calls itself survives; and a path of 4,200 bytes, which no call takes whole."""


@pytest.fixture
def root(root: Path) -> Iterator[Path]:
    """Removed by a program that gets to the bottom of it: `shutil.rmtree` does not."""
    yield root
    subprocess.run(["rm", "-rf", root], check=True)


@contextmanager
def at(root: Path, depth: int, *, make: bool = False) -> Iterator[int]:
    """The directory that lies so deep beneath `root`."""
    fd = os.open(root, os.O_RDONLY)
    try:
        for _ in range(depth):
            if make:
                os.mkdir("d", dir_fd=fd)
            inner = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def write(directory: int, name: str, text: bytes) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=directory)
    os.write(fd, text)
    os.close(fd)


def read(directory: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_file_goes_back(root: Path, workspace: Workspace, depth: int) -> None:
    """Changed, and made, at the bottom."""
    with at(root, depth, make=True) as bottom:
        write(bottom, "file", b"good")
        to = workspace.snapshot()
        assert (to.directories, to.files) == (depth, 1)
        write(bottom, "file", b"bad")
        write(bottom, "more", b"bad")
        restored = workspace.apply(workspace.plan(to.id, workspace.snapshot().id))
        assert len(restored.actions) == 2
        assert read(bottom, "file") == b"good"
        assert os.listdir(bottom) == ["file"]
    assert workspace.snapshot().id == to.id


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_tree_comes_and_goes(root: Path, workspace: Workspace, depth: int) -> None:
    """As one, with all that is in it."""
    empty = workspace.snapshot().id
    with at(root, depth, make=True) as bottom:
        write(bottom, "file", b"good")
    full = workspace.snapshot().id
    restored = workspace.apply(workspace.plan(empty, full))
    assert len(restored.actions) == depth + 1
    assert list(root.iterdir()) == []
    workspace.apply(workspace.plan(full, workspace.snapshot().id))
    with at(root, depth) as bottom:
        assert read(bottom, "file") == b"good"
    assert workspace.snapshot().id == full
