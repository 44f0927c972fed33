"""Worktrees share branches, tags and the stash: only what this one moved counts as its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workspace.repositories import IDENTITY, commit, git, look, make

from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.git.ref_plan import GitPlan, GitWhy
from holdfast.workspace.git.repository import Repository

Act = Callable[[Path], object]


@pytest.fixture
def there(tmp_path: Path, root: Path) -> Path:
    """Another worktree of the repository at `root`, on the branch `agent2`."""
    make(root)
    git(root, "worktree", "add", "-q", "-b", "agent2", str(tmp_path / "there"))
    return tmp_path / "there"


@pytest.fixture
def repository(root: Path, there: Path, contents: Contents) -> Repository:
    return Repository(root, contents)


def plan(repository: Repository, *acts: tuple[Act, Path], died: bool = False) -> GitPlan:
    """To take back what a run did, by what is recorded of it when it ends, or by times after it died."""
    to = repository.position()
    for act, where in acts:
        act(where)
    if died:
        return repository.plan(to, repository.left_at(to, time.time_ns()))
    return repository.plan(to, repository.own(to, repository.position()))


def commit_and_tag(root: Path) -> None:
    commit(root, root.name)
    git(root, "tag", "v2")
    git(root, "tag", "-a", "v3", "-m", "three")


def leave_made_branch(root: Path) -> None:
    git(root, "checkout", "-qb", "made")
    commit(root, "made")
    git(root, "checkout", "-q", "agent2")


def stash(root: Path) -> None:
    (root / "a").write_text(f"stashed in {root.name}")
    git(root, "stash")


THEIRS: dict[str, Act] = {
    "commit and tag": commit_and_tag,
    "switch away": lambda root: (commit_and_tag(root), git(root, "checkout", "-q", "--detach")),
    "a branch made and left": leave_made_branch,
    "a tag and a branch of an old commit": lambda root: (
        git(root, "tag", "v2"),
        git(root, "branch", "other"),
    ),
    "a renamed branch": lambda root: git(root, "branch", "-m", "agent3"),
    "amend": lambda root: (commit(root, "x"), git(root, "commit", "-q", "--amend", "-m", "y")),
    "rebase": lambda root: (commit(root, "x"), git(root, "rebase", "-q", "--onto", "side", "HEAD~1")),
    "merge": lambda root: (commit(root, "x"), git(root, "merge", "-q", "--no-ff", "-m", "m", "side")),
    "a commit of another date": lambda root: dated(root, "x"),
    "stash": stash,
}


def dated(root: Path, name: str) -> None:
    (root / name).write_text(name)
    git(root, "add", name)
    env = {**IDENTITY, "GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z", "PATH": "/usr/bin:/bin"}
    subprocess.run(["git", "-C", root, "commit", "-qm", name], env=env, check=True)


@pytest.mark.parametrize("died", [False, True], ids=["ended", "died"])
@pytest.mark.parametrize("act", THEIRS)
def test_what_another_worktree_did_stays(
    root: Path, there: Path, repository: Repository, act: str, died: bool
) -> None:
    """A run that did nothing moves nothing back, and nothing stands against that."""
    found = plan(repository, (THEIRS[act], there), died=died)
    assert not found.steps.moves_anything and not found.steps.blocked
    assert {one.why for one in found.steps.kept} == {GitWhy.YOURS}


OWN: dict[str, Act] = {
    "commit and tag": commit_and_tag,
    "a branch made and left": lambda root: (
        git(root, "checkout", "-qb", "made"),
        commit(root, "made"),
        git(root, "branch", "beside"),
        git(root, "checkout", "-q", "main"),
    ),
    "detached": lambda root: (
        git(root, "checkout", "-q", "--detach"),
        commit(root, "x"),
        git(root, "tag", "v2"),
    ),
    "a renamed branch": lambda root: (git(root, "branch", "-m", "trunk"), commit(root, "x")),
    "a deleted branch": lambda root: git(root, "branch", "-qD", "side"),
    "rebase": lambda root: (
        git(root, "checkout", "-q", "side"),
        commit(root, "x"),
        git(root, "rebase", "-q", "main"),
        git(root, "checkout", "-q", "main"),
    ),
    "a commit of another date": lambda root: (
        git(root, "checkout", "-q", "side"),
        dated(root, "x"),
        git(root, "checkout", "-q", "main"),
    ),
    "stash": stash,
}


@pytest.mark.parametrize("died", [False, True], ids=["ended", "died"])
@pytest.mark.parametrize("act", OWN)
def test_what_a_run_did_goes_back_beside_another_worktree(
    root: Path, there: Path, repository: Repository, act: str, died: bool
) -> None:
    """Its own moves go back, those of the other worktree stay, whichever came first."""
    before = look(root)
    other: Act = lambda root: (commit(root, "theirs"), git(root, "tag", "theirs"))  # noqa: E731
    found = plan(repository, (OWN[act], root), (other, there), died=died)
    assert {one.ref for one in found.steps.kept} == {"refs/heads/agent2", "refs/tags/theirs"}
    repository.apply(found, "op-1")
    tip = git(there, "rev-parse", "HEAD")
    lines = look(root).refs.replace(f"agent2 {tip}", f"agent2 {git(there, 'rev-parse', 'HEAD~1')}")
    assert lines.replace(f"\nrefs/tags/theirs {tip}", "") == before.refs
    assert (look(root).head, look(root).stash) == (before.head, before.stash)


def go_to(branch: str) -> Act:
    return lambda root: git(root, "checkout", "-q", branch)


@pytest.mark.parametrize("first", ["here", "there"])
def test_a_branch_that_both_moved_is_not_rolled_back(
    root: Path, there: Path, repository: Repository, first: str
) -> None:
    """One commits on it and leaves it, the other one goes there and commits on top: nothing moves."""
    one, two = (root, there) if first == "here" else (there, root)
    work: Act = lambda root: commit(root, root.name)  # noqa: E731
    left = go_to("main" if one == root else "agent2")
    acts = [(go_to("side"), one), (work, one), (left, one), (go_to("side"), two), (work, two)]
    if two == root:
        acts.append((go_to("main"), root))
    found = plan(repository, *acts)
    assert [(one.ref, one.why) for one in found.steps.blocked] == [("refs/heads/side", GitWhy.CONFLICT)]
    assert not found.steps.moves


def test_a_branch_of_the_run_that_another_worktree_is_on_now(
    root: Path, there: Path, repository: Repository
) -> None:
    """It cannot go back, and without it the rest would be a half of what the run did."""
    acts = [(go_to("side"), root), (lambda root: commit(root, "x"), root), (go_to("main"), root)]
    found = plan(repository, *acts, (go_to("side"), there))
    assert [(one.ref, one.why) for one in found.steps.blocked] == [("refs/heads/side", GitWhy.ELSEWHERE)]


def test_the_worktrees_of_a_bare_repository(tmp_path: Path, root: Path, contents: Contents) -> None:
    """None of them is the main one."""
    make(root)
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare")
    for name in ("one", "two"):
        git(tmp_path / "bare", "worktree", "add", "-q", "-b", name, str(tmp_path / name))
    repository = Repository(tmp_path / "one", contents)
    found = plan(
        repository, (commit_and_tag, tmp_path / "two"), (lambda root: commit(root, "x"), tmp_path / "one")
    )
    assert [move.ref for move in found.steps.moves] == ["refs/heads/one"]
    assert not found.steps.blocked


def test_what_other_worktrees_did_between_two_positions_stays_in_a_rewind(
    root: Path, there: Path, repository: Repository
) -> None:
    """`own` and what it leaves out divide the time between two positions: only the first goes back."""
    to = repository.position()
    commit(root, "x")
    commit_and_tag(there)
    now = repository.position()
    own = repository.own(to, now)
    found = repository.plan(repository.with_edits(to, [(own, now)]), now)
    assert [move.ref for move in found.steps.moves] == ["refs/heads/main"]
    assert found.steps.kept == ()
