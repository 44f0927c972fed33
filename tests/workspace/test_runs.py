"""A run that works on files, killed anywhere: as if nobody had disturbed it."""

from __future__ import annotations

import pytest
from tests.crash import shim
from tests.workspace import runs

SAMPLE = "12"


def test_killed_at_a_file_operation() -> None:
    """A sample: files and state are those of an undisturbed run, and a rewind is done or not done."""
    try:
        shim.library()
    except shim.Unavailable as reason:
        pytest.skip(str(reason))
    told = list(runs.tell("--sample", SAMPLE, "--seed", "1"))
    assert len(told) == int(SAMPLE)
    assert [one for one in told if one["wrong"]] == []
    assert sum(one["struck"] for one in told) >= int(SAMPLE)
