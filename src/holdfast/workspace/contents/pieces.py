"""The content of a file, piece by piece, so that its size does not show in memory; and its holes.

A sparse file can be far larger than the disk. Where it has no data it is not read, and pieces of zeros are
not written: the file that is made has a hole there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

PIECE = 1024 * 1024
_ZEROS = bytes(PIECE)
_SMALLEST_HOLE = 64 * 1024


def pieces(fd: int) -> Iterator[bytes]:
    """All that a file holds, from its beginning. Where the descriptor stands is not heeded, and changes."""
    at = 0
    while piece := os.pread(fd, PIECE, at):
        yield piece
        at += len(piece)
        if piece == _ZEROS:
            for _ in range((_next_data(fd, at) - at) // PIECE):
                yield _ZEROS
                at += PIECE


def is_hole(piece: bytes) -> bool:
    """Whether a piece is better not written."""
    return len(piece) >= _SMALLEST_HOLE and not piece[0] and piece == _ZEROS[: len(piece)]


def write(fd: int, source: Iterator[bytes]) -> None:
    """Write a content into a new file."""
    hole = False
    for piece in source:
        hole = is_hole(piece)
        if hole:
            os.lseek(fd, len(piece), os.SEEK_CUR)
        else:
            _write_all(fd, piece)
    if hole:
        os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _next_data(fd: int, at: int) -> int:
    """Where a file has data again, its end if it has none; `at` where that is unknown."""
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except OSError as exc:
        return os.fstat(fd).st_size if exc.errno == errno.ENXIO else at
