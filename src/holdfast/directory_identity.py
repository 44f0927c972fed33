"""Which directory a path leads to, so that it is recognised after it was moved.

The number of an inode is used again: after `rm -rf A; mkdir C`, C often has the number that A had. So the
time of birth is part of the identity. A filesystem or a kernel that does not report it cannot prove that a
directory was moved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

_AT_FDCWD = -100
_BTIME = 0x800
_SIZE = 256
_BORN_AT = 80


class DirectoryIdentity(NamedTuple):
    """`born` is in nanoseconds, 0 if it is not known."""

    device: int
    inode: int
    born: int = 0

    @classmethod
    def of(cls, path: Path) -> DirectoryIdentity:
        """Raises OSError if there is nothing."""
        status = path.stat()
        return cls(status.st_dev, status.st_ino, _born(path))

    @classmethod
    def find(cls, path: Path) -> DirectoryIdentity | None:
        """None if there is nothing, or if it cannot be read."""
        try:
            return cls.of(path)
        except OSError:
            return None

    @classmethod
    def parse(cls, mark: str) -> DirectoryIdentity | None:
        """Parse the text of `mark`; None for any other text."""
        try:
            return cls(*(int(part, 16) for part in mark.split("-")))
        except (TypeError, ValueError):
            return None

    @property
    def mark(self) -> str:
        """As a text for the log."""
        parts = (self.device, self.inode, self.born) if self.born else (self.device, self.inode)
        return "-".join(f"{part:x}" for part in parts)


def is_moved_to(path: Path, mark: str) -> bool:
    """Whether the directory with that mark is at `path` now, though it was recorded somewhere else."""
    was = DirectoryIdentity.parse(mark)
    return was is not None and was.born != 0 and DirectoryIdentity.find(path) == was


def is_still_at(path: Path, mark: str) -> bool:
    """Whether the directory with that mark is at `path`, where it was recorded. The number of its device may
    have changed since: the machine was started again."""
    was, now = DirectoryIdentity.parse(mark), DirectoryIdentity.find(path)
    return was is not None and now is not None and was.inode == now.inode


def _born(path: Path) -> int:
    statx = _statx()
    if statx is None:
        return 0
    buffer = bytearray(_SIZE)
    if statx(os.fsencode(path), buffer) != 0 or not int.from_bytes(buffer[:4], sys.byteorder) & _BTIME:
        return 0
    seconds = int.from_bytes(buffer[_BORN_AT : _BORN_AT + 8], sys.byteorder, signed=True)
    nanoseconds = int.from_bytes(buffer[_BORN_AT + 8 : _BORN_AT + 12], sys.byteorder)
    return max(0, seconds * 1_000_000_000 + nanoseconds)


@cache
def _statx() -> Callable[[bytes, bytearray], int] | None:
    """The system call, which `os` does not have; None where there is none."""
    import ctypes  # takes some milliseconds to load

    try:
        function = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None

    def call(path: bytes, buffer: bytearray) -> int:
        memory = (ctypes.c_char * _SIZE).from_buffer(buffer)
        return int(function(_AT_FDCWD, path, 0, _BTIME, memory))

    return call
