"""File locks (flock): held as long as a process that took or inherited them lives, however it dies.

A lock belongs to the open file, not to the process: two descriptors of one process exclude each other, and a
forked child shares its parent's.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

StrPath = str | os.PathLike[str]


def open_lock(path: StrPath) -> int:
    """A descriptor of the lock file, which is made if it is not there. Nothing is locked yet."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def lock(fd: int, *, shared: bool = False) -> None:
    """Take the lock; waits in the kernel's queue."""
    fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Take the lock if no process holds it; never waits."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)


@contextmanager
def holding(fd: int, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a descriptor from `open_lock`, which is closed at the end."""
    try:
        lock(fd, shared=shared)
        yield
    finally:
        os.close(fd)


def held(path: StrPath, *, shared: bool = False) -> AbstractContextManager[None]:
    """Hold the lock of that file, which is made if it is not there."""
    return holding(open_lock(path), shared=shared)


@contextmanager
def tried(path: StrPath, *, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of that file if no other process does; whether it is held."""
    fd = open_lock(path)
    try:
        yield try_lock(fd, shared=shared)
    finally:
        os.close(fd)


def is_held(path: StrPath) -> bool:
    """Whether a live process holds the lock of that file; never waits. False without a file. Raises
    OSError if the file cannot be opened."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(fd, shared=True)
    finally:
        os.close(fd)
