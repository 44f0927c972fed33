"""An approval that is bound to a snapshot holds for these files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import GateError, Holdfast, approval, checkpoint, workflow
from holdfast.errors import SnapshotNotFound


@workflow
def ship() -> str:
    checkpoint("draft")
    return approval("ship").outcome


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "draft").write_text("kelp\n")
    return root


@pytest.fixture
def hf(tmp_path: Path, root: Path) -> Iterator[Holdfast]:
    with Holdfast(tmp_path / "home", workspace=root, durability="process") as opened:
        yield opened


@pytest.fixture
def snapshot(hf: Holdfast) -> str:
    """Of the files that the run `r` waits with."""
    run = hf.with_id("r").start(ship)
    while hf.get("r").status != "waiting":
        assert not run.done()
    found: list[str] = [event.data["snapshot"] for event in hf.events("r") if event.data.get("snapshot")]
    return found[-1]


def test_files_that_are_those_of_the_snapshot(hf: Holdfast, snapshot: str) -> None:
    """It is approved, by the id or the beginning of it."""
    assert hf.approve("r", snapshot=snapshot[:12], by="ann") == "ship#1"
    assert hf.get("r").gates[0].decision == "approved by ann"


def test_files_that_changed_since(hf: Holdfast, root: Path, snapshot: str) -> None:
    """The paths are named, the gate stays open, and what is as it was again can be approved."""
    (root / "draft").write_text("dulse\n")
    (root / "more").write_text("new\n")
    with pytest.raises(GateError, match="draft, more changed since"):
        hf.approve("r", snapshot=snapshot)
    assert hf.get("r").gates[0].is_open
    (root / "draft").write_text("kelp\n")
    (root / "more").unlink()
    hf.approve("r", snapshot=snapshot)
    assert not hf.get("r").gates[0].is_open


def test_a_snapshot_that_there_is_not(hf: Holdfast, snapshot: str) -> None:
    """Nothing is approved."""
    with pytest.raises(SnapshotNotFound):
        hf.approve("r", snapshot="f" * 64)
    assert hf.get("r").gates[0].is_open
