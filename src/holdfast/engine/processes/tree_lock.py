"""The lock of a command's process tree: held from before its start until all of it is dead.

The owner takes it and the supervisor inherits it, so that there is no moment without a holder. While
the tree lives, the file names the supervisor; afterwards it holds a stamp that says how it ended.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import errors
from holdfast.engine.processes.lock_file import is_held
from holdfast.file_lock import StrPath, try_lock
from holdfast.project import explained

_LOCK_PATIENCE_S = 1.0  # a `tree_is_dead` elsewhere holds the lock for microseconds


@dataclass(frozen=True, slots=True)
class Stamp:
    """Written when a command's tree was dead; `code` is None if the command never started."""

    ended_at_ns: int
    code: int | None
    reason: str


def tree_is_dead(lock_path: StrPath) -> bool:
    """Whether no command's tree lives under this lock; never blocks."""
    return not is_held(lock_path)


def wait_until_dead(lock_path: StrPath, timeout: float) -> bool:
    """Wait until no tree lives under this lock; False if one still does after `timeout` seconds."""
    return _poll(lambda: tree_is_dead(lock_path), timeout)


def read_stamp(lock_path: StrPath) -> Stamp | None:
    """How the tree under this lock ended; None while it lives, or if its supervisor was killed."""
    note = _note(lock_path)
    if "ended_at" not in note:
        return None
    return Stamp(note["ended_at"], note["code"], note["reason"])


def stop_tree(lock_path: StrPath) -> bool:
    """Ask the supervisor that holds this lock to stop its tree as `terminate` does; False if none holds it.

    For `resume --take-over`: a stopped (SIGSTOP) owner gives no orders, and its tree does not end.
    """
    pid = _note(lock_path).get("supervisor")
    if pid is None or tree_is_dead(lock_path):
        return False
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


def take_lock(path: StrPath) -> int:
    """The descriptor of the lock, which is held and has no stamp. Raises `StoreError` if the disk refuses."""
    fd = _open(path)
    try:
        if not _poll(lambda: try_lock(fd), _LOCK_PATIENCE_S):
            raise errors.HoldfastError(
                f"a command that was started under {path} still runs; wait for its end"
            )
        with explained(Path(path).parent):
            os.ftruncate(fd, 0)  # an old stamp must not pass for this command's
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open(path: StrPath) -> int:
    """Open the file, or make it. Another process may remove the directory at the same time."""
    with explained(Path(path).parent):
        while True:
            try:
                return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:
                Path(path).parent.mkdir(mode=0o700, exist_ok=True)


def drop_lock(path: StrPath) -> None:
    """Remove the file of a tree that is dead, and its directory with the last one. What cannot be removed may
    stay: no process holds it, and the next claim of the run tries again."""
    path = Path(path)
    try:
        path.unlink(missing_ok=True)
        path.parent.rmdir()
    except OSError:
        pass  # or other commands have their locks in it


def _poll(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    pause = 0.001
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(pause * 2, 0.05)
    return True


def _note(lock_path: StrPath) -> dict[str, Any]:
    try:
        note = json.loads(Path(lock_path).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
