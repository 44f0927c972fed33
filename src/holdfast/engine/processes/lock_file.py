"""Lock files: a flock is held as long as a process that took or inherited it lives, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StoreError
from holdfast.project import explained

StrPath = str | os.PathLike[str]


def is_held(path: StrPath) -> bool:
    """Whether anybody alive holds the lock of that file; never blocks. No file: nobody does; one that cannot
    be opened tells nothing, and nobody may go on as if it did."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"whether {path} is locked cannot be told: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def held(path: StrPath) -> Iterator[None]:
    """Hold the lock of that file, which is made if it is not there; whoever else wants it waits.
    Raises `StoreError` if it cannot be made."""
    with explained(Path(path).parent):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
