"""Sparse files: what is a hole is not read, not kept and not written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.workspace.workspace import Workspace

MB = 1024 * 1024
HOLE = 64 * MB


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.mark.parametrize("data", [os.urandom(MB), b"kelp" * (MB // 4), b""], ids=["raw", "squeezed", "empty"])
def test_holes_stay_holes(
    root: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """In what is kept, and in what is put back; and the content is the same."""
    path = root / "disk.img"
    with path.open("wb") as file:
        file.write(data)
        file.seek(HOLE, os.SEEK_CUR)
        file.write(data[:1000])
        file.truncate(2 * HOLE + 7)
    if on_disk(path) > HOLE:
        pytest.skip("this filesystem has no holes")
    content = path.read_bytes()
    read, plain = [], os.pread

    def pread(fd: int, count: int, at: int) -> bytes:
        read.append(plain(fd, count, at))
        return read[-1]

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", pread)
        first = workspace.snapshot().id
    assert sum(map(len, read)) < 10 * MB
    assert sum(on_disk(kept) for kept in (tmp_path / "store").rglob("*")) < 10 * MB
    path.unlink()
    workspace.apply(workspace.plan(first, workspace.snapshot().id))
    assert path.read_bytes() == content
    assert on_disk(path) < 10 * MB
    assert workspace.contents.verify() == ()


def test_small_files_of_zeros_have_no_holes(root: Path, workspace: Workspace) -> None:
    """A hole that saves nothing only gets in the way."""
    path = root / "zeros"
    path.write_bytes(bytes(4096))
    if not on_disk(path):
        pytest.skip("this filesystem says nothing about blocks")
    first = workspace.snapshot().id
    path.unlink()
    workspace.apply(workspace.plan(first, workspace.snapshot().id))
    assert path.read_bytes() == bytes(4096)
    assert on_disk(path)
