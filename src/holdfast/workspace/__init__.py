"""Files of a workspace: saved, compared and put back. See `docs/decisions/0008-workspace-contents.md`."""

from holdfast.workspace.changes import Change
from holdfast.workspace.contents import Contents, Swept, Usage
from holdfast.workspace.plan import Kept, Plan, Why
from holdfast.workspace.snapshot import Snapshot, Tree, Uncovered
from holdfast.workspace.workspace import Divided, Recovered, Restored, Workspace

__all__ = [
    "Change",
    "Contents",
    "Divided",
    "Kept",
    "Plan",
    "Recovered",
    "Restored",
    "Snapshot",
    "Swept",
    "Tree",
    "Uncovered",
    "Usage",
    "Why",
    "Workspace",
]
