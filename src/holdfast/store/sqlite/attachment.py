"""The attachment of a backup: between the last page of the database and the seal, with a note of its offset.

    database | attachment | mark, where it begins, how many files | seal

SQLite looks at neither, and the seal covers both.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from holdfast.store.sqlite.seal import SEAL_BYTES, read_seal

Attach = Callable[[BinaryIO], int]
"""Writes the attachment to a file that is open at its end → how many files are in it."""
_MAGIC: Final = b"holdfast files\0\0"
_NOTE: Final = struct.Struct(">16sQQ")


class Attachment(NamedTuple):
    """Where in the file it is, in bytes, and how many files it holds."""

    offset: int
    size: int
    files: int


def attach(path: Path, write: Attach) -> None:
    """Append an attachment; the file is sealed next."""
    with path.open("r+b") as file:
        offset = file.seek(0, os.SEEK_END)
        files = write(file)
        file.seek(0, os.SEEK_END)
        file.write(_NOTE.pack(_MAGIC, offset, files))


def read_attachment(path: Path) -> Attachment | None:
    """The attachment of a sealed file; None if it has no attachment, or no seal."""
    if read_seal(path) is None:
        return None
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - SEAL_BYTES - _NOTE.size
        if end < 0:
            return None
        file.seek(end)
        mark, offset, files = _NOTE.unpack(file.read(_NOTE.size))
    if mark != _MAGIC or offset > end:
        return None
    return Attachment(offset, end - offset, files)
