"""Real git repositories for tests, and what there is to see of them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

IDENTITY = {
    **{f"GIT_{who}_NAME": "kelp" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "kelp@example.org" for who in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(root: Path, *words: str, ok: bool = True) -> str:
    """What git prints; it must succeed if `ok`."""
    done = subprocess.run(
        ["git", "-C", root, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **IDENTITY},
        check=False,
    )
    assert done.returncode == 0 or not ok, done.stderr
    return done.stdout.strip()


def commit(root: Path, name: str, text: str = "") -> str:
    """A commit that changes one file → its id."""
    (root / name).write_text(text or name)
    git(root, "add", name)
    git(root, "commit", "-qm", f"about {name}")
    return git(root, "rev-parse", "HEAD")


def make(root: Path) -> Path:
    """A repository with two commits, two branches and a tag."""
    git(root, "init", "-qb", "main")
    commit(root, "a")
    git(root, "branch", "side")
    git(root, "tag", "-a", "v1", "-m", "one")
    commit(root, "b")
    return root


@dataclass(frozen=True)
class Seen:
    """All of a repository that going back may touch."""

    head: str
    refs: str
    stash: str
    index: str
    status: str


def look(root: Path) -> Seen:
    refs = git(root, "for-each-ref", "--format=%(refname) %(objectname)")
    return Seen(
        head=git(root, "symbolic-ref", "-q", "HEAD", ok=False) or git(root, "rev-parse", "HEAD"),
        refs="\n".join(line for line in refs.splitlines() if not line.startswith("refs/holdfast/")),
        stash=git(root, "stash", "list", "--format=%H %gs"),
        index=git(root, "ls-files", "--stage", "-v"),
        status=git(root, "diff", "--cached", "--name-status", "HEAD", ok=False),
    )


def ours(root: Path) -> dict[str, str]:
    """What is kept of old tips."""
    lines = git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/holdfast").splitlines()
    return dict(line.split(" ") for line in lines)
