"""Opening a file that the program around us may have open too.

POSIX takes all of a process's locks on a file when any descriptor of it is closed, whoever had opened it. A
database that the program works with would lose its locks to a snapshot that only reads it, and two processes
would write it at once. So a file that is open in this process is read through the descriptor that is there.

A file that the program may only write to is opened here all the same, as is one that it opens in the very
moment in which it is read.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.workspace import beneath

_O_PATH = getattr(os, "O_PATH", 0)
_LISTED = "/proc/self/fd" if sys.platform.startswith("linux") else "/dev/fd"
_FOR_S = 0.02
"""So long is one look at the descriptors good: files are read by the thousand."""


class _Table:
    """The regular files that the program has open: (device, inode) → a descriptor that can be read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ours: set[int] = set()
        self._found: dict[tuple[int, int], int] = {}
        self._until = 0.0

    def find(self, directory: int, name: bytes) -> int | None:
        if time.monotonic() >= self._until:
            with self._lock:
                self._found = self._look()
                self._until = time.monotonic() + _FOR_S
        if not self._found:
            return None
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        fd = self._found.get((status.st_dev, status.st_ino))
        return fd if fd is not None and _is(fd, status) else None

    def forget(self) -> None:
        self._until = 0.0

    def open(self, directory: int, name: bytes) -> int:
        """A descriptor of ours: it is never found, because we close it."""
        with self._lock:
            fd = os.open(name, beneath.FILE_FLAGS, dir_fd=directory)
            self._ours.add(fd)
        return fd

    def close(self, fd: int) -> None:
        with self._lock:
            self._ours.discard(fd)
            os.close(fd)

    def _look(self) -> dict[tuple[int, int], int]:
        found = {}
        for fd in map(int, os.listdir(_LISTED)):
            if fd in self._ours:
                continue
            try:
                status = os.fstat(fd)
                mode = fcntl.fcntl(fd, fcntl.F_GETFL)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and mode & os.O_ACCMODE != os.O_WRONLY and not mode & _O_PATH:
                found[status.st_dev, status.st_ino] = fd
        return found


def _is(fd: int, status: os.stat_result) -> bool:
    """Whether a descriptor is of this file still."""
    try:
        return os.path.samestat(os.fstat(fd), status)
    except OSError:
        return False


_table = _Table()


def look_again() -> None:
    """Many files will be opened now: what the program has opened until here is known then."""
    _table.forget()


@contextmanager
def opened(directory: int, name: bytes) -> Iterator[int]:
    """A descriptor of the file `name`, to be used with `os.pread`: where it stands is not ours to say.

    The program may close one of its own meanwhile: whoever reads compares `os.fstat` before and after, and
    takes EBADF for a change.
    """
    fd = _table.find(directory, name)
    if fd is not None:
        try:
            yield fd
        except OSError:
            _table.forget()
            raise
        return
    fd = _table.open(directory, name)
    try:
        yield fd
    finally:
        _table.close(fd)
