"""Where a git repository stands, and going back: what moves, what is kept and named, what is refused."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.workspace.repositories import IDENTITY, Seen, commit, git, look, make, ours

from holdfast.errors import GitBusy, GitError, GitFailed
from holdfast.kernel.events import GitPosition
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.git.ref_plan import GitPlan, GitWhy, StashMove
from holdfast.workspace.git.repository import NO_REPOSITORY, GitMoved, Repository
from holdfast.workspace.git.stale_locks import remove_stale

SAFE = {
    **os.environ,
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
Act = Callable[[Path], object]


@pytest.fixture
def repository(root: Path, contents: Contents) -> Repository:
    make(root)
    return Repository(root, contents)


def position(repository: Repository) -> GitPosition:
    return repository.position()


def plan(repository: Repository, root: Path, run: Act, person: Act | None = None) -> GitPlan:
    """The plan to take back what a run did, after a person may have done something too."""
    to = position(repository)
    run(root)
    left = position(repository)
    if person is not None:
        person(root)
    return repository.plan(to, left)


def undo(repository: Repository, moved: GitMoved) -> GitMoved:
    return repository.apply(repository.plan(moved.before, moved.after), "undo-1")


def kept(found: GitPlan) -> dict[str, GitWhy]:
    return {one.ref: one.why for one in found.steps.kept}


def moves(found: GitPlan) -> set[str]:
    return {move.ref for move in found.steps.moves}


def files_of(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file()
    }


# Reading


def test_reading_changes_nothing(root: Path, repository: Repository) -> None:
    """Not one file of .git is made, removed or written, also if files changed without git knowing."""
    (root / "a").write_text("other")
    os.utime(root / "b")
    before = files_of(root / ".git")
    position(repository)
    assert files_of(root / ".git") == before


def test_a_position(root: Path, repository: Repository) -> None:
    """HEAD, refs by their full names, tags as tag objects, the stash as a list; not what is ours."""
    (root / "a").write_text("other")
    git(root, "stash")
    git(root, "update-ref", "refs/holdfast/x/heads/main", "HEAD")
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD~1")
    git(root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    git(root, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    found, refs = position(repository), repository.refs(position(repository))
    head, first = git(root, "rev-parse", "HEAD", "HEAD~1").split()
    assert (found.head, found.branch, found.busy) == (head, "refs/heads/main", "")
    assert refs.refs == {
        "refs/heads/alias": "ref: refs/heads/main",
        "refs/heads/main": head,
        "refs/heads/side": first,
        "refs/tags/v1": git(root, "rev-parse", "v1"),
    }
    assert refs.remote == {"refs/remotes/origin/main": first}
    assert [one.commit for one in refs.stash] == [git(root, "rev-parse", "refs/stash")]


def test_a_position_stays_the_same(root: Path, repository: Repository, contents: Contents) -> None:
    """Packed or not, asked from a subdirectory: the same contents, and nothing new is kept."""
    first = position(repository)
    git(root, "pack-refs", "--all")
    (root / "inner").mkdir()
    held = contents.du()
    assert position(Repository(root / "inner", contents)) == first
    assert contents.du() == held


def test_a_detached_head_and_none_at_all(tmp_path: Path, root: Path, repository: Repository) -> None:
    """Detached: no branch. Before the first commit: a branch, and no commit, no index."""
    git(root, "checkout", "-q", "--detach", "side")
    found = position(repository)
    assert (found.head, found.branch) == (git(root, "rev-parse", "side"), "")
    git(tmp_path, "init", "-qb", "trunk", "fresh")
    found = position(Repository(tmp_path / "fresh", Contents(tmp_path / "other")))
    assert (found.head, found.branch, found.index) == ("", "refs/heads/trunk", "")


def begin_conflict(root: Path, command: str) -> None:
    git(root, "checkout", "-q", "side")
    commit(root, "b", "another")
    git(root, *command.split(), "main", ok=False)


BUSY = {
    "merge": lambda root: begin_conflict(root, "merge"),
    "rebase": lambda root: begin_conflict(root, "rebase"),
    "cherry-pick": lambda root: begin_conflict(root, "cherry-pick"),
    "revert": lambda root: (commit(root, "b", "x"), git(root, "revert", "HEAD~1", ok=False)),
    "bisect": lambda root: git(root, "bisect", "start"),
}


def progress(root: Path) -> dict[str, bytes]:
    """All files of .git that say what is in progress."""
    names = ("MERGE_*", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_*", "rebase-*/*", "sequencer/*")
    found = {path for name in names for path in (root / ".git").glob(name) if path.is_file()}
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.parametrize("kind", BUSY)
def test_what_a_run_began_and_did_not_end_goes_back(root: Path, repository: Repository, kind: str) -> None:
    """It is recorded, file by file; undo brings it back, and it can be ended then."""
    before = look(root)
    found = plan(repository, root, lambda root: (git(root, "tag", "mine"), BUSY[kind](root)))
    assert (found.now.busy, kept(found), found.steps.progress) == (kind, {}, "back")
    after, files = look(root), progress(root)
    assert files
    moved = repository.apply(found, "op-1")
    assert (look(root), progress(root), position(repository).busy) == (before, {}, "")
    undo(repository, moved)
    assert (look(root), progress(root), position(repository).busy) == (after, files, kind)


@pytest.mark.parametrize("kind", BUSY)
def test_what_somebody_else_has_in_progress(root: Path, repository: Repository, kind: str) -> None:
    """While it lasts nothing is moved: what would have been is named."""
    found = plan(repository, root, lambda root: git(root, "tag", "mine"), BUSY[kind])
    assert found.now.busy == kind
    assert (found.steps.moves, found.steps.head, found.steps.stash) == ((), None, None)
    assert kept(found)["refs/tags/mine"] is GitWhy.BUSY
    before = look(root), progress(root)
    repository.apply(found, "op-1")
    assert (look(root), progress(root)) == before


def test_something_in_progress_then_is_in_progress_again(root: Path, repository: Repository) -> None:
    """A merge that the run ended; one that somebody ended since is named, and so is one of which an older
    version has recorded no files."""
    BUSY["merge"](root)
    before, files = look(root), progress(root)
    found = plan(repository, root, lambda root: git(root, "commit", "-qam", "merged"))
    assert kept(found) == {}
    old = repository.plan(msgspec.structs.replace(found.to, progress=""), found.left)
    assert kept(old) == {"merge": GitWhy.UNFINISHED}
    repository.apply(found, "op-1")
    assert (look(root), progress(root)) == (before, files)
    found = plan(repository, root, ACTS["tags"], lambda root: git(root, "commit", "-qam", "merged"))
    assert kept(found)["merge"] is GitWhy.UNFINISHED


def test_the_same_in_progress_then_and_now(root: Path, repository: Repository) -> None:
    """What the run did to the index of a merge goes back; the merge stays."""
    BUSY["merge"](root)
    before, files = look(root), progress(root)
    found = plan(repository, root, lambda root: git(root, "add", "."))
    assert (kept(found), found.steps.progress) == ({}, "same")
    repository.apply(found, "op-1")
    assert (look(root), progress(root)) == (before, files)


def test_no_position(tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    """No repository, or none with files, is a position. One that git cannot read is an error."""
    git(tmp_path, "init", "-q", "--bare", "bare")
    (tmp_path / "plain").mkdir()
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    broken = Repository(tmp_path / "broken", contents)
    with pytest.raises(GitFailed, match="not a git repository"):
        broken.position()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitFailed, match="git is not installed"):
        broken.left_at(NO_REPOSITORY, 0)
    for name in ("plain", "bare"):
        assert Repository(tmp_path / name, contents).position() == NO_REPOSITORY
        assert Repository(tmp_path / name, contents).left_at(NO_REPOSITORY, 0) == NO_REPOSITORY


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a repository of somebody else")
def test_a_repository_of_somebody_else(root: Path, repository: Repository) -> None:
    """Git refuses to look at it, and says why."""
    there = position(repository)
    for path in (root, root / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(GitFailed, match="dubious ownership"):
        repository.position()
    with pytest.raises(GitError, match="dubious ownership"):
        repository.plan(there, there)


def test_names_that_are_not_text_are_left_alone(root: Path, repository: Repository) -> None:
    """Such a ref is neither recorded nor touched; a HEAD on such a branch has no position."""
    strange = b"refs/heads/\xff"
    subprocess.run(["git", "-C", root, "update-ref", strange, "HEAD"], check=True)
    assert b"\xff".decode(errors="surrogateescape") not in "".join(repository.refs(position(repository)).refs)
    subprocess.run(["git", "-C", root, "symbolic-ref", "HEAD", strange], check=True)
    with pytest.raises(GitFailed, match="UTF-8"):
        repository.position()


def test_the_callers_environment_does_not_matter(
    tmp_path: Path, root: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a hook or an alias of git, which name another repository: it is still this one."""
    there = position(repository)
    git(tmp_path, "init", "-qb", "trunk", "other")
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_NAMESPACE", "other")
    assert position(repository) == there


# Going back


def swap_directory_and_name(root: Path) -> None:
    git(root, "branch", "-D", "side")
    git(root, "branch", "side/inner")


def stash_twice(root: Path) -> None:
    for text in ("one", "two"):
        (root / "a").write_text(text)
        git(root, "stash", "push", "-m", text)


def commit_detached(root: Path) -> None:
    git(root, "checkout", "-q", "--detach")
    commit(root, "new")


def rebase(root: Path) -> None:
    git(root, "checkout", "-q", "side")
    commit(root, "new")
    git(root, "rebase", "-q", "main")


ACTS: dict[str, Act] = {
    "commit": lambda root: commit(root, "new"),
    "amend": lambda root: git(root, "commit", "-q", "--amend", "-m", "better"),
    "reset": lambda root: git(root, "reset", "-q", "--hard", "HEAD~1"),
    "switch": lambda root: git(root, "checkout", "-q", "side"),
    "branch": lambda root: (git(root, "checkout", "-qb", "new"), commit(root, "new")),
    "orphan": lambda root: (git(root, "checkout", "-q", "--orphan", "new"), commit(root, "new")),
    "unborn": lambda root: git(root, "checkout", "-q", "--orphan", "new"),
    "rename": lambda root: git(root, "branch", "-m", "renamed"),
    "delete": lambda root: git(root, "branch", "-D", "side"),
    "swap": swap_directory_and_name,
    "detach": lambda root: git(root, "checkout", "-q", "--detach"),
    "commit detached": commit_detached,
    "merge": lambda root: (
        commit(root, "new"),
        git(root, "checkout", "-q", "side"),
        git(root, "merge", "main"),
    ),
    "rebase": rebase,
    "tags": lambda root: (
        git(root, "tag", "-d", "v1"),
        git(root, "tag", "v2"),
        git(root, "tag", "v3", "side"),
    ),
    "move tag": lambda root: git(root, "tag", "-f", "v1", "main"),
    "note": lambda root: git(root, "notes", "add", "-m", "well"),
    "stage": lambda root: ((root / "new").write_text("new"), git(root, "add", "new")),
    "remove": lambda root: git(root, "rm", "-q", "a"),
    "no index": lambda root: (root / ".git" / "index").unlink(),
    "stash": stash_twice,
    "pack": lambda root: (commit(root, "new"), git(root, "pack-refs", "--all"), git(root, "gc", "-q")),
    "empty refs": lambda root: [path.unlink() for path in (root / ".git/refs").rglob("*") if path.is_file()],
}


@pytest.mark.parametrize("act", ACTS)
def test_whatever_a_run_did_goes_back_and_comes_back(root: Path, repository: Repository, act: str) -> None:
    """HEAD, refs, stash and index are as before, no file is touched; undo makes them as the run left them,
    and can be undone as well."""
    (root / "staged").write_text("mine")
    git(root, "add", "staged")
    before, files = look(root), files_of(root / ".git" / "refs")
    found = plan(repository, root, ACTS[act])
    after, there = look(root), {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}
    assert (before, files) != (after, files_of(root / ".git" / "refs"))
    assert kept(found) == {}
    moved = repository.apply(found, "op-1")
    assert look(root) == before
    assert {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()} == there
    again = undo(repository, moved)
    assert look(root) == after
    repository.apply(repository.plan(again.before, again.after), "undo-2")
    assert look(root) == before
    assert [path.name for path in (root / ".git").glob("index*")] == ["index"]


def test_the_first_commit_goes_back(root: Path, contents: Contents) -> None:
    """To a branch without a commit, and no index at all."""
    git(root, "init", "-qb", "main")
    repository = Repository(root, contents)
    before = look(root)
    moved = repository.apply(plan(repository, root, lambda root: commit(root, "a")), "op-1")
    assert look(root) == before and not (root / ".git" / "index").exists()
    undo(repository, moved)
    assert git(root, "log", "--format=%s") == "about a"


def test_a_stash_that_was_taken_comes_back(root: Path, repository: Repository) -> None:
    """With its place in the list and its message."""
    stash_twice(root)
    before = look(root)
    assert len(before.stash.splitlines()) == 2
    repository.apply(plan(repository, root, lambda root: git(root, "stash", "drop", "stash@{1}")), "op-1")
    assert look(root) == before


def test_old_tips_stay_reachable(root: Path, repository: Repository) -> None:
    """Of branches that moved or went, of a detached HEAD, of the stash."""

    def run(root: Path) -> None:
        commit(root, "new")
        git(root, "checkout", "-qb", "made")
        commit(root, "newer")
        stash_twice(root)

    found = plan(repository, root, run)
    main, made = git(root, "rev-parse", "main", "made").split()
    stashed = git(root, "stash", "list", "--format=%H").split()
    repository.apply(found, "op-1")
    assert ours(root) == {
        "refs/holdfast/op-1/heads/main": main,
        "refs/holdfast/op-1/heads/made": made,
        **{f"refs/holdfast/op-1/stash/{one}": one for one in stashed},
    }
    assert "holdfast: op-1" in git(root, "reflog", "HEAD")


def test_hooks_do_not_run(tmp_path: Path, root: Path, repository: Repository) -> None:
    """Neither the repository's own nor those that a configuration names."""
    told = tmp_path / "told"
    hooks = tmp_path / "hooks"
    for directory in (root / ".git" / "hooks", hooks):
        directory.mkdir(exist_ok=True)
        for name in ("reference-transaction", "post-checkout", "post-index-change"):
            (directory / name).write_text(f"#!/bin/sh\ntouch {told}\n")
            (directory / name).chmod(0o755)
    found = plan(repository, root, ACTS["branch"])
    for setting in ("", str(hooks)):
        if setting:
            git(root, "config", "core.hooksPath", setting)
        told.unlink(missing_ok=True)
        moved = repository.apply(found, "op-1")
        undo(repository, moved)
        assert not told.exists()


def test_a_run_without_a_repository_left(root: Path, repository: Repository) -> None:
    """Without `refs` git sees no repository: it is made one again, and all that is gone comes back."""
    before, to = look(root), position(repository)
    subprocess.run(["rm", "-rf", root / ".git" / "refs"], check=True)
    with pytest.raises(GitFailed):
        repository.position()
    repository.apply(repository.plan(to, None), "op-1")
    assert look(root) == before


def test_what_is_no_longer_there_is_named(root: Path, repository: Repository) -> None:
    """Objects that the run destroyed: the refs that need them stay away, the others come back."""
    lost = commit(root, "new")
    to = position(repository)
    ACTS["empty refs"](root)
    (root / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    found = repository.plan(to, position(repository))
    assert kept(found) == {"refs/heads/main": GitWhy.MISSING}
    repository.apply(found, "op-1")
    assert git(root, "rev-parse", "side", "v1")
    git(root, "update-ref", "refs/remotes/origin/main", "side")
    to = position(repository)
    git(root, "update-ref", "-d", "refs/remotes/origin/main")
    assert kept(repository.plan(to, position(repository))) == {"refs/remotes/origin/main": GitWhy.REMOTE}


def test_an_index_whose_files_are_gone_is_kept(root: Path, repository: Repository) -> None:
    """What was staged and never committed, pruned by the run: the index does not go back to naming it."""
    (root / "staged").write_text("mine")
    git(root, "add", "staged")
    found = plan(
        repository, root, lambda root: (git(root, "reset", "-q"), git(root, "prune", "--expire=now"))
    )
    assert kept(found) == {"index": GitWhy.MISSING} and found.steps.index == "kept"


def test_damaged_and_symbolic_refs_are_kept(root: Path, repository: Repository) -> None:
    """Both are named, and everything else goes back."""

    def run(root: Path) -> None:
        (root / ".git/refs/heads/side").write_text("")
        git(root, "symbolic-ref", "refs/tags/v1", "refs/heads/main")
        git(root, "tag", "made")

    found = plan(repository, root, run)
    assert kept(found) == {"refs/heads/side": GitWhy.BROKEN, "refs/tags/v1": GitWhy.SYMBOLIC}
    repository.apply(found, "op-1")
    assert "made" not in git(root, "tag")


def test_going_back_twice_is_going_back_once(root: Path, repository: Repository) -> None:
    """The second plan has nothing to do, and doing it changes nothing."""
    found = plan(repository, root, lambda root: (ACTS["branch"](root), stash_twice(root)))
    repository.apply(found, "op-1")
    before = look(root), ours(root)
    again = repository.plan(found.to, found.left)
    assert (again.steps.moves, again.steps.head, again.steps.stash, again.steps.index) == (
        (),
        None,
        None,
        "same",
    )
    repository.apply(again, "op-1")
    assert (look(root), ours(root)) == before


# What somebody else did


def test_refs_that_somebody_else_moved_stay(root: Path, repository: Repository) -> None:
    """Moved on top of the run's, made, or deleted: each is named, and only the run's own go back."""

    def run(root: Path) -> None:
        commit(root, "new")
        git(root, "tag", "made")

    def person(root: Path) -> None:
        commit(root, "mine")
        git(root, "branch", "-D", "side")
        git(root, "tag", "mine")

    found = plan(repository, root, run, person)
    assert moves(found) == {"refs/tags/made"}
    assert kept(found) == {
        "refs/heads/main": GitWhy.CONFLICT,
        "refs/heads/side": GitWhy.YOURS,
        "refs/tags/mine": GitWhy.YOURS,
        "index": GitWhy.CONFLICT,
    }
    tip = git(root, "rev-parse", "main")
    repository.apply(found, "op-1")
    assert git(root, "rev-parse", "main") == tip


def test_head_stays_where_somebody_went(root: Path, repository: Repository) -> None:
    """The branch that they are on is not moved under them, nor is the index."""
    found = plan(
        repository,
        root,
        lambda root: (commit(root, "new"), git(root, "checkout", "-qb", "made")),
        lambda root: (
            git(root, "checkout", "-qb", "mine"),
            git(root, "checkout", "-q", "made"),
            commit(root, "own"),
        ),
    )
    assert kept(found)["refs/heads/made"] is GitWhy.CONFLICT
    assert found.steps.head is not None and moves(found) == {"refs/heads/main"}
    found = plan(
        repository,
        root,
        lambda root: (git(root, "checkout", "-qb", "more"), git(root, "checkout", "-qb", "most")),
        lambda root: git(root, "checkout", "-q", "more"),
    )
    assert kept(found) == {"HEAD": GitWhy.CONFLICT, "refs/heads/more": GitWhy.HEAD}
    assert moves(found) == {"refs/heads/most"}


def test_head_does_not_go_to_a_branch_that_is_elsewhere(root: Path, repository: Repository) -> None:
    """The run left main; somebody moved main: HEAD and index stay with the run's branch."""
    found = plan(
        repository, root, ACTS["branch"], lambda root: git(root, "update-ref", "refs/heads/main", "side")
    )
    assert kept(found) == {
        "HEAD": GitWhy.AWAY,
        "index": GitWhy.AWAY,
        "refs/heads/main": GitWhy.YOURS,
        "refs/heads/new": GitWhy.HEAD,
    }
    assert found.steps.moves == ()


def test_an_index_that_somebody_else_changed_stays(root: Path, repository: Repository) -> None:
    """What they staged is still staged when the commit below it is taken back."""

    def person(root: Path) -> None:
        (root / "mine").write_text("mine")
        git(root, "add", "mine")

    found = plan(repository, root, ACTS["commit"], person)
    assert kept(found) == {"index": GitWhy.CONFLICT} and found.steps.index == "kept"
    repository.apply(found, "op-1")
    assert look(root).status.splitlines() == ["A\tmine", "A\tnew"]


def test_looking_is_not_changing(root: Path, repository: Repository) -> None:
    """`git status` writes new times into the index; it still counts as the run's."""

    def person(root: Path) -> None:
        os.utime(root / "a", (0, 0))
        before = (root / ".git" / "index").read_bytes()
        git(root, "status")
        assert (root / ".git" / "index").read_bytes() != before

    before = look(root)
    found = plan(repository, root, ACTS["commit"], person)
    assert (kept(found), found.steps.index) == ({}, "back")
    repository.apply(found, "op-1")
    assert look(root) == before


def test_the_index_comes_back_as_the_file_that_it_was(root: Path, repository: Repository) -> None:
    """Byte for byte, with its mode and the time by which git knows which entries it can trust."""
    file = root / ".git" / "index"
    file.chmod(0o664)
    before = file.read_bytes(), file.stat().st_mode, file.stat().st_mtime_ns
    found = plan(repository, root, lambda root: (commit(root, "new"), file.chmod(0o664)))
    repository.apply(found, "op-1")
    assert (file.read_bytes(), file.stat().st_mode, file.stat().st_mtime_ns) == before


def test_a_large_index(root: Path, repository: Repository) -> None:
    """One that is kept as a file of its own."""
    blob = git(root, "rev-parse", "HEAD:a")
    listed = "".join(f"100644 {blob} 0\tdeep/{number:06}\n" for number in range(20000))
    subprocess.run(["git", "-C", root, "update-index", "--index-info"], input=listed, text=True, check=True)
    before = (root / ".git" / "index").read_bytes()
    assert len(before) > 1024 * 1024
    repository.apply(plan(repository, root, lambda root: git(root, "reset", "-q")), "op-1")
    assert (root / ".git" / "index").read_bytes() == before


def test_stashes_of_somebody_else_stay(root: Path, repository: Repository) -> None:
    """One on top of the run's: the list is theirs now, all of it."""

    def person(root: Path) -> None:
        (root / "a").write_text("mine")
        git(root, "stash", "push", "-m", "mine")

    found = plan(repository, root, stash_twice, person)
    assert kept(found) == {"refs/stash": GitWhy.CONFLICT} and found.steps.stash is None
    found = plan(repository, root, stash_twice, lambda root: git(root, "stash", "clear"))
    assert kept(found) == {"refs/stash": GitWhy.CONFLICT} and found.steps.stash is None


def test_what_a_person_did_between_two_windows_stays(root: Path, repository: Repository) -> None:
    """With the gaps of a run the target has a person's own commits, branches and HEAD."""
    to = position(repository)
    commit(root, "new")
    before = position(repository)
    theirs = commit(root, "mine")
    git(root, "tag", "mine")
    os.utime(root / "a", (0, 0))
    git(root, "status")
    after = position(repository)
    commit(root, "newer")
    git(root, "tag", "made")
    git(root, "tag", "-d", "mine")
    left = position(repository)
    found = repository.plan(repository.with_edits(to, [(to, to), (before, after)]), left)
    assert kept(found) == {}
    repository.apply(found, "op-1")
    assert git(root, "rev-parse", "HEAD", "mine").split() == [theirs, theirs]
    assert git(root, "tag").split() == ["mine", "v1"] and look(root).status == ""


def test_a_name_that_is_taken(root: Path, repository: Repository) -> None:
    """A ref in whose way somebody made another is named; the rest goes back."""
    found = plan(
        repository,
        root,
        lambda root: (git(root, "branch", "-D", "side"), git(root, "tag", "made")),
        lambda root: git(root, "branch", "side/mine"),
    )
    assert kept(found) == {"refs/heads/side": GitWhy.OCCUPIED, "refs/heads/side/mine": GitWhy.YOURS}
    repository.apply(found, "op-1")


# A run that died


def after(repository: Repository, root: Path, run: Act, person: Act) -> GitPlan:
    """The plan for a run that was last seen alive between the two."""
    to = position(repository)
    run(root)
    time.sleep(0.01)
    until = time.time_ns()
    time.sleep(1.1)  # git's own records are to the second
    person(root)
    return repository.plan(to, repository.left_at(to, until))


@pytest.mark.parametrize("act", [name for name in ACTS if name != "empty refs"])
def test_what_a_dead_run_did_is_told_by_its_time(root: Path, repository: Repository, act: str) -> None:
    """All that it did goes back, though it did not say so itself, and a person has looked since. Only an
    entry that was taken out of the index and an index that a look has written anew have no time."""
    before = look(root)

    def looks(root: Path) -> None:
        for path in root.iterdir():
            os.utime(path)
        git(root, "status")

    found = after(repository, root, ACTS[act], looks)
    if act == "remove":
        assert kept(found) == {"index": GitWhy.YOURS}
        return
    assert kept(found) == {}
    repository.apply(found, "op-1")
    assert look(root) == before


def test_packed_refs_of_a_dead_run_are_told_by_their_record(root: Path, repository: Repository) -> None:
    """Packed by a person after it died."""
    before = look(root)
    found = after(repository, root, ACTS["branch"], lambda root: git(root, "pack-refs", "--all"))
    assert kept(found) == {}
    repository.apply(found, "op-1")
    assert look(root) == before


@pytest.mark.parametrize("act", [name for name in ACTS if name not in ("empty refs", "no index", "pack")])
def test_what_somebody_did_after_a_run_died_stays(root: Path, repository: Repository, act: str) -> None:
    """The run had done nothing: nothing moves."""
    found = after(repository, root, lambda _: None, ACTS[act])
    seen = look(root)
    assert set(kept(found).values()) <= {GitWhy.YOURS} or act in ("delete", "rename", "swap", "tags")
    deleted = {"delete", "rename", "swap", "tags"}  # a deletion has no time: undoing it loses nothing
    assert not found.steps.moves_anything or act in deleted
    if act not in deleted:
        repository.apply(found, "op-1")
        assert look(root) == seen


def test_both_a_dead_run_and_somebody_after_it(root: Path, repository: Repository) -> None:
    """A commit on top of the run's: what the run had done is told from git's record of the branch."""
    found = after(repository, root, ACTS["commit"], lambda root: commit(root, "mine"))
    assert kept(found)["refs/heads/main"] is GitWhy.CONFLICT and found.steps.blocked
    git(root, "checkout", "-q", "--detach")
    found = after(repository, root, lambda root: commit(root, "newer"), lambda root: commit(root, "own"))
    assert kept(found)["HEAD"] is GitWhy.CONFLICT and not found.steps.moves
    found = after(repository, root, stash_twice, stash_twice)
    assert kept(found)["refs/stash"] is GitWhy.CONFLICT


def test_a_repository_that_was_not_there(root: Path, contents: Contents) -> None:
    """It becomes an empty one, and all that it had is kept; undo brings it back."""
    make(root)
    repository = Repository(root, contents)
    left = look(root)
    found = repository.plan(NO_REPOSITORY, position(repository))
    assert kept(found) == {}
    moved = repository.apply(found, "op-1")
    assert look(root).refs == "" and look(root).index == ""
    assert git(root, "symbolic-ref", "HEAD") == "refs/heads/main"
    undo(repository, moved)
    assert look(root) == left


# Locks of others


def test_locks_of_a_dead_git_are_removed(root: Path, repository: Repository) -> None:
    """But not young ones, and not while a git is at work here."""
    lock, inner = root / ".git" / "index.lock", root / ".git" / "refs" / "heads" / "main.lock"
    for path in (lock, inner):
        path.touch()
    working = subprocess.Popen(["git", "-C", root, "cat-file", "--batch"], stdin=subprocess.PIPE)
    assert remove_stale(root) == [] and lock.exists()
    assert working.stdin is not None
    working.stdin.close()
    working.wait()
    assert set(remove_stale(root)) == {lock, inner} and not lock.exists() and not inner.exists()
    assert remove_stale(root) == [] and remove_stale(root.parent) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_git_of_another_user_is_at_work(root: Path, repository: Repository) -> None:
    """It does not let us see where it runs: its lock stays."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from holdfast.workspace.git.stale_locks import remove_stale\n"
        "os.setgid(12346), os.setuid(12346)\n"
        "print(remove_stale(Path(sys.argv[1])))\n"
    )
    # Not in pytest's directory: each pytest that starts on this machine closes that to other users.
    with tempfile.TemporaryDirectory() as directory:
        tree = shutil.copytree(root, Path(directory) / "tree")
        lock = tree / ".git" / "index.lock"
        lock.touch()
        for path in (tree, *tree.rglob("*")):
            os.chown(path, 12346, 12346)
        for path in tree.parents[:-2]:
            path.chmod(path.stat().st_mode | 0o011)
        time.sleep(1.1)
        with subprocess.Popen(["git", "cat-file", "--batch"], cwd=tree, stdin=subprocess.PIPE, env=SAFE):
            asked = subprocess.run(
                [sys.executable, "-c", code, tree], stdout=subprocess.PIPE, check=True, env=SAFE
            )
            assert asked.stdout == b"[]\n" and lock.exists()


def test_locks_of_a_table_of_refs(root: Path, repository: Repository) -> None:
    """Where refs are in a table, it has one lock."""
    lock = root / ".git" / "reftable" / "tables.list.lock"
    lock.parent.mkdir()
    lock.touch()
    time.sleep(1.1)
    assert remove_stale(root) == [lock]


def test_a_checkout_where_refs_are_in_a_table(root: Path, repository: Repository) -> None:
    """The file HEAD never changes there: its reflog says that somebody switched after the run died."""
    to = position(repository)
    (root / ".git" / "reftable").mkdir()
    later = int(time.time()) + 100
    env = {**os.environ, **IDENTITY, "GIT_COMMITTER_DATE": f"@{later} +0000"}
    subprocess.run(["git", "-C", root, "checkout", "-q", "side"], env=env, check=True)
    left = repository.left_at(to, (later - 50) * 1_000_000_000)
    assert left.branch == "refs/heads/main"


@pytest.mark.parametrize("name", ["two\nlines", "ends\n", "HEAD\nHEAD"])
@pytest.mark.parametrize("unborn", [False, True])
def test_a_directory_with_a_line_break_in_its_name(
    tmp_path: Path, contents: Contents, name: str, unborn: bool
) -> None:
    """Its repository is read, from a directory inside it and from another worktree too; so are its locks."""
    root = tmp_path / name
    (root / "inner").mkdir(parents=True)
    git(root, "init", "-qb", "main")
    places = [root, root / "inner"]
    if not unborn:
        commit(root, "a")
        git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
        places.append(tmp_path / "linked")
    head = "" if unborn else git(root, "rev-parse", "HEAD")
    for place in places:
        found = Repository(place, contents).position()
        assert (found.head, found.branch) == (head, "" if place.name == "linked" else "refs/heads/main")
    lock = root / ".git" / "index.lock"
    lock.touch()
    time.sleep(1.1)
    assert remove_stale(root / "inner") == [lock.resolve()]


def test_our_own_lock_of_another_operation(root: Path, repository: Repository, contents: Contents) -> None:
    """Of a process that died: whoever comes next removes it. Of one that lives: it is respected."""
    found = plan(repository, root, ACTS["branch"])
    own, lock = root / ".git" / "index.holdfast-other", root / ".git" / "index.lock"
    own.touch()
    os.link(own, lock)
    with own.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(GitBusy):
            repository.apply(found, "op-1")
        assert lock.exists()
    repository.apply(found, "op-1")
    assert [path.name for path in (root / ".git").glob("index*")] == ["index"]


# What was pushed


@pytest.fixture
def remote(tmp_path: Path, root: Path, repository: Repository) -> Path:
    path = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(path))
    git(root, "remote", "add", "origin", str(path))
    git(root, "push", "-q", "origin", "main")
    return path


def test_pushed_commits_are_refused(root: Path, repository: Repository, remote: Path) -> None:
    """They are named with their remote, and a revert is offered; what was not pushed goes back."""
    base = git(root, "rev-parse", "HEAD")

    def run(root: Path) -> None:
        commit(root, "new")
        git(root, "push", "-q", "origin", "main")
        commit(root, "newer")
        git(root, "branch", "local", "side")

    found = plan(repository, root, run)
    (refusal,) = found.steps.refused
    assert refusal.ref == "refs/heads/main"
    assert [(one.subject, one.remote) for one in refusal.commits] == [
        ("about new", "refs/remotes/origin/main")
    ]
    assert moves(found) == {"refs/heads/local"}
    assert kept(found) == {"refs/heads/main": GitWhy.PUSHED, "index": GitWhy.AWAY}
    repository.apply(found, "op-1")
    git(root, *refusal.revert.split()[1:])
    assert git(root, "diff", base, "HEAD") == ""


def test_pushed_from_a_detached_head(root: Path, repository: Repository, remote: Path) -> None:
    """No branch has them, and a remote does: HEAD stays."""

    def run(root: Path) -> None:
        commit_detached(root)
        git(root, "push", "-q", "origin", "HEAD:refs/heads/topic")

    found = plan(repository, root, run)
    assert kept(found) == {"HEAD": GitWhy.PUSHED, "index": GitWhy.AWAY}
    assert found.steps.refused[0].commits[0].remote == "refs/remotes/origin/topic"


def test_commits_that_were_pushed_before_are_no_reason(
    root: Path, repository: Repository, remote: Path
) -> None:
    """A branch on what the remote had already, or a merge of what had been fetched, goes back."""
    git(root, "checkout", "-qb", "topic")
    commit(root, "theirs")
    git(root, "push", "-q", "origin", "topic")
    git(root, "checkout", "-q", "main")
    git(root, "branch", "-qD", "topic")
    before = look(root)
    found = plan(
        repository, root, lambda root: (git(root, "branch", "made"), git(root, "merge", "-q", "origin/topic"))
    )
    assert kept(found) == {}
    repository.apply(found, "op-1")
    assert look(root) == before


def test_pushed_commits_are_known_by_what_the_run_left(
    root: Path, repository: Repository, remote: Path
) -> None:
    """Also if the remote-tracking ref is gone since."""
    found = plan(
        repository,
        root,
        lambda root: (commit(root, "new"), git(root, "push", "-q", "origin", "main")),
        lambda root: git(root, "remote", "remove", "origin"),
    )
    assert kept(found)["refs/heads/main"] is GitWhy.PUSHED


# Worktrees and nested repositories


def test_a_linked_worktree(tmp_path: Path, root: Path, repository: Repository, contents: Contents) -> None:
    """Its own HEAD and index go back; the other worktree is not touched, and its branch is named."""
    linked = tmp_path / "linked"
    git(root, "worktree", "add", "-q", "-b", "linked", str(linked), "side")
    main, before = look(root), look(linked)
    inner = Repository(linked, contents)

    def run(linked: Path) -> None:
        git(linked, "checkout", "-qb", "made")
        commit(linked, "new")
        git(linked, "update-ref", "refs/heads/main", "side")

    found = plan(inner, linked, run)
    assert kept(found) == {"refs/heads/main": GitWhy.ELSEWHERE}
    inner.apply(found, "op-1")
    git(root, "update-ref", "refs/heads/main", main.refs.splitlines()[1].split()[1])
    assert (look(root), look(linked)) == (main, before)


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_nested_repositories_are_left_alone(root: Path, contents: Contents, packed: bool) -> None:
    """What the run committed in them stays, and is named. Moved by somebody else, it is not."""
    make(root)
    nested, linked = root / "nested", root / "linked"
    nested.mkdir()
    make(nested)
    git(nested, "worktree", "add", "-q", "--detach", str(linked))
    repository = Repository(root, contents, [b"nested", b"linked", b"missing"])

    def run(root: Path) -> None:
        commit(root, "new")
        commit(nested, "new")
        if packed:
            git(nested, "pack-refs", "--all")

    found = plan(repository, root, run)
    before = look(nested)
    assert kept(found) == {"nested": GitWhy.NESTED} and found.steps.blocked
    repository.apply(found, "op-1")
    assert look(nested) == before
    found = plan(repository, root, lambda _: None, lambda _: (commit(nested, "x"), commit(linked, "x")))
    assert kept(found) == {}
    found = after(repository, root, lambda _: None, lambda _: (commit(nested, "y"), commit(linked, "y")))
    assert kept(found) == {}
    found = after(
        repository, root, lambda _: commit(linked, "z"), lambda _: git(nested, "pack-refs", "--all")
    )
    assert kept(found) == {"linked": GitWhy.NESTED}


# At the same time, and cut off


def test_another_git_at_work(root: Path, repository: Repository) -> None:
    """It holds the index: nothing is changed, and its lock stays."""
    found = plan(repository, root, ACTS["branch"])
    before, lock = look(root), root / ".git" / "index.lock"
    lock.touch()
    with pytest.raises(GitBusy, match=r"index\.lock"):
        repository.apply(found, "op-1")
    assert look(root) == before and lock.exists()
    assert ours(root) == {} and not list((root / ".git").glob("index.holdfast*"))


def test_a_plan_that_is_out_of_date(root: Path, repository: Repository) -> None:
    """Somebody moved a ref since: nothing is changed, nothing is left locked."""
    found = plan(repository, root, ACTS["branch"])
    git(root, "update-ref", "refs/heads/new", "side")
    before = look(root)
    with pytest.raises(GitBusy, match="look at it again"):
        repository.apply(found, "op-1")
    assert look(root) == before
    assert [path.name for path in (root / ".git").glob("index*")] == ["index"]


def test_a_ref_that_moves_at_the_last_moment(
    root: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last look and the transaction: no ref moves at all."""
    found = plan(repository, root, lambda root: (ACTS["branch"](root), git(root, "tag", "made")))
    transact = Repository._transact

    def late(self: Repository, lines: list[str], message: str) -> None:
        git(root, "update-ref", "refs/tags/made", "side")
        transact(self, lines, message)

    monkeypatch.setattr(Repository, "_transact", late)
    before = git(root, "rev-parse", "new")
    with pytest.raises(GitError):
        repository.apply(found, "op-1")
    assert git(root, "rev-parse", "new", "made").split() == [before, git(root, "rev-parse", "side")]
    assert ours(root) == {}


def test_a_stash_at_the_last_moment(
    root: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's own comes on top before the run's is dropped: it is there again, with its message."""
    found = plan(repository, root, stash_twice)
    (root / "a").write_text("mine")
    mine = git(root, "stash", "create", "mine")
    move = Repository._move_stash
    before: list[Seen] = []

    def late(self: Repository, stash: StashMove) -> None:
        git(root, "stash", "store", "-m", "On main: mine", mine)
        before.append(look(root))
        move(self, stash)

    monkeypatch.setattr(Repository, "_move_stash", late)
    with pytest.raises(GitError, match="stash"):
        repository.apply(found, "op-1")
    assert [look(root)] == before


KILLED = """
import os, sys
from pathlib import Path
import msgspec
from holdfast.kernel.events import GitPosition
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.git.repository import Repository
from holdfast.workspace.git import program
root, store, to, left, stop = sys.argv[1:]
count = 0

def counted(function, acts):
    def call(*words, **named):
        global count
        if not acts(words):
            return function(*words, **named)
        count += 1
        if count == int(stop):
            os._exit(9)
        done = function(*words, **named)
        count += 1
        if count == int(stop):
            os._exit(9)
        return done
    return call

decode = lambda text: msgspec.json.decode(text, type=GitPosition)
repository = Repository(Path(root), Contents(Path(store)))
plan = repository.plan(decode(to), decode(left))
acting = {"update-ref", "symbolic-ref", "stash"}
run = program.subprocess.run
program.subprocess.run = counted(run, lambda words: acting & set(map(str, words[0])))
for name in ("link", "rename", "unlink", "rmdir"):
    here = lambda words: b".git" in os.fsencode(words[0])
    setattr(os, name, counted(getattr(os, name), here))
repository.apply(plan, "op-1")
print(count)
"""


def test_cut_off_anywhere_it_is_finished(tmp_path: Path, root: Path, repository: Repository) -> None:
    """Killed before and after everything that it does: going back again gives the same result, no tip is
    lost, and git is not left locked."""
    stash_twice(root)
    git(root, "checkout", "-qb", "clash", "side")
    commit(root, "b", "theirs")
    git(root, "checkout", "-q", "main")
    before, to = look(root), position(repository)
    swap_directory_and_name(root)
    ACTS["branch"](root)
    git(root, "stash", "drop")
    (root / "a").write_text("three")
    git(root, "stash")
    commit(root, "b", "ours")
    git(root, "rebase", "clash", ok=False)
    left = position(repository)
    assert left.busy == "rebase"
    saved = tmp_path / "saved"
    subprocess.run(["cp", "-a", root, saved], check=True)
    tips = git(root, "for-each-ref", "--format=%(objectname)").split()
    positions = [msgspec.json.encode(one).decode() for one in (to, left)]
    for stop in range(1, 100):
        subprocess.run(["rm", "-rf", root], check=True)
        subprocess.run(["cp", "-a", saved, root], check=True)
        argv = [sys.executable, "-c", KILLED, str(root), str(tmp_path / "store"), *positions, str(stop)]
        done = subprocess.run(
            argv, env={**os.environ, **IDENTITY}, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 9), done.stderr
        repository.apply(repository.plan(to, left), "op-1")
        assert look(root) == before, f"cut off at {stop}"
        assert [path.name for path in (root / ".git").glob("index*")] == ["index"]
        reachable = git(root, "rev-list", "--all", "--objects", "--no-object-names").split()
        assert set(tips) <= set(reachable)
        if done.returncode == 0:
            break
    assert stop > 15


def test_a_position_keeps_its_contents(root: Path, repository: Repository, contents: Contents) -> None:
    """What it names is what gc must keep, and all that going back needs."""
    before = look(root)
    found = plan(repository, root, ACTS["commit"])
    assert found.left is not None
    needed = {Ref(bytes.fromhex(one)) for where in (found.to, found.left) for one in where.contents}
    git(root, "tag", "mine")
    position(repository)
    assert contents.gc(lambda: needed).removed > 0
    git(root, "tag", "-d", "mine")
    repository.apply(repository.plan(found.to, found.left), "op-1")
    assert look(root) == before
