"""Lock files: a flock is held as long as a process that took or inherited it lives, however it dies."""

from __future__ import annotations

import fcntl
import os

StrPath = str | os.PathLike[str]


def is_held(path: StrPath) -> bool:
    """Whether anybody alive holds the lock of that file; never blocks. No file: nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
