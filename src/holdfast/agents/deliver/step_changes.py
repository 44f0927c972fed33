"""Changes of files by the steps of a run, as the log attributes them (decision 0009)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.values import recorded

if TYPE_CHECKING:
    from holdfast.kernel.state import Saved


def windows_of(path: str, *, git: bool = False) -> list[list[str]]:
    """The snapshots before and after each step whose key begins with `path` and that changed files. They are
    recorded: every replay gets the same. With `git`, also of those that moved the repository: each of these
    has the key of its step as a third item."""
    scope = current.get()
    assert type(scope) is Scope
    return recorded("writes", lambda: _windows(scope.execution.state.files, path, git))


def _windows(files: Sequence[Saved], path: str, git: bool) -> list[list[str]]:
    """Of a step that was tried again, those of its last attempt."""
    before: dict[str, Saved] = {}
    after: dict[str, Saved] = {}
    for saved in files:
        if not saved.key.startswith(path):
            continue
        if saved.place == "before":
            before[saved.key] = saved
            after.pop(saved.key, None)
        elif saved.place == "after" and saved.key in before:
            after[saved.key] = saved
    found: list[list[str]] = []
    for key, left in after.items():
        moved = [key] if git and _moved(before[key], left) else []
        if moved or before[key].snapshot != left.snapshot:
            found.append([before[key].snapshot, left.snapshot, *moved])
    return found


def _moved(before: Saved, left: Saved) -> bool:
    """Whether a ref or HEAD is elsewhere. The index alone does not count: `git status` writes it, too."""
    to, now = before.git, left.git
    if to is None or now is None or left.isolated:
        return False
    return (to.refs, to.head, to.branch) != (now.refs, now.head, now.branch)
