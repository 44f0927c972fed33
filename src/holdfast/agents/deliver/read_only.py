"""Work that must not change files: what it changed all the same is rolled back.

The changes are those of the steps of the work, as the log attributes them (decision 0009): what others
changed meanwhile, outside of its steps, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.engine.execution.call import Call
from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.step import step
from holdfast.engine.primitives.values import recorded
from holdfast.workspace.fs.beneath import shown

if TYPE_CHECKING:
    from holdfast.kernel.state import Saved


async def undo_writes(path: str) -> list[str]:
    """Roll back what the steps whose keys begin with `path` have done to files; the paths that were."""
    scope = current.get()
    assert type(scope) is Scope
    windows = recorded("writes", lambda: _windows(scope.execution.state.files, path))
    return await _undo.aio(windows) if windows else []


def _windows(files: Sequence[Saved], path: str) -> list[list[str]]:
    """The snapshots before and after the last attempt of each of these steps that changed files."""
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


@step(name="undo_writes", effect="workspace")
def _undo(windows: list[list[str]]) -> list[str]:
    call = current.get()
    assert isinstance(call, Call)
    workspace = call.execution.engine.files.of_run(call.execution.state)
    changed: dict[str, None] = {}
    with workspace.contents.hold():
        for before, after in reversed(windows):
            for action in workspace.apply(workspace.plan(before, after)).actions:
                changed[shown(action.path)] = None
    return sorted(changed)
