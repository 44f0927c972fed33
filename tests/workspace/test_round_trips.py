"""Snapshot, edits, restore, on random trees."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from tests.workspace.properties import round_trip
from tests.workspace.trees import as_somebody


@pytest.mark.parametrize("seed", range(40))
def test_a_restore_gives_back_every_covered_path(tmp_path: Path, seed: int) -> None:
    """Byte for byte, with mode and type; nothing else is touched; and it can be undone."""
    round_trip(tmp_path, seed)


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_read_only_files_and_directories_are_no_obstacle(seed: int) -> None:
    """For their owner, who is not root."""
    with tempfile.TemporaryDirectory() as made:
        as_somebody(lambda directory: round_trip(directory, seed), Path(made))
