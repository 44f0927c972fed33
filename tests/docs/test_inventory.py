"""The inventory: everything that exists is in it, nothing else, and the tests that it names are there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest
from tests.docs.test_docs import COMMANDS, DOCS, ROOT

import holdfast
from holdfast import facade
from holdfast.facade.namespace import Namespace

TEXT = (DOCS / "inventory.md").read_text()
ASKED = {"A": 8, "B": 15, "C": 13, "D": 13, "E": 11, "F": 13}
"""The requirements, by the letter and the number of the last one."""


def rows(width: int) -> list[list[str]]:
    """The cells of all rows of that many columns, without heads."""
    lines = [line for line in TEXT.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == width and row[0] not in ("capability", "id")]


def quoted(cells: list[str]) -> set[str]:
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


CAPABILITIES = rows(5)
REQUIREMENTS = rows(3)
NAMES = quoted([row[2] for row in CAPABILITIES])


def methods() -> set[str]:
    """`hf.NAME` of each public method, `hf.SPACE.NAME` of each namespace."""
    found = {
        f"hf.{name}"
        for name, member in inspect.getmembers_static(holdfast.Holdfast)
        if inspect.isfunction(getattr(member, "__func__", member)) and not name.startswith("_")
    }
    for one in pkgutil.iter_modules(facade.__path__, f"{facade.__name__}."):
        importlib.import_module(one.name)
    for space in Namespace.__subclasses__():
        for name, _ in inspect.getmembers(space, inspect.isfunction):
            if not name.startswith("_"):
                found.add(f"hf.{space.NAMESPACE}.{name}")
    return found - {"hf.at"}


def functions() -> set[str]:
    """Public names that programs call in workflows."""
    return {name for name in holdfast.__all__ if name[0].islower()}


def test_every_command_is_in_it() -> None:
    """And no other."""
    assert quoted([row[1] for row in CAPABILITIES]) == {name.removeprefix("holdfast ") for name in COMMANDS}


def test_every_method_and_function_is_in_it() -> None:
    """Those of `Holdfast`, of its namespaces, and the functions of the package."""
    assert (methods() | functions()) - NAMES == set()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_there(name: str) -> None:
    """A name of the page can be imported, or is a method."""
    if name.startswith("hf."):
        assert name in methods()
        return
    room, _, last = f"holdfast.{name}".rpartition(".")
    assert hasattr(importlib.import_module(room), last) or importlib.import_module(f"{room}.{last}")


def test_every_requirement_is_in_it() -> None:
    """Each once, in order."""
    asked = [f"{letter}{number}" for letter, last in ASKED.items() for number in range(1, last + 1)]
    assert [row[0] for row in REQUIREMENTS] == asked


@pytest.mark.parametrize("row", [*CAPABILITIES, *REQUIREMENTS], ids=lambda row: row[0])
def test_every_row_has_tests(row: list[str]) -> None:
    """Files that are there; of a requirement that is not built yet, a dash."""
    named = quoted(row[-1:])
    assert named or row[-1] == "—"
    assert [name for name in named if not (ROOT / name).is_file()] == []
