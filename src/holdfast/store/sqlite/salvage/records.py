"""Finds records in a page by the form of their headers, even if the rest of the page is damaged.

A record says in its header of which types its columns are. The tables of the log have headers that hardly
anything else has, so their rows are found in a page whose own header or cell pointers are damaged, in a page
that was freed, and in one that is cut off. Hashes decide later what of it is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from holdfast.store.sqlite.salvage.images import Image, Images

_INTEGER: Final = rb"[\x01-\x06\x08\x09]"
_LENGTH: Final = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_HASH: Final = rb"\x4c"

EVENT: Final = re.compile(
    rb"(?=([\x09-\x11]\x00" + _INTEGER * 2 + _LENGTH + _INTEGER + _LENGTH + _HASH + rb"[\x01\x08\x09]))",
    re.DOTALL,
)
STREAM: Final = re.compile(
    rb"(?=([\x08-\x0e]\x00" + _LENGTH * 2 + _INTEGER + _HASH + _INTEGER * 2 + _INTEGER + rb"?))", re.DOTALL
)
"""A row that is older than the column `number` has one column less."""
BLOB: Final = re.compile(rb"(?=([\x04-\x08]\x81\x0d" + _LENGTH + rb"))", re.DOTALL)
_BYTES: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_MOST_BYTES: Final = 1 << 30
_NEGATIVE: Final = 1 << 63
"""From here on, a rowid stands for a negative number."""


class Record(NamedTuple):
    """`start` is its place in the page; a `rowid` of 0 is not known."""

    rowid: int
    columns: list[Any]
    start: int


class Pointed(NamedTuple):
    """The records to which the cell pointers of a page of a table lead."""

    starts: frozenset[int]
    is_whole: bool
    """Whether the page has no other records: its cells and what is free fill it. Bytes that look like another
    record are then left over from an earlier one."""


def find(images: Images, image: Image, pattern: re.Pattern[bytes]) -> Iterator[Record]:
    """The records of a page whose header matches. One that continues on other pages is given once for each
    version of these that makes it whole."""
    for match in pattern.finditer(image.data):
        start, header = match.start(1), match[1]
        types = list(_varints(header, 1))
        if header[0] != len(header) or any(one in (10, 11) for one in types):
            continue
        total = len(header) + sum(map(_size, types))
        if total > _MOST_BYTES:
            continue
        rowid = _rowid_before(image.data, start, total)
        for body in _bodies(images, image.data, start, total):
            columns = _columns(body, len(header), types)
            if columns is not None:
                yield Record(rowid, columns, start)


def pointed(image: Image) -> Pointed:
    """The records of a page of a table as SQLite reads them; none if it is another page. A page that
    has become an inner one has none, and what it had as a leaf is left over."""
    data = image.data
    is_leaf = data[:1] == b"\x0d"
    if not is_leaf and data[:1] != b"\x05":
        return Pointed(frozenset(), is_whole=False)
    header = 8 if is_leaf else 12
    count = int.from_bytes(data[3:5], "big")
    starts, used, is_whole = set[int](), list(_free_blocks(data)), True
    for n in range(min(count, len(data) // 4)):
        at = int.from_bytes(data[header + 2 * n : header + 2 * n + 2], "big")
        if is_leaf:
            total, after = _varint(data, at)
            _, start = _varint(data, after)
            local = _local(total, len(data))
            starts.add(start)
            end = start + local + (4 if local < total else 0)
        else:
            _, end = _varint(data, at + 4)
            is_whole &= data[at : at + 1] == b"\0"  # else the child is no page: a leaf with another type
        used.append((at, end))
    used.sort()
    begin = int.from_bytes(data[5:7], "big") or len(data)
    ends = [max(begin, header + 2 * count), *(end for _, end in used)]
    is_whole &= all(end <= at for end, (at, _) in zip(ends, [*used, (len(data), 0)], strict=True))
    is_whole &= sum(end - at for at, end in used) + data[7] == len(data) - begin
    return Pointed(frozenset(starts), is_whole)


def _free_blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """The free blocks between the cells of a page, each with its end."""
    at, before = int.from_bytes(data[1:3], "big"), 0
    while before < at < len(data) - 4:
        yield at, at + int.from_bytes(data[at + 2 : at + 4], "big")
        before, at = at, int.from_bytes(data[at : at + 2], "big")


def index_entries(image: Image) -> Iterator[list[Any]]:
    """The entries of an index page, as far as its cell pointers lead to some."""
    data = image.data
    kind = data[:1]
    if kind not in (b"\x02", b"\x0a"):
        return
    inner = kind == b"\x02"
    pointers = 12 if inner else 8
    for n in range(min(int.from_bytes(data[3:5], "big"), len(data) // 4)):
        at = int.from_bytes(data[pointers + 2 * n : pointers + 2 * n + 2], "big") + (4 if inner else 0)
        if not pointers < at < len(data):
            continue
        total, start = _varint(data, at)
        header, body = _varint(data, start)
        # A long name continues on another page; the table has it too.
        if not 0 < header <= total or start + total > len(data) or total > len(data) // 4:
            continue
        columns = _columns(
            data[start : start + total], header, list(_varints(data[start : start + header], body - start))
        )
        if columns is not None:
            yield columns


def _bodies(images: Images, data: bytes, start: int, total: int) -> Iterator[bytes]:
    """The bytes of a record of a table, with what of it lies on other pages."""
    local = _local(total, images.page_size)
    if local == total:
        if start + total <= len(data):
            yield data[start : start + total]
        return
    if start + local + 4 > len(data):
        return
    head = data[start : start + local]
    following = int.from_bytes(data[start + local : start + local + 4], "big")
    seen: set[bytes] = set()
    for choice in (0, 1, 2):  # as SQLite reads them, as the log has them last, as the file has them
        rest = _overflow(images, following, total - local, choice)
        if rest is not None and rest not in seen:
            seen.add(rest)
            yield head + rest


def _local(total: int, usable: int) -> int:
    """How many bytes of a record of a table are in its cell; the others are on other pages."""
    most = usable - 35
    if total <= most:
        return total
    least = (usable - 12) * 32 // 255 - 23
    local = least + (total - least) % (usable - 4)
    return local if local <= most else least


def _overflow(images: Images, number: int, length: int, choice: int) -> bytes | None:
    parts: list[bytes] = []
    room = images.page_size - 4
    seen: set[int] = set()
    while length > 0:
        if number <= 0 or number in seen or len(seen) > _MOST_BYTES // room:
            return None
        seen.add(number)
        versions = list(images.versions(number))
        page = versions[min(choice, len(versions) - 1)]
        if len(page) < 4:
            return None
        parts.append(page[4 : 4 + min(length, room)])
        length -= room
        number = int.from_bytes(page[:4], "big")
    return b"".join(parts)


def _columns(body: bytes, header: int, types: list[int]) -> list[Any] | None:
    columns: list[Any] = []
    at = header
    for kind in types:
        size = _size(kind)
        raw = body[at : at + size]
        if len(raw) != size:
            return None
        at += size
        if kind == 0:
            columns.append(None)
        elif kind in (8, 9):
            columns.append(kind - 8)
        elif kind < 7:
            columns.append(int.from_bytes(raw, "big", signed=True))
        elif kind == 7:
            columns.append(None)
        elif kind % 2:
            try:
                columns.append(raw.decode())
            except UnicodeDecodeError:
                return None
        else:
            columns.append(raw)
    return columns


def _rowid_before(data: bytes, start: int, total: int) -> int:
    """A cell has the size of the record and the rowid before it, each of one to nine bytes; 0 if the bytes
    there do not fit."""
    for at in range(max(start - 2, 0), max(start - 19, -1), -1):
        size, after = _varint(data, at)
        if size != total:
            continue
        rowid, end = _varint(data, after)
        if end == start and 0 < rowid < _NEGATIVE:
            return rowid
    return 0


def _size(kind: int) -> int:
    return _BYTES[kind] if kind < 10 else (kind - 12) // 2


def _varints(data: bytes, at: int) -> Iterator[int]:
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number there, and where it ends."""
    value = 0
    for n in range(9):
        if at + n >= len(data):
            return value, len(data)
        byte = data[at + n]
        if n == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    return value, at + 9
