"""Pack files: many small contents in one file, which is written once and never changed.

    magic | group, group, ... | table | footer

A group is some 32 KB of contents, compressed together where that pays: small files compress several times
better in company, and one of them costs a group to read. The table names every content of the file, sorted,
so that a lookup is a binary search; the footer says where the table is and what it must hash to. A file gets
its name only when it is whole and synced, so a pack that can be seen is complete.
"""

from __future__ import annotations

import os
import re
import struct
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple

from holdfast.thread_pool import ThreadPool
from holdfast.workspace.contents import compression, refs
from holdfast.workspace.contents.refs import Ref

SUFFIX = ".pack"
NAME = re.compile(rf"[0-9a-f]{{32,64}}\{SUFFIX}")
"""Of a pack; a file with another name is not part of the store."""
GROUP_BYTES = 32 * 1024
MAGIC = b"HFPACK1\n"
FOOTER = struct.Struct("<QII32s8s")  # where the table is, groups, contents, SHA-256 of the table, magic
GROUP = struct.Struct("<QII")  # where, bytes stored, bytes raw: the same if it is not compressed
PLACE = struct.Struct("<III")  # group, offset in it, bytes
_MOST_PENDING = 16


class Place(NamedTuple):
    """Where a content lies in a pack: the number of its group, the offset in it, and its bytes."""

    group: int
    offset: int
    size: int


class PackDamaged(Exception):
    """The file is not the pack that was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(str(path))


class PackWriter:
    """Writes one pack. Compression and writing are done by a thread, while the caller reads on."""

    def __init__(self, file: BinaryIO, level: int) -> None:
        self._file = file
        self._level = level
        self._file.write(MAGIC)
        self._end = len(MAGIC)
        self._groups: list[bytes] = []
        self._places: dict[Ref, bytes] = {}
        self._parts: list[bytes] = []
        self._raw = 0
        self._number = 0
        self._thread: ThreadPool | None = None
        self._pending: deque[Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._places

    @property
    def written(self) -> int:
        return self._end

    def add(self, ref: Ref, data: bytes) -> None:
        if self._raw + len(data) > GROUP_BYTES and self._parts:
            self._hand_over()
        self._places[ref] = PLACE.pack(self._number, self._raw, len(data))
        self._parts.append(data)
        self._raw += len(data)

    def finish(self) -> str:
        """Write what is left and the table, and sync → the name that the file deserves."""
        if self._parts:
            if self._thread is None:
                self._write(self._parts)
            else:
                self._hand_over()
        while self._pending:
            self._pending.popleft().result()
        self.abandon()
        names = sorted(self._places)
        table = b"".join((*self._groups, *names, *(self._places[name] for name in names)))
        digest = sha256(table).digest()
        self._file.write(table)
        self._file.write(FOOTER.pack(self._end, len(self._groups), len(names), digest, MAGIC))
        self._file.flush()
        os.fsync(self._file.fileno())
        return digest.hex()[:32] + SUFFIX

    def abandon(self) -> None:
        """Stop the thread; for `finish`, and for who gives up."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None

    def _hand_over(self) -> None:
        if self._thread is None:
            self._thread = ThreadPool(1, "holdfast-pack")
        self._pending.append(self._thread.submit(self._write, self._parts))
        self._parts, self._raw = [], 0
        self._number += 1
        if len(self._pending) > _MOST_PENDING:
            self._pending.popleft().result()

    def _write(self, parts: list[bytes]) -> None:
        raw = b"".join(parts)
        stored = compression.squeeze(raw, self._level)
        if not compression.pays(len(raw), len(stored)):
            stored = raw
        self._file.write(stored)
        self._groups.append(GROUP.pack(self._end, len(stored), len(raw)))
        self._end += len(stored)


class Pack:
    """A pack that is read. Its descriptor is open as long as the pack is in use, so that it can be read
    even after it was merged away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.close = weakref.finalize(self, os.close, self._fd)
        try:
            self.size = os.fstat(self._fd).st_size
            self._table, groups, self._count = self._read_table()
        except BaseException:
            self.close()
            raise
        self._names = groups * GROUP.size
        self._places = self._names + self._count * refs.SIZE

    def _read_table(self) -> tuple[bytes, int, int]:
        if self.size < len(MAGIC) + FOOTER.size:
            raise PackDamaged(self.path)
        footer = os.pread(self._fd, FOOTER.size, self.size - FOOTER.size)
        where, groups, count, digest, magic = FOOTER.unpack(footer)
        length = groups * GROUP.size + count * (refs.SIZE + PLACE.size)
        if magic != MAGIC or where + length + FOOTER.size != self.size:
            raise PackDamaged(self.path)
        table = os.pread(self._fd, length, where)
        if sha256(table).digest() != digest:
            raise PackDamaged(self.path)
        return table, groups, count

    def __len__(self) -> int:
        return self._count

    def __contains__(self, ref: Ref) -> bool:
        return self._find(ref) is not None

    def __iter__(self) -> Iterator[Ref]:
        for at in range(self._names, self._places, refs.SIZE):
            yield Ref(self._table[at : at + refs.SIZE])

    def in_order(self) -> list[tuple[Place, Ref]]:
        """Its contents in the order in which they were put: each group is read once."""
        end = self._places + self._count * PLACE.size
        places = PLACE.iter_unpack(self._table[self._places : end])
        return sorted((Place(*place), ref) for place, ref in zip(places, self, strict=True))

    def place(self, ref: Ref) -> Place | None:
        """Where a content lies, if it is here."""
        found = self._find(ref)
        if found is None:
            return None
        return Place(*PLACE.unpack_from(self._table, self._places + found * PLACE.size))

    def group(self, number: int) -> bytes:
        """The contents of a group, one after the other. Raises PackDamaged."""
        where, stored, raw = GROUP.unpack_from(self._table, number * GROUP.size)
        data = os.pread(self._fd, stored, where)
        if stored != raw:
            try:
                data = compression.decompress(data)
            except compression.CompressionError as exc:
                raise PackDamaged(self.path) from exc
        if len(data) != raw:
            raise PackDamaged(self.path)
        return data

    def _find(self, ref: Ref) -> int | None:
        table, names = self._table, self._names

        def name(index: int) -> Ref:
            at = names + index * refs.SIZE
            return Ref(table[at : at + refs.SIZE])

        found = bisect_left(range(self._count), ref, key=name)
        return found if found < self._count and name(found) == ref else None
