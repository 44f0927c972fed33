"""The index in the store's directory: opened, and made again if it is damaged, of another format, or gone.

A process that uses the file holds `search.lock` shared; one that removes a damaged file holds it alone:
SQLite must not find the write-ahead log of another database beside the one that it has open. Several
processes can fill and read the index at the same time. Where it cannot be written (a full disk, a file of
another user), a temporary index takes its place for that one call.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

import apsw

from holdfast.file_lock import held
from holdfast.search.index import Index

T = TypeVar("T")

NAME: Final = "search.db"
LOCK: Final = "search.lock"
_COMPANIONS: Final = ("", "-wal", "-shm", "-journal")
_DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SQLError, UnicodeDecodeError)
_UNWRITABLE: Final = (
    apsw.AuthError,
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.FullError,
    apsw.IOError,
    apsw.LockedError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
)


def with_index(home: Path, format: str, use: Callable[[Index], T]) -> T:
    """The result of `use` on the index. It may be called again with another one, which is empty."""
    try:
        return _with_file(home, format, use)
    except (*_UNWRITABLE, OSError):
        with closing(Index("", format)) as index:
            return use(index)


def fill_file(home: Path, format: str, use: Callable[[Index], None]) -> bool:
    """As `with_index`, but only on the file; whether it could be written."""
    try:
        _with_file(home, format, use)
    except (*_UNWRITABLE, OSError):
        return False
    return True


def _with_file(home: Path, format: str, use: Callable[[Index], T]) -> T:
    path = home / NAME
    with held(home / LOCK, shared=True):
        before = _identity(path)
        try:
            _refuse_foreign(path)
            with closing(Index(str(path), format)) as index:
                return use(index)
        except _DAMAGED:
            damaged = _identity(path)
    with held(home / LOCK):
        if _identity(path) in (before, damaged):  # not made again meanwhile
            _remove(path)
    with held(home / LOCK, shared=True), closing(Index(str(path), format)) as index:
        return use(index)


def remove_index(home: Path) -> None:
    """Remove the index: the next search makes it again. What was dropped from it stays in the pages of its
    file until then."""
    if (home / NAME).exists():
        with held(home / LOCK):
            _remove(home / NAME)


def _remove(path: Path) -> None:
    for suffix in _COMPANIONS:
        path.with_name(f"{NAME}{suffix}").unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _refuse_foreign(path: Path) -> None:
    """A file that SQLite would write through to another one, or roll back by a journal, is no index of ours:
    raises as for a damaged one. Ours are in write-ahead mode from the first page on."""
    for suffix in _COMPANIONS:
        one = path.with_name(f"{NAME}{suffix}")
        try:
            status = one.lstat()
        except FileNotFoundError:
            continue
        if suffix == "-journal" and status.st_size and path.stat().st_size:
            raise apsw.NotADBError(f"{one} is a rollback journal")
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise apsw.NotADBError(f"{one} is no file of its own")
