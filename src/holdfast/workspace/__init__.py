"""Files of a workspace: saved, compared and put back. See `docs/decisions/0008-workspace-contents.md`."""

from holdfast.workspace.contents import Contents, Swept, Usage
from holdfast.workspace.snapshot import Snapshot, Tree, Uncovered
from holdfast.workspace.workspace import Workspace

__all__ = ["Contents", "Snapshot", "Swept", "Tree", "Uncovered", "Usage", "Workspace"]
