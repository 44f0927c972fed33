"""Work that must not change files: what it changed all the same is rolled back.

The changes are those of the steps of the work, as the log attributes them (decision 0009): what others
changed meanwhile, outside of its steps, stays.
"""

from __future__ import annotations

from holdfast.agents.deliver.step_changes import windows_of
from holdfast.engine.execution.call import Call
from holdfast.engine.execution.scope import current
from holdfast.engine.primitives.step import step
from holdfast.workspace.fs.beneath import shown


async def undo_writes(path: str) -> list[str]:
    """Roll back what the steps whose keys begin with `path` have done to files; the paths that were."""
    windows = windows_of(path)
    return await _undo.aio(windows) if windows else []


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
