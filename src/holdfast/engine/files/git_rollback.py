"""The repository of an attempt that is rolled back: its commits, branches, tags, stash and index.

An attempt's files alone would be half of it: its commit would stay, and the next attempt would find nothing
to commit. Refs move only from what the attempt left (compare-and-swap); old tips stay under `refs/holdfast/`.
Killed anywhere, it is begun again by the next attempt: what has moved already is seen from what is there.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.files.file_windows import NAMED, repository_of
from holdfast.errors import GitBusy, GitFailed, RollbackRefused

if TYPE_CHECKING:
    from holdfast.kernel.state import Saved
    from holdfast.workspace.git.ref_plan import GitKept, GitPlan, GitSteps
    from holdfast.workspace.git.repository import Repository
    from holdfast.workspace.workspace import Workspace


_PATIENCE_S = 5.0
_PAUSE_S = 0.1


class Attempt(NamedTuple):
    """An attempt of a step that is rolled back: files and repository before it, and as it left them."""

    run_id: str
    key: str
    before: Saved
    left: Saved

    @property
    def operation(self) -> str:
        """The name under which its old tips are kept: the same however often the rollback is begun."""
        text = f"{self.run_id}/{self.key}/{self.before.version}"
        return f"attempt-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class RolledBack(NamedTuple):
    """The refs that were rolled back, by name, and where the old tips are; "" if no ref had one."""

    names: tuple[str, ...] = ()
    tips: str = ""


def remove_locks(workspace: Workspace) -> None:
    """Remove the lock files that an attempt which was killed has left in the repository."""
    from holdfast.workspace.git.stale_locks import remove_stale

    for lock in remove_stale(workspace.root):
        logging.getLogger("holdfast").warning("removed %s, which a git that was killed has left", lock)


def roll_back(workspace: Workspace, attempt: Attempt) -> RolledBack:
    """Raises `RollbackRefused` with nothing changed if another party has changed the same since, a remote has
    its commits, or it is not known what it did; `GitBusy`, `GitError`."""
    to, left = attempt.before.git, attempt.left.git
    repository = repository_of(workspace)
    if to is None or left is None:
        _refuse_unknown(repository, attempt)
        return RolledBack()
    if to == left and not repository.is_shared:
        return RolledBack()
    from holdfast.workspace.git.ref_list import OURS

    if not to.refs and not left.refs:
        if nested := repository.nested_moved(to, left):
            raise _refused(attempt, nested)
        return RolledBack()
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        steps = (plan := repository.plan(to, left)).steps
        if steps.blocked:
            raise _refused(attempt, steps.blocked)
        if not steps.moves_anything:
            _name_others(repository, plan, attempt)
            return RolledBack()
        try:
            repository.apply(plan, attempt.operation)
        except GitBusy:  # another git is at work there: look again at its changes
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
            continue
        _name_others(repository, plan, attempt)
        detached = steps.head is not None and not plan.now.branch
        had_tips = detached or any(move.before for move in steps.moves) or steps.stash is not None
        return RolledBack(_names(steps), f"{OURS}{attempt.operation}/" if had_tips else "")


def _refused(attempt: Attempt, kept: Sequence[GitKept]) -> RollbackRefused:
    refs = [f"{one.ref} ({one.detail or one.why.value})" for one in kept]
    return RollbackRefused(attempt.run_id, attempt.key, refs)


def _refuse_unknown(repository: Repository, attempt: Attempt) -> None:
    """Files alone would be half of the attempt. Where git is still not installed the attempt had none."""
    from holdfast.workspace.git.program import NOT_INSTALLED

    if not repository.exists:
        return
    try:
        repository.position()
        reason = "git could not read it before or after the attempt"
    except GitFailed as error:
        reason = error.reason
        if reason == NOT_INSTALLED and attempt.before.git is None:
            return
    raise RollbackRefused(attempt.run_id, attempt.key, (), reason)


def _name_others(repository: Repository, plan: GitPlan, attempt: Attempt) -> None:
    """A change that stays is reported where worktrees share refs: a command that made such a ref
    itself without HEAD having been there finds it again."""
    from holdfast.workspace.git.ref_plan import GitWhy

    kept = [one.ref for one in plan.steps.kept if one.why is GitWhy.YOURS]
    if kept and repository.is_shared:
        logging.getLogger("holdfast").warning(
            "the earlier attempt of step %s is rolled back without %s: perhaps another worktree's change",
            attempt.key,
            ", ".join(kept[:NAMED]),
        )


def _names(steps: GitSteps) -> tuple[str, ...]:
    names = ["HEAD"] if steps.head is not None else []
    names += [move.ref for move in steps.moves]
    names += ["the stash"] if steps.stash is not None else []
    names += ["the index"] if steps.index == "back" else []
    return (*names, *(["what was in progress"] if steps.progress == "back" else []))
