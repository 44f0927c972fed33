"""Classes of holdfast's own are recorded under names that do not change when their modules move."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime

import pytest

from holdfast import CommandResult, Decision, FileDiff
from holdfast.agents.tools import Edited
from holdfast.kernel import classes, codec

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


@pytest.mark.parametrize("module", [name for name in classes._recorded if name.startswith("holdfast.")])
def test_every_class_of_a_moved_module_is_found_by_its_recorded_name(module: str) -> None:
    """Also if the module of then is divided into several today, and in a run with an alias of its own."""
    own = [one for one in vars(importlib.import_module(module)).values() if isinstance(one, type)]
    own = [one for one in own if one.__module__ == module]
    assert own
    assert [classes.find(classes.name_of(one)) for one in own] == own
    inside = classes.enter_alias("__main__", "some_script")
    try:
        assert [classes.findable_name(one) for one in own] == [classes.name_of(one) for one in own]
    finally:
        classes.leave_alias(inside)
