"""Every field that a `to_json` writes is described beside it, and so on the page of JSON output."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.json_view import View

DOCS = Path(__file__).parents[2] / "docs"


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = reference()
VIEWS = {name: cls for name, cls in REFERENCE.views().items() if hasattr(cls, "to_json")}
WRITTEN = {name: cls for name, cls in VIEWS.items() if "to_json" in vars(cls)}
"""Those with a `to_json` of their own."""
DERIVED: dict[str, type[View]] = {name: cls for name, cls in VIEWS.items() if name not in WRITTEN}


@cache
def function(cls: type) -> ast.FunctionDef:
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(vars(cls)["to_json"]))).body
    assert isinstance(found, ast.FunctionDef)
    return found


def keys(written: ast.Dict) -> set[str]:
    return {one.value for one in written.keys if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def ends(cls: type) -> list[ast.Return]:
    """The places where it returns."""
    return [node for node in ast.walk(function(cls)) if isinstance(node, ast.Return)]


def outer(cls: type, returned: list[ast.Return]) -> Iterator[ast.Dict]:
    """The dictionaries that are returned there, not those inside them."""
    made = function(cls)
    named = {
        target.id: node.value
        for node in ast.walk(made)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    waiting = [node.value for node in returned]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Dict):
            yield node
        elif isinstance(node, ast.BinOp):
            waiting += [node.left, node.right]
        elif isinstance(node, ast.IfExp):
            waiting += [node.body, node.orelse]
        elif isinstance(node, ast.Name):
            waiting.append(named[node.id])
        else:
            raise AssertionError(f"{cls.__name__}.to_json returns what this test cannot read")


@pytest.mark.parametrize("name", sorted(DERIVED))
def test_every_key_is_read_from_an_attribute(name: str) -> None:
    """Of a view without a `to_json` of its own: each key of `JSON` has an attribute, and what `JSON_FROM` and
    `JSON_NULL` name are keys."""
    view = DERIVED[name]
    assert {key for key in view.JSON if not hasattr(view, view.JSON_FROM.get(key, key))} == set()
    assert {*view.JSON_FROM, *view.JSON_NULL} <= set(view.JSON)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_every_field_is_described(name: str) -> None:
    """`JSON` has a line for each, and no other, wherever it returns; also for those of the objects inside,
    unless these have a `to_json` of their own."""
    described: dict[str, str] = VIEWS[name].JSON  # type: ignore[attr-defined]
    base = REFERENCE.INHERITED.get(name)
    inherited: set[str] = set(VIEWS[base].JSON) if base else set()  # type: ignore[attr-defined]
    for end in ends(VIEWS[name]):
        written = set().union(*map(keys, outer(VIEWS[name], [end])))
        assert written | inherited == set(described)
    dictionaries = list(outer(VIEWS[name], ends(VIEWS[name])))
    inner = [one for one in ast.walk(function(VIEWS[name])) if isinstance(one, ast.Dict)]
    nested = set().union(*(keys(one) for one in inner if one not in dictionaries), set())
    text = " ".join(described.values())
    assert {one for one in nested if f"`{one}`" not in text} == set()


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_every_view_is_on_the_page(name: str) -> None:
    """With all of its fields."""
    page = (DOCS / "json.md").read_text()
    assert f"`{name}`:" in page
    described: dict[str, str] = VIEWS[name].JSON  # type: ignore[attr-defined]
    assert {key for key in described if f"| `{key}` |" not in page} == set()
