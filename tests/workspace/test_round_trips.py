"""Snapshot, edits, restore, on random trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.workspace.properties import round_trip


@pytest.mark.parametrize("seed", range(60))
def test_a_restore_gives_back_every_covered_path(tmp_path: Path, seed: int) -> None:
    """Byte for byte, with mode and type; nothing else is touched; and it can be undone."""
    round_trip(tmp_path, seed)
