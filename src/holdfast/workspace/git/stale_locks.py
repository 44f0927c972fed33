"""Lock files of a git that was killed: no git would work in the repository before they are removed.

A lock is stale if it is older than a moment and no git process is at work in the repository. Where processes
cannot be looked at (no `/proc`), nothing is removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import GitFailed
from holdfast.workspace.git.program import run

_TABLES = "reftable/tables.list.lock"
_OF_WORKTREE = ("index.lock", "HEAD.lock", "MERGE_HEAD.lock", "ORIG_HEAD.lock", _TABLES)
_OF_REPOSITORY = ("packed-refs.lock", "config.lock", "shallow.lock", _TABLES)
_MONITOR = b"fsmonitor--daemon"
"""Stays as long as the machine runs, and writes nothing."""
_AGE_S = 1.0
_PATIENCE_S = 3.0
_PAUSE_S = 0.1


def remove_stale(root: Path) -> list[Path]:
    """Remove the locks that a dead git left in the repository of `root` → those removed.

    Waits a moment for locks that are too young, and for a git that is at work.
    """
    try:
        own = _asked(root, "--git-path", "HEAD").parent
        common, top = _asked(root, "--git-common-dir"), _asked(root, "--show-toplevel")
    except GitFailed:
        return []
    deadline = time.monotonic() + _PATIENCE_S
    while locks := list(_locks(own, common)):
        if _are_old(locks) and not _is_at_work((own, common, top)):
            for lock in locks:
                lock.unlink(missing_ok=True)
            return locks
        if time.monotonic() > deadline or not Path("/proc/self/cwd").exists():
            return []
        time.sleep(_PAUSE_S)
    return []


def _asked(root: Path, *question: str) -> Path:
    """One path an answer: it can have line breaks in it."""
    answer = run(os.fsencode(root), "rev-parse", *question).removesuffix(b"\n")
    return (root / os.fsdecode(answer)).resolve()


def _locks(own: Path, common: Path) -> Iterator[Path]:
    """Files only: ours is a second name of `index.holdfast-*`, and is recognised by that."""
    names = [own / name for name in _OF_WORKTREE] + [common / name for name in _OF_REPOSITORY]
    names = list(dict.fromkeys(names))
    for directory in dict.fromkeys((own / "refs", common / "refs")):
        names += directory.rglob("*.lock")
    ours = {path.stat().st_ino for path in own.glob("index.holdfast-*")}
    for path in names:
        if path.is_file() and path.stat().st_ino not in ours:
            yield path


def _are_old(locks: list[Path]) -> bool:
    now = time.time()
    return all(now - lock.lstat().st_ctime > _AGE_S for lock in locks if lock.exists())


def _is_at_work(places: tuple[Path, ...]) -> bool:
    """Whether a program of git runs in one of these directories, or names one of them. One of another
    user that does not let us see where it runs may be at work here."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if not os.path.basename(words[0]).startswith(b"git") or _MONITOR in words:
            continue
        try:
            where = Path(os.readlink(process / "cwd"))
        except PermissionError:
            return True
        except OSError:
            continue
        names_it = any(os.fsencode(place) in word for place in places for word in words)
        if names_it or any(where == place or place in where.parents for place in places):
            return True
    return False
