"""Work that must not change files: what it changed all the same, in files and repository, is rolled back.

The changes are those of the steps of the work, as the log attributes them (decision 0009): what others
changed meanwhile, outside of its steps, stays. So do commits that a remote has; they are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.agents.deliver.step_changes import windows_of
from holdfast.engine.execution.call import Call
from holdfast.engine.execution.scope import current
from holdfast.engine.files.file_windows import repository_of
from holdfast.engine.files.git_rollback import Attempt, roll_back
from holdfast.engine.primitives.step import step
from holdfast.errors import RollbackRefused
from holdfast.workspace.fs.beneath import shown

if TYPE_CHECKING:
    from holdfast.kernel.state import Saved
    from holdfast.workspace.git.repository import Repository

_DIGITS = 12


class Undone(NamedTuple):
    """Changes of work that only reads.

    files    the paths that were rolled back
    commits  one line for each ref that it moved: from where to where, and whether that was rolled back
    """

    files: list[str]
    commits: list[str]


async def undo_writes(path: str) -> Undone:
    """Roll back what the steps whose keys begin with `path` have done to the repository and to files."""
    windows = windows_of(path, git=True)
    moved = [key for _, _, *found in windows for key in found]
    changed = [one[:2] for one in windows if one[0] != one[1]]
    commits = await _undo_commits.aio(moved) if moved else []
    return Undone(await _undo.aio(changed) if changed else [], commits)


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


@step(name="undo_commits", effect="workspace")
def _undo_commits(keys: list[str]) -> list[str]:
    """The last step first. What cannot be rolled back stays, and so does what an earlier step did."""
    call = current.get()
    assert isinstance(call, Call)
    run = call.execution
    workspace = run.engine.files.of_run(run.state)
    found: list[str] = []
    stays = ""
    for key in reversed(keys):
        attempt = Attempt(run.id, key, *_last(run.state.files, key))
        moves = list(_moves(repository_of(workspace), attempt))
        tips = ""
        if not stays:
            try:
                names, tips = roll_back(workspace, attempt)
            except RollbackRefused as refused:
                stays = ", ".join(refused.kept[:3]) or refused.unknown
            else:
                moves = [one for one in moves if one.ref in names or one.ref == "HEAD"] if names else []
        found[:0] = [one.sentence(tips, stays) for one in moves]
    return found


class _Move(NamedTuple):
    """A ref, or a HEAD that is on no branch, from commit to commit; "" for none."""

    ref: str
    before: str
    after: str

    def sentence(self, tips: str, stays: str) -> str:
        name = self.ref.removeprefix("refs/heads/")
        moved = f"{name} {self.before[:_DIGITS] or 'none'}..{self.after[:_DIGITS] or 'none'}"
        if stays:
            back = f"; `git reset --soft {self.before[:_DIGITS]}` undoes it" if self.before else ""
            return f"{moved}, which stays: {stays}{back}"
        return f"{moved}, which was rolled back{f'; kept under {tips}' if tips and self.after else ''}"


def _last(files: Sequence[Saved], key: str) -> tuple[Saved, Saved]:
    """The files and the repository before the last attempt of the step, and as it left them."""
    own = [one for one in files if one.key == key]
    before = [one for one in own if one.place == "before"][-1]
    return before, [one for one in own if one.place == "after"][-1]


def _moves(repository: Repository, attempt: Attempt) -> Iterator[_Move]:
    to, left = attempt.before.git, attempt.left.git
    assert to is not None and left is not None
    before, after = repository.refs(to).refs, repository.refs(left).refs
    for ref in sorted(before.keys() | after.keys()):
        if before.get(ref) != after.get(ref):
            yield _Move(ref, before.get(ref, ""), after.get(ref, ""))
    if to.branch != left.branch or (not left.branch and to.head != left.head):
        yield _Move("HEAD", to.head, left.head)
