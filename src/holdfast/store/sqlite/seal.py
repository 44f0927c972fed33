"""The seal of a backup: 56 bytes at its end, which SQLite does not look at.

A mark, the number of events, and the SHA-256 of all that stands before: one pass over the file shows
whether it is whole, without opening it as a database.

Nothing here is for the file of a store that this process has open: the descriptor that is closed at the
end would drop the locks of its connections.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple

_MAGIC: Final = b"holdfast backup\0"
_HEAD: Final = struct.Struct(">16sQ")
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
SEAL_BYTES: Final = _HEAD.size + _DIGEST_BYTES
_CHUNK: Final = 1 << 20


class Seal(NamedTuple):
    events: int
    digest: bytes


def seal(path: Path, events: int) -> None:
    """Append the seal and bring all of the file to the disk. The next reader reads the disk, where
    the system lets us ask for that."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        head = _HEAD.pack(_MAGIC, events)
        digest = _digest(fd, os.fstat(fd).st_size)
        digest.update(head)
        rest = head + digest.digest()
        while rest:
            rest = rest[os.write(fd, rest) :]
        sync(fd)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def read_seal(path: Path) -> Seal | None:
    """The contents of the seal; None if the file has none."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def is_whole(path: Path) -> bool:
    """Whether the file is to the last bit what was sealed. Reads all of it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        found = _read(fd, size)
        return found is not None and _digest(fd, size - _DIGEST_BYTES).digest() == found.digest
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    """Bring a file to the disk, and not only into the disk's own memory."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def _read(fd: int, size: int) -> Seal | None:
    tail = os.pread(fd, SEAL_BYTES, max(size - SEAL_BYTES, 0))
    if len(tail) < SEAL_BYTES or not tail.startswith(_MAGIC):
        return None
    return Seal(_HEAD.unpack_from(tail)[1], tail[_HEAD.size :])


def _digest(fd: int, size: int) -> hashlib._Hash:
    digest, at = hashlib.sha256(), 0
    while at < size:
        piece = os.pread(fd, min(_CHUNK, size - at), at)
        if not piece:
            break  # the file is being cut off at this moment; it will not match
        digest.update(piece)
        at += len(piece)
    return digest
