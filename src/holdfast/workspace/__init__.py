"""Files of a workspace: saved, compared and put back. See `docs/decisions/0008-workspace-contents.md`."""

from holdfast.workspace.changes import Change
from holdfast.workspace.contents import Contents, Swept, Usage
from holdfast.workspace.git_plan import GitKept, GitMove, GitPlan, GitSteps, GitWhy, PushedCommit, Refusal
from holdfast.workspace.plan import Kept, Plan, Why
from holdfast.workspace.repository import GitMoved, Repository
from holdfast.workspace.snapshot import Snapshot, Tree, Uncovered
from holdfast.workspace.workspace import Divided, Recovered, Restored, Workspace

__all__ = [
    "Change",
    "Contents",
    "Divided",
    "GitKept",
    "GitMove",
    "GitMoved",
    "GitPlan",
    "GitSteps",
    "GitWhy",
    "Kept",
    "Plan",
    "PushedCommit",
    "Recovered",
    "Refusal",
    "Repository",
    "Restored",
    "Snapshot",
    "Swept",
    "Tree",
    "Uncovered",
    "Usage",
    "Why",
    "Workspace",
]
