"""A restore that is killed, or that fails, leaves the old files or the new ones."""

from __future__ import annotations

import os

import pytest
from tests.crash import mounts, shim
from tests.workspace import kills

SAMPLE = "15"


@pytest.fixture(autouse=True)
def built() -> None:
    try:
        shim.library()
    except shim.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("how", [(), ("--by-links",)], ids=["exchange", "links"])
def test_killed_at_a_system_call(how: tuple[str, ...]) -> None:
    """A sample of all calls: the old files or the new ones, and both happen."""
    found = kills.tally("--sample", SAMPLE, *how)
    assert found.wrong == []
    assert found.missed == 0
    assert sum(found.changes.values()) >= 200 and min(found.changes.values()) >= kills.EACH
    assert set(found.found) == {"old", "new"}


@pytest.mark.parametrize("how", [(), ("--by-links",)], ids=["exchange", "links"])
def test_killed_in_trouble(how: tuple[str, ...]) -> None:
    """On the way back after a call failed or the disk was full, or in the recovery from another kill."""
    found = kills.tally("--sample", "0", "--troubles", SAMPLE, "--seed", "1", *how)
    assert found.wrong == []
    assert set(found.found) == {"old", "new"}


@pytest.mark.parametrize("how", [(), ("--neighbour",)], ids=["alone", "neighbour"])
def test_a_power_cut_at_a_system_call(how: tuple[str, ...]) -> None:
    """What was not synced is lost, all of it or only contents: the old files or the new ones all the same."""
    if os.geteuid():
        pytest.xfail("only root can mount")
    try:
        with mounts.mounted("ext4"):
            pass
    except mounts.CannotCut as reason:
        pytest.skip(str(reason))
    found = kills.tally("--sample", SAMPLE, "--power", "ext4", *how)
    assert found.wrong == []
    assert set(found.found) == {"old", "new"}
