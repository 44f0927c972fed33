from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    return root


@pytest.fixture
def contents(tmp_path: Path) -> Iterator[Contents]:
    contents = Contents(tmp_path / "store")
    yield contents
    contents.close()


@pytest.fixture
def workspace(root: Path, tmp_path: Path) -> Workspace:
    return Workspace(root, tmp_path / "store")


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Young entries are remembered like old ones."""
    monkeypatch.setattr("holdfast.workspace.snapshots.scan_index._MARGIN_NS", -(10**12))
    monkeypatch.setattr("holdfast.workspace.snapshots.scan_index._COARSE_MARGIN_NS", -(10**12))
