"""The content of an open file, piece by piece, so that its size does not show in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

PIECE = 1024 * 1024


def pieces(fd: int) -> Iterator[bytes]:
    """All that a file holds, from its beginning, wherever the descriptor stands."""
    at = 0
    while piece := os.pread(fd, PIECE, at):
        yield piece
        at += len(piece)
