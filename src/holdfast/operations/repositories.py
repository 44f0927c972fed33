"""The git repository of an operation: only with `--git`, and only what the run did to it (decision 0010)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.engine.files.file_windows import left_at, position_of, repository_of
from holdfast.errors import Pushed, Refused, WorkspaceError
from holdfast.kernel import events as e
from holdfast.kernel.file_history import git_gaps, last_git
from holdfast.kernel.operation import OperationState
from holdfast.operations.holding import Dead

if TYPE_CHECKING:
    from holdfast.kernel.state import Saved
    from holdfast.workspace.git.ref_plan import GitPlan
    from holdfast.workspace.git.repository import GitMoved, Repository
    from holdfast.workspace.workspace import Workspace


class GitMove(msgspec.Struct, frozen=True):
    """A ref, or HEAD, from one commit or branch to another; empty for none."""

    ref: str
    before: str
    after: str


class GitKept(msgspec.Struct, frozen=True):
    """A ref, HEAD, the index or the stash that differs and stays, and why."""

    ref: str
    why: str


class GitBack(msgspec.Struct, frozen=True):
    """The effects of an operation on the repository, done or planned.

    moves  refs and HEAD that go back; what they had stays reachable under refs/holdfast/
    kept   what differs and stays, with the reason
    index  `back`, `kept` or `same`
    stash  how many entries leave the stash and come back to it
    progress  `back`, `kept` or `same`: a merge, rebase or the like that is or was in progress
    """

    moves: tuple[GitMove, ...]
    kept: tuple[GitKept, ...]
    index: str
    stash: int = 0
    progress: str = "same"

    JSON: ClassVar = {
        "moves": "refs and HEAD that go back: `ref`, `before`, `after`; empty text for none",
        "kept": "what differs and stays: `ref`, `why`",
        "index": "`back`, `kept` or `same`",
        "stash": "how many entries leave the stash and come back to it",
        "progress": "the same as `index`, for a merge, rebase or the like in progress",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "moves": [{"ref": one.ref, "before": one.before, "after": one.after} for one in self.moves],
            "kept": [{"ref": one.ref, "why": one.why} for one in self.kept],
            "index": self.index,
            "stash": self.stash,
            "progress": self.progress,
        }


class GitGoing(msgspec.Struct):
    """A repository on its way back."""

    root: str
    repository: Repository
    plan: GitPlan

    @property
    def moves(self) -> bool:
        return self.plan.steps.moves_anything

    @property
    def doing(self) -> list[Any]:
        """The actions of `apply`, as JSON data."""
        to, steps = self.plan.to, self.plan.steps
        moves = [(one.ref, one.before, one.after) for one in (steps.head, *steps.moves) if one is not None]
        stash = [] if steps.stash is None else [*steps.stash.drop, *steps.stash.store]
        contents = [
            to.index if steps.index == "back" else "",
            to.progress if steps.progress == "back" else "",
        ]
        return [moves, [one.commit for one in stash], steps.index, steps.progress, contents]

    @property
    def planned(self) -> e.GitPlanned:
        return e.GitPlanned(self.root, self.plan.to, self.plan.now, self.plan.left)

    def apply(self, operation: str) -> e.GitApplied:
        """Raises `GitBusy` with nothing changed, `GitError`."""
        moved: GitMoved = self.repository.apply(self.plan, operation)
        return e.GitApplied(self.root, moved.before, moved.after)

    def take_back(self, done: e.GitApplied, operation: str) -> None:
        self.repository.apply(self.repository.plan(done.before, done.after), f"{operation}-back")

    def report(self) -> GitBack:
        steps = self.plan.steps
        heads = [] if steps.head is None else [steps.head]
        return GitBack(
            moves=tuple(GitMove(one.ref, one.before, one.after) for one in (*heads, *steps.moves)),
            kept=tuple(GitKept(one.ref, one.detail or one.why.value) for one in steps.kept),
            index=steps.index,
            stash=0 if steps.stash is None else len(steps.stash.drop) + len(steps.stash.store),
            progress=steps.progress,
        )


def to_position(
    workspace: Workspace, target: Saved, since: Sequence[Saved], left: e.GitPosition | None
) -> GitGoing:
    """Raises `Refused` if the point has no position, or there is no repository; `Pushed`."""
    if target.git is None:
        raise Refused(
            "--git is not possible to this point: where the git repository stood then was not recorded, "
            "because git could not read it, or by an older holdfast; leave --git out"
        )
    now = position_of(workspace)
    if now is not None and not now.refs:
        raise Refused(f"--git is not possible: there is no git repository around {workspace.root}")
    repository = repository_of(workspace)
    to = repository.with_edits(target.git, git_gaps(since))
    return _going(workspace, repository, to, left)


def stays(
    workspace: Workspace, target: Saved, since: Sequence[Saved], left: e.GitPosition | None
) -> GitBack | None:
    """The changes of the run to the repository since a point, and what `--git` would restore; None if
    there are none, or if they cannot be known."""
    try:
        going = to_position(workspace, target, since, left)
    except (Refused, WorkspaceError):
        return None
    return going.report() if going.moves else None


def to_before(
    workspace: Workspace, operation: OperationState, since: Sequence[Saved], dead: Dead
) -> GitGoing | None:
    """None if the operation moved no repository."""
    done = operation.git_applied
    if done is None:
        return None
    repository = repository_of(workspace)
    gone_on = last_git(since[1:])
    left = gone_on or done.after
    if dead.seen_at:
        left = left_at(workspace, left, dead.seen_at) or left
    to = repository.with_edits(done.before, git_gaps(since)) if gone_on else done.before
    return _going(workspace, repository, to, left)


def again(workspace: Workspace, planned: e.GitPlanned) -> GitGoing:
    """The rest of an operation that was cut off."""
    return _going(workspace, repository_of(workspace), planned.to, planned.left)


def take_back(workspace: Workspace, planned: e.GitPlanned, operation: str) -> None:
    """Where it was before an operation that was cut off, however far that had come. Raises `GitBusy`,
    `GitError`."""
    repository = repository_of(workspace)
    repository.apply(repository.plan(planned.now, planned.to), f"{operation}-back")


def _going(
    workspace: Workspace, repository: Repository, to: e.GitPosition, left: e.GitPosition | None
) -> GitGoing:
    plan = repository.plan(to, left)
    if plan.steps.refused:
        first = next((one for one in plan.steps.refused if one.revert), plan.steps.refused[0])
        raise Pushed(first.ref, [f"{one.commit[:10]} {one.subject}" for one in first.commits], first.revert)
    return GitGoing(str(workspace.root), repository, plan)
