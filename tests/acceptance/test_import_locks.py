"""Threads that use holdfast for the first time at once import its parts at once.

Python locks a module while it loads it, and takes the lock of `a.b` before that of the package `a`. A package
whose `__init__` imports `a.b` takes them in the other order: one of two threads then fails with
`_DeadlockError`, or sees half a module. So either a package's `__init__` imports none of its own modules, or
everyone else imports the package first: `from a import b`, never `from a.b import name`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import holdfast

SOURCE = Path(holdfast.__file__).parent


def _imports(nodes: list[ast.stmt], *, is_run: bool) -> Iterator[str]:
    """What statements import, but for types; and what their functions do, unless only loading counts."""
    for node in nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif is_run or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = [child for child in ast.walk(node) if isinstance(child, (ast.Import, ast.ImportFrom))]
            yield from _imports([*inside], is_run=is_run)


def _parsed() -> dict[str, list[ast.stmt]]:
    return {
        ".".join(("holdfast", *path.relative_to(SOURCE).with_suffix("").parts)): ast.parse(
            path.read_text()
        ).body
        for path in SOURCE.rglob("*.py")
    }


def test_no_package_is_entered_beside_its_door():
    modules = _parsed()
    closed = {
        package
        for name, body in modules.items()
        if (package := name.removesuffix(".__init__")) != name and package != "holdfast"
        if any(imported.startswith(f"{package}.") for imported in _imports(body, is_run=False))
    }
    assert {"holdfast.errors", "holdfast.wiring"} <= closed
    beside = [
        f"{name} imports {imported}"
        for name, body in modules.items()
        for imported in _imports(body, is_run=True)
        for package in closed
        if imported.startswith(f"{package}.") and not name.startswith(f"{package}.")
    ]
    assert beside == []
