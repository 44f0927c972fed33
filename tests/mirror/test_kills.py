"""A drain that is killed, or for which the disk is full, leaves each file old or new."""

from __future__ import annotations

import pytest
from tests.crash import shim
from tests.mirror import kills

SAMPLE = "30"


def test_killed_at_a_system_call() -> None:
    """A sample of all calls (`python -m tests.mirror.kills` strikes every one): no file is torn, and the next
    drain comes to the same files as one that nothing disturbed."""
    try:
        shim.library()
    except shim.Unavailable as reason:
        pytest.skip(str(reason))
    found = kills.told("--sample", SAMPLE)
    assert found["wrong"] == []
    assert found["struck"] >= 30 and found["calls"] >= 40
