"""The inode of a file name."""

from __future__ import annotations

import os

from holdfast.errors import StoreError, StoreReadOnly

Inode = tuple[int, int]


def inode_of(file: str, *, least: int = 0) -> Inode | None:
    """The file of this name; None if there is none, or one of less than `least` bytes. Raises a `StoreError`
    if it cannot be determined."""
    try:
        found = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        kind = StoreReadOnly if isinstance(error, PermissionError) else StoreError
        raise kind(
            f"{file} cannot be looked at ({error.strerror}); check its directory, then resume"
        ) from None
    return (found.st_ino, found.st_dev) if found.st_size >= least else None
