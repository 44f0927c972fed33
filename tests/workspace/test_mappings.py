"""Files that a program writes through a shared mapping: their times tell of it late."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from holdfast.errors import RestoreUndone
from holdfast.workspace.restoring.restore import Restore
from holdfast.workspace.workspace import Workspace


@pytest.mark.parametrize("theirs", [False, True])
@pytest.mark.parametrize("place", ["array", "new/deep/array"])
def test_what_is_written_through_a_mapping_is_saved(
    root: Path, workspace: Workspace, trusting: None, place: str, theirs: bool
) -> None:
    """Its time does not change before the system writes it back: what a restore takes away is read first."""
    first = workspace.snapshot().id
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
        mapped[:5] = b"dulse"
        left = workspace.snapshot().id
        mapped[:5] = b"laver"
        restored = workspace.apply(workspace.plan(first, left, theirs=theirs))
        if theirs:
            assert not path.exists()
            workspace.apply(workspace.plan(restored.before, restored.after))
        assert path.read_bytes()[:5] == b"laver"


def test_a_mapping_that_never_rests(
    root: Path, workspace: Workspace, trusting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restore is taken back, and says so."""
    first = workspace.snapshot().id
    path = root / "array"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
        mapped[0] = 1
        left = workspace.snapshot().id
        apply = Restore.apply

        def meanwhile(restore: Restore) -> None:
            mapped[0] += 1
            apply(restore)

        monkeypatch.setattr(Restore, "apply", meanwhile)
        with pytest.raises(RestoreUndone, match="array was changed meanwhile"):
            workspace.apply(workspace.plan(first, left, theirs=True))
    assert os.listdir(root) == ["array"]
    assert path.read_bytes()[0] == 4
