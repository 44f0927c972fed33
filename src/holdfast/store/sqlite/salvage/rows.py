"""The rows of a store's log in a damaged database, in every version that its files still hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.store.sqlite.salvage.images import Image, Images
from holdfast.store.sqlite.salvage.records import BLOB, EVENT, STREAM, Record, find, index_entries, pointed

_META: Final = re.compile(
    rb"\x03\x23\x2d(incarnation)([0-9a-f]{16})|\x03\x17\x4d(token)([0-9a-f]{32})", re.DOTALL
)


class EventRow(NamedTuple):
    """`stream` is the number of its stream; a `position` of 0 is not known."""

    stream: int
    version: int
    type: str
    at: int
    payload: str
    hash: bytes
    synced: int
    position: int
    rank: int


LEFT_OVER, UNKNOWN, POINTED = range(3)
"""How a row of `streams` is reached. It is left over: its page was replaced, or no cell pointer leads to it,
because the page was split or the row became longer. Or the pointers of its page are damaged. Or a pointer of
the last version of its page leads to it."""


class HeadRow(NamedTuple):
    stream: int
    name: str
    kind: str
    version: int
    hash: bytes
    rank: int
    reach: int


class NameRow(NamedTuple):
    """An entry of an index of a text. If the index is that of the names, the stream of this number has this
    name; `page` says which entries lie together."""

    stream: int
    name: str
    page: int


class PlaceRow(NamedTuple):
    """An entry of an index of three numbers. If the index is that of the events, the stream of this number
    has, or had, an event of this version at this position; `page` says which entries lie together."""

    stream: int
    version: int
    position: int
    page: int
    rank: int


class BlobRow(NamedTuple):
    hash: str
    data: bytes


class MetaRow(NamedTuple):
    key: str
    value: str


Row = EventRow | HeadRow | NameRow | PlaceRow | BlobRow | MetaRow


def rows(images: Images) -> Iterator[Row]:
    """Everything that looks like a row of the log. Only a `BlobRow` is verified; the others may be stale, or
    nonsense."""
    for page, image in enumerate(images):
        for rowid, (_, stream, version, type, at, payload, hash, synced), _ in find(images, image, EVENT):
            if isinstance(type, str) and isinstance(payload, str) and len(hash) == 32 and version > 0:
                yield EventRow(stream, version, type, at, payload, hash, int(synced == 1), rowid, image.rank)
        yield from _heads(image, list(find(images, image, STREAM)))
        for _, (name, data), _ in find(images, image, BLOB):
            if isinstance(data, bytes) and hashlib.sha256(data).hexdigest() == name:
                yield BlobRow(name, data)
        for match in _META.finditer(image.data):
            key, value = match[1] or match[3], match[2] or match[4]
            yield MetaRow(key.decode(), value.decode())
        for entry in index_entries(image):
            match entry:
                case [str(name), int(stream)]:
                    yield NameRow(stream, name, page)
                case [int(stream), int(version), int(position)] if version > 0:
                    yield PlaceRow(stream, version, position, page, image.rank)


def _heads(image: Image, found: list[Record]) -> Iterator[HeadRow]:
    reached = pointed(image) if found else None
    for rowid, (_, name, kind, version, hash, *_), start in found:
        if reached and isinstance(name, str) and isinstance(kind, str) and rowid:
            reach = LEFT_OVER if reached.is_whole or not image.is_last else UNKNOWN
            if image.is_last and start in reached.starts:
                reach = POINTED
            yield HeadRow(rowid, name, kind, version, hash, image.rank, reach)
