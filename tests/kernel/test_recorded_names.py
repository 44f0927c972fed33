"""Classes of holdfast's own are recorded under names that do not change when their modules move."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast import CommandResult, Decision, FileDiff
from holdfast.agents.tools import Edited
from holdfast.kernel import codec

RECORDED = {
    "holdfast.agents.tool_results:Edited": Edited("reef.txt", 1, (3,)),
    "holdfast.engine.command:CommandResult": CommandResult(("true",), 0, "", "", 0.5),
    "holdfast.engine.gates:Decision": Decision("approved", "ann", "", datetime(2026, 1, 2, tzinfo=UTC)),
    "holdfast.operations.diffing:FileDiff": FileDiff("reef.txt", "added", "added reef.txt\n"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_class_keeps_its_recorded_name(name: str) -> None:
    """A history that an older holdfast wrote is read, and digests of such arguments stay equal."""
    value = RECORDED[name]
    data = codec.encode(value)
    assert f'"{name}"'.encode() in data
    assert codec.decode(data) == value
