"""Files of a workspace: saved, compared and restored. See `docs/decisions/0008-workspace-contents.md`."""

from holdfast.workspace.contents.content_store import Contents, Swept, Usage
from holdfast.workspace.git.ref_plan import GitKept, GitMove, GitPlan, GitSteps, GitWhy, PushedCommit, Refusal
from holdfast.workspace.git.repository import GitMoved, Repository
from holdfast.workspace.restoring.restore_plan import Kept, Plan, Why
from holdfast.workspace.snapshots.changes import Change
from holdfast.workspace.snapshots.snapshot import Snapshot, Tree, Uncovered
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
