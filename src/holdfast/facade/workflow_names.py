"""The workflows of a file, read from its text: nothing of it is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_MOST = 10


def workflows_in(path: Path) -> list[str]:
    """The names of its functions under `@workflow`, in order; none if it cannot be read as Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return list(_workflows(tree.body))


def listed(path: Path, shown: str) -> str:
    """The workflows in it, as targets: `flow.py:report, flow.py:main`; empty if there is nothing."""
    names = workflows_in(path)
    more = ", ..." if len(names) > _MOST else ""
    return ", ".join(f"{shown}:{name}" for name in names[:_MOST]) + more


def _workflows(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(_name(decorator) == "workflow" for decorator in node.decorator_list):
                yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for name in _workflows(node.body))


def _name(decorator: ast.expr) -> str:
    """`workflow` of `@workflow`, `@workflow(...)` and `@holdfast.workflow`."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
