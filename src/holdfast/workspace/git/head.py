"""Where HEAD is, and whether something is in progress there."""

from __future__ import annotations

import os
from dataclasses import dataclass

from holdfast.errors import GitFailed
from holdfast.workspace.git.program import run

_FILES = {
    "rebase-merge": "rebase",
    "rebase-apply/applying": "am",
    "rebase-apply": "rebase",
    "sequencer": "cherry-pick",
    "BISECT_LOG": "bisect",
}
"""Marks of git while an operation of it is in progress. They are files with every kind of ref storage."""
_HEADS = {"MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert"}
"""The same as refs, which git must be asked for."""


@dataclass(frozen=True, slots=True)
class GitHead:
    """`commit` is "" before the first one, `branch` "" if detached, `busy` "" if nothing is in progress."""

    commit: str
    branch: str
    busy: str
    index: bytes
    """Where the index file is."""
    directory: bytes
    """Where git keeps what belongs to this worktree."""


def read_head(top: bytes) -> GitHead:
    """Raises GitFailed, also where there is no working tree."""
    asked = ("--is-inside-work-tree", "--git-path", "HEAD", "HEAD", "--symbolic-full-name", "HEAD")
    try:
        # A path can have line breaks in it. It is between one line before it and two lines after it.
        first, _, rest = run(top, "rev-parse", *asked).partition(b"\n")
        path, commit, branch, _ = rest.rsplit(b"\n", 3)
    except GitFailed as exc:
        first, _, rest = exc.output.partition(b"\n")
        path, commit = rest.removesuffix(b"HEAD\n").removesuffix(b"\n"), b""
        if not path:
            raise
        branch = _unborn_branch(top)
    if first != b"true":
        raise GitFailed("rev-parse", "there is no working tree here")
    directory = os.path.dirname(os.path.join(top, path))
    files = [os.path.join(directory, name.encode()) for name in _FILES]
    busy = next((kind for path, kind in zip(files, _FILES.values(), strict=True) if _is_there(path)), "")
    name = "" if branch == b"HEAD" else _text(os.fsdecode(branch))
    index = os.path.join(directory, b"index")
    return GitHead(os.fsdecode(commit), name, busy or _interrupted(top), index, directory)


def _is_there(path: bytes) -> bool:
    """A directory without files is what a replacement that was cut off has left: `Repository` removes it."""
    return bool(os.listdir(path)) if os.path.isdir(path) else os.path.exists(path)


def _unborn_branch(top: bytes) -> bytes:
    """The branch of a HEAD whose branch has no commit."""
    return run(top, "symbolic-ref", "-q", "HEAD").strip()


def _interrupted(top: bytes) -> str:
    answers = run(top, "cat-file", "--batch-check", stdin="\n".join(_HEADS).encode()).splitlines()
    kinds = zip(answers, _HEADS.values(), strict=True)
    return next((kind for answer, kind in kinds if not answer.endswith(b" missing")), "")


def _text(branch: str) -> str:
    """The name, if it is text: it is written to the log, which is JSON."""
    try:
        branch.encode()
    except UnicodeEncodeError as exc:
        raise GitFailed("rev-parse", "the name of the branch is not UTF-8") from exc
    return branch
