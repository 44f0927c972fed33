"""The frames of a write-ahead log, read without SQLite.

SQLite takes the first frame that does not match its checksum for the end of the log. Each frame's checksum
continues the one that is stored in the frame before it, so the frames behind a damaged one can be checked
one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
"""The checksums are little-endian; with the lowest bit set, big-endian."""


class Frame(NamedTuple):
    """One page in the log.

    page    its number in the database
    commit  whether a transaction ends with it
    offset  where the page begins in the file of the log
    reads   whether SQLite reads it: it and all before it match, and its transaction is whole
    stale   whether it is of an earlier round of the log, which was brought into the database
    """

    page: int
    commit: bool
    offset: int
    reads: bool
    stale: bool


class Log(NamedTuple):
    page_size: int
    frames: Sequence[Frame]

    @property
    def unread(self) -> int:
        """How many frames of whole transactions SQLite does not read because one before them is damaged."""
        last = max((n for n, one in enumerate(self.frames) if one.commit and not one.stale), default=-1)
        return sum(1 for one in self.frames[: last + 1] if not one.reads and not one.stale)


def read_frames(log: bytes) -> Log:
    """Every frame of the log. One whose header is damaged is read with the page size that its frames show."""
    if len(log) < _HEADER.size + _FRAME.size:
        return Log(0, ())
    magic, _, size, _, salt_1, salt_2, sum_1, sum_2 = _HEADER.unpack_from(log)
    order = ">" if magic & 1 else "<"
    sound = (
        magic | 1 == _MAGIC | 1
        and _is_page_size(size)
        and _checksum(order, log[: _HEADER.size - 8], (0, 0)) == (sum_1, sum_2)
    )
    if not sound:
        size, (salt_1, salt_2), order = _guess(log)
    if not size:
        return Log(0, ())
    found = list(_frames(log, size, (salt_1, salt_2), (sum_1, sum_2), order, sound))
    last = max((n for n, one in enumerate(found) if one.reads and one.commit), default=-1)
    return Log(size, [one if n <= last else one._replace(reads=False) for n, one in enumerate(found)])


def _frames(
    log: bytes, size: int, salt: tuple[int, int], before: tuple[int, int], order: str, sound: bool
) -> Iterator[Frame]:
    reads = sound
    for at in range(_HEADER.size, len(log) - _FRAME.size - size + 1, _FRAME.size + size):
        page, pages, salt_1, salt_2, sum_1, sum_2 = _FRAME.unpack_from(log, at)
        start = at + _FRAME.size
        sums = _checksum(order, log[at : at + 8], before)
        whole = _checksum(order, log[start : start + size], sums) == (sum_1, sum_2) and page > 0
        stale = (salt_1, salt_2) != salt
        reads = reads and whole and not stale
        yield Frame(page, pages > 0, start, reads, stale)
        before = (sum_1, sum_2)


def _checksum(order: str, data: bytes, before: tuple[int, int]) -> tuple[int, int]:
    first, second = before
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def _guess(log: bytes) -> tuple[int, tuple[int, int], str]:
    """Of a log whose header is damaged: the page size with which the salts of the frames repeat."""
    order = "<"
    for size in (1 << bits for bits in range(9, 17)):
        step = _FRAME.size + size
        salts = [
            _FRAME.unpack_from(log, at)[2:4] for at in range(_HEADER.size, len(log) - _FRAME.size, step)[:3]
        ]
        if len(salts) > 1 and len(set(salts[:2])) == 1 and any(salts[0]):
            return size, salts[0], order
        if len(salts) == 1 and len(log) == _HEADER.size + step:
            return size, salts[0], order
    return 0, (0, 0), order


def _is_page_size(size: int) -> bool:
    return 512 <= size <= 65536 and size & (size - 1) == 0
