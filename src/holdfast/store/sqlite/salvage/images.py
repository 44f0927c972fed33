"""The pages of a database file and its write-ahead log, in every version that the two files still hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from holdfast.store.sqlite.connection import PAGE_BYTES
from holdfast.store.sqlite.salvage.frames import Frame, Log, read_frames

_KINDS: Final = frozenset(b"\x02\x05\x0a\x0d")
_SIZES: Final = (PAGE_BYTES, 4096, 1024, 8192, 512, 16384, 32768, 65536)
_LOOKED_AT: Final = 200
_MOST: Final = 0.8

Read = Callable[[int, int], bytes]
"""(offset, bytes) → that part of a file, or less at its end."""


class Image(NamedTuple):
    """One version of a page. `rank` is 0 for what SQLite reads, more for versions it no longer reads."""

    data: bytes
    rank: int
    is_last: bool = True
    """Whether no later version of the page was committed, read or not."""


class Images:
    """Every page of a database, also those that were replaced and those behind a damaged frame."""

    def __init__(self, read: Read, size: int, log: bytes) -> None:
        self._read = read
        self._log = log
        self.log: Log = read_frames(log)
        self.page_size = _page_size(read, size, self.log.page_size)
        self.pages = -(-size // self.page_size)
        frames = self.log.frames if self.log.page_size == self.page_size else ()
        self._live = {one.page: one for one in frames if one.reads}
        self._last = {one.page: one for one in frames if not one.stale}
        end = max((n for n, one in enumerate(frames) if one.commit and not one.stale), default=-1)
        self._committed = {one.page: one for n, one in enumerate(frames) if not one.stale and n <= end}
        self._others = [
            one
            for n, one in enumerate(frames)
            if self._live.get(one.page) is not one and (one.stale or n <= end)
        ]

    def __iter__(self) -> Iterator[Image]:
        """The page images that SQLite reads first; then those it replaced, then those it cannot reach."""
        for number in range(1, self.pages + 1):
            if number not in self._live:
                yield Image(self._of_file(number), 0, number not in self._committed)
        for frame in self._live.values():
            yield Image(self._of_frame(frame), 0, self._committed.get(frame.page) is frame)
        for frame in self._others:
            is_last = self._committed.get(frame.page) is frame
            yield Image(self._of_frame(frame), 3 if frame.stale else 2, is_last)
        for number in self._live:
            yield Image(self._of_file(number), 1, is_last=False)

    def versions(self, number: int) -> Iterator[bytes]:
        """A page as SQLite reads it, then as other versions have it: for the rest of a long record."""
        seen = set()
        for frame in (self._live.get(number), self._last.get(number)):
            if frame is not None and frame.offset not in seen:
                seen.add(frame.offset)
                yield self._of_frame(frame)
        yield self._of_file(number)

    def _of_file(self, number: int) -> bytes:
        return self._read((number - 1) * self.page_size, self.page_size).ljust(self.page_size, b"\0")

    def _of_frame(self, frame: Frame) -> bytes:
        return self._log[frame.offset : frame.offset + self.page_size]


def _page_size(read: Read, size: int, of_log: int) -> int:
    """The size in the log or the header, if pages begin where they should then; else the size with which most
    pages begin as pages do."""
    said = int.from_bytes(read(16, 2).ljust(2, b"\0"), "big")
    said = 65536 if said == 1 else said
    sizes = [one for one in dict.fromkeys((of_log, said, *_SIZES)) if one in _SIZES]

    def score(page: int) -> float:
        numbers = range(1, min(size // page, _LOOKED_AT))
        begun = sum(1 for number in numbers if read(number * page, 1)[:1] in _BEGINNINGS)
        return begun / len(numbers) if numbers else 1.0

    for one in sizes:
        if score(one) > _MOST:
            return one
    return max(sizes, key=score)


_BEGINNINGS: Final = {bytes([kind]) for kind in _KINDS} | {b"\0"}
