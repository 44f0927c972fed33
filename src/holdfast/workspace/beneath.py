"""Directories by descriptor: a path is walked one name at a time from the root, and no symlink is followed.

Whoever swaps a parent directory for a symlink meanwhile gets an error out of us, not a file outside the root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""For reading a regular file: a pipe or a device in its place must not block or act."""
NOT_THERE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
"""What opening a path says when it is not what it was: gone, or a link or a file now."""


def open_directory(root: int, path: bytes) -> int:
    """A descriptor of the directory `path` beneath `root`; b"" is the root itself."""
    fd = os.open(b".", FLAGS, dir_fd=root)
    if not path:
        return fd
    for name in path.split(b"/"):
        try:
            inner = os.open(name, FLAGS, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


@contextmanager
def directory(root: int, path: bytes) -> Iterator[int]:
    fd = open_directory(root, path)
    try:
        yield fd
    finally:
        os.close(fd)


class Walk:
    """Opens one directory after the other; what two of them have in common stays open in between."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._way: list[tuple[bytes, int]] = []

    def to(self, path: bytes) -> int:
        """A descriptor of the directory `path`, good until the next call."""
        names = path.split(b"/") if path else []
        common = 0
        for (name, _), wanted in zip(self._way, names, strict=False):
            if name != wanted:
                break
            common += 1
        self._back(common)
        for name in names[common:]:
            self._way.append((name, os.open(name, FLAGS, dir_fd=self._here())))
        return self._here()

    def close(self) -> None:
        self._back(0)

    def _here(self) -> int:
        return self._way[-1][1] if self._way else self._root

    def _back(self, depth: int) -> None:
        while len(self._way) > depth:
            os.close(self._way.pop()[1])


def split(path: bytes) -> tuple[bytes, bytes]:
    """(directory, name)"""
    head, _, name = path.rpartition(b"/")
    return head, name


def join(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name


def shown(path: bytes) -> str:
    """For people and JSON: bytes that are not text are escaped, so that it can always be printed."""
    return path.decode("utf-8", "backslashreplace")
