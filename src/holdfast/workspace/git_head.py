"""Where HEAD is, and whether something is in progress there."""

from __future__ import annotations

import os
from dataclasses import dataclass

from holdfast.errors import GitFailed
from holdfast.workspace.git_program import run

_FILES = {
    "rebase-merge": "rebase",
    "rebase-apply/applying": "am",
    "rebase-apply": "rebase",
    "sequencer": "cherry-pick",
    "BISECT_LOG": "bisect",
}
"""What git leaves while something is in progress. They are files with every kind of ref storage."""
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
    asked = ["--is-inside-work-tree", "--absolute-git-dir", "--git-path", "index"]
    for name in _FILES:
        asked += ["--git-path", name]
    expected = 3 + len(_FILES)
    try:
        lines = run(top, "rev-parse", *asked, "HEAD", "--symbolic-full-name", "HEAD").splitlines()
    except GitFailed as exc:
        lines = exc.output.splitlines()[:expected]
        if len(lines) < expected:
            raise
    if lines[0] != b"true":
        raise GitFailed("rev-parse", "there is no working tree here")
    directory, index, *files = (os.path.join(top, line) for line in lines[1:expected])
    busy = next((kind for path, kind in zip(files, _FILES.values(), strict=True) if _is_there(path)), "")
    commit, branch = (os.fsdecode(line) for line in lines[expected:] or (b"", _unborn_branch(top)))
    branch = "" if branch == "HEAD" else _text(branch)
    return GitHead(commit, branch, busy or _interrupted(top), index, directory)


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
