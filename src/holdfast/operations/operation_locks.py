"""The marks of operations under way: `operations/<id>` in the store's directory, a locked file each.

A mark comes before the operation begins, and goes only when the log says how it ended, or that it never
began. So an operation that has begun and whose mark no process holds was cut off, whatever the cause; a mark
that is missing, as in a store that came from a backup, is not held.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import file_lock
from holdfast.project import explained


class Mark:
    """A mark that this process holds."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def remove(self) -> None:
        """The log says how the operation ended."""
        self._path.unlink(missing_ok=True)


def listed(home: Path) -> list[str]:
    """The operations that have a mark."""
    try:
        return sorted(path.name for path in _directory(home).iterdir())
    except OSError:
        return []


def exists(home: Path, operation: str) -> bool:
    return (_directory(home) / operation).exists()


@contextmanager
def made(home: Path, operation: str) -> Iterator[Mark]:
    """The mark of an operation that is about to begin."""
    while True:
        with _locked(home, operation, file_lock.lock) as mark:
            if mark is not None:
                yield mark
                return


@contextmanager
def held(home: Path, operation: str) -> Iterator[Mark | None]:
    """The mark of an operation that was cut off, made if it is not there; None if another is at it, or
    was a moment ago."""
    with _locked(home, operation, file_lock.try_lock) as mark:
        yield mark


@contextmanager
def _locked(home: Path, operation: str, take: Callable[[int], bool | None]) -> Iterator[Mark | None]:
    path = _directory(home) / operation
    with explained(path.parent):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fd = file_lock.open_lock(path)
    try:
        yield Mark(path) if take(fd) is not False and _is_at(path, fd) else None
    finally:
        os.close(fd)


def _is_at(path: Path, fd: int) -> bool:
    """Whether the file is still the mark: the process that had it locked may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except OSError:
        return False


def _directory(home: Path) -> Path:
    return home / "operations"
