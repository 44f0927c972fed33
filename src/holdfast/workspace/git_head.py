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


def read_head(top: bytes) -> GitHead:
    """Raises GitFailed, also where there is no working tree."""
    asked = ["--is-inside-work-tree", "--git-path", "index"]
    for name in _FILES:
        asked += ["--git-path", name]
    expected = 2 + len(_FILES)
    try:
        lines = run(top, "rev-parse", *asked, "HEAD", "--symbolic-full-name", "HEAD").splitlines()
    except GitFailed as exc:
        lines = exc.output.splitlines()[:expected]
        if len(lines) < expected:
            raise
    if lines[0] != b"true":
        raise GitFailed("rev-parse", "there is no working tree here")
    index, *files = (os.path.join(top, line) for line in lines[1:expected])
    busy = next((kind for path, kind in zip(files, _FILES.values(), strict=True) if os.path.exists(path)), "")
    commit, branch = (os.fsdecode(line) for line in lines[expected:] or (b"", _unborn_branch(top)))
    return GitHead(commit, "" if branch == "HEAD" else _text(branch), busy or _interrupted(top), index)


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
