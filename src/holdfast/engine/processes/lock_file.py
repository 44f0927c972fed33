"""The locks of owners, commands and archives: as file locks are, with errors that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import file_lock
from holdfast.errors import StoreError
from holdfast.file_lock import StrPath
from holdfast.project import explained


def is_held(path: StrPath) -> bool:
    """Whether a live process holds the lock of that file; never blocks. False without a file. Raises
    `StoreError` if the file cannot be opened: then the answer is unknown."""
    try:
        return file_lock.is_held(path)
    except OSError as error:
        raise StoreError(f"whether {path} is locked cannot be determined: {error.strerror}") from error


@contextmanager
def held(path: StrPath) -> Iterator[None]:
    """Hold the lock of that file, which is made if it is not there; other processes wait for it.
    Raises `StoreError` if it cannot be made."""
    with explained(Path(path).parent):
        fd = file_lock.open_lock(path)
    with file_lock.holding(fd):
        yield
