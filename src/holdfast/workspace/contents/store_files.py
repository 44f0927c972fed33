"""Files of the store: written so that they last, locked, and with errors that say what to do."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StoreError, store_error_for

_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


@contextmanager
def errors_of(directory: Path) -> Iterator[None]:
    """An OSError inside becomes the StoreError that fits it."""
    try:
        yield
    except OSError as exc:
        raise error_of(directory, exc) from exc


def error_of(directory: Path, exc: OSError) -> StoreError:
    """The error that stands for an OSError of the files in `directory`."""
    return store_error_for(exc)(
        f"the workspace store in {directory} cannot be used ({exc.strerror or exc}); "
        "put that right and try again"
    )


def sync_filesystem(fd: int) -> None:
    """Everything written to the filesystem that holds `fd` lasts: one call instead of one per file."""
    if _syncfs is None:
        os.sync()
    elif _syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
