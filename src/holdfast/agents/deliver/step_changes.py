"""Changes of files by the steps of a run, as the log attributes them (decision 0009)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.values import recorded

if TYPE_CHECKING:
    from holdfast.kernel.state import Saved


def windows_of(path: str) -> list[list[str]]:
    """The snapshots before and after each step whose key begins with `path` and that changed files. They are
    recorded: every replay gets the same."""
    scope = current.get()
    assert type(scope) is Scope
    return recorded("writes", lambda: _windows(scope.execution.state.files, path))


def _windows(files: Sequence[Saved], path: str) -> list[list[str]]:
    """Of a step that was tried again, those of its last attempt."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for saved in files:
        if not saved.key.startswith(path):
            continue
        if saved.place == "before":
            before[saved.key] = saved.snapshot
            after.pop(saved.key, None)
        elif saved.place == "after" and saved.key in before:
            after[saved.key] = saved.snapshot
    return [[before[key], left] for key, left in after.items() if before[key] != left]
