"""The entries of a directory, as a content: names, modes and refs of its entries.

A listing refers to the listings of its subdirectories, so a snapshot is one ref, and what two snapshots have
in common they share. A directory of many entries is cut into pages, at places that depend only on the names:
a changed file costs a page, not a directory of thousands.
"""

from __future__ import annotations

import stat
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

import msgspec

from holdfast.errors import ContentsDamaged
from holdfast.workspace.contents import refs
from holdfast.workspace.contents.refs import Ref

_PAGED_FROM = 256
_PAGE = 64


class Entry(NamedTuple):
    """A covered path: `ref` is a file's content, a link's target, a directory's listing."""

    mode: int
    ref: Ref

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


class _Page(msgspec.Struct, array_like=True, tag=1, frozen=True):
    names: bytes
    modes: bytes
    refs: bytes


class _Listing(msgspec.Struct, array_like=True, tag=2, frozen=True):
    names: bytes
    modes: bytes
    refs: bytes
    uncovered: dict[bytes, str]


class _Paged(msgspec.Struct, array_like=True, tag=3, frozen=True):
    pages: bytes
    uncovered: dict[bytes, str]


_DECODER = msgspec.msgpack.Decoder(_Page | _Listing | _Paged)
_ENCODER = msgspec.msgpack.Encoder()


class Listing(NamedTuple):
    """The entries of a directory by name, and what is there without being covered, with the reason."""

    entries: Mapping[bytes, Entry]
    uncovered: Mapping[bytes, str]


EMPTY = Listing({}, {})


def write(
    put: Callable[[bytes], Ref],
    names: list[bytes],
    modes: list[int],
    entry_refs: bytes,
    uncovered: dict[bytes, str],
) -> Ref:
    """Put the listing of a directory, its names sorted, `entry_refs` joined in their order."""
    uncovered = dict(sorted(uncovered.items()))
    if len(names) < _PAGED_FROM:
        return put(_ENCODER.encode(_Listing(*_columns(names, modes, entry_refs), uncovered)))
    pages = []
    for start, end in _cuts(names):
        part = _columns(names[start:end], modes[start:end], entry_refs[start * refs.SIZE : end * refs.SIZE])
        pages.append(put(_ENCODER.encode(_Page(*part))))
    return put(_ENCODER.encode(_Paged(b"".join(pages), uncovered)))


def read(get: Callable[[Ref], bytes], ref: Ref) -> Listing:
    """The listing that `write` put. Raises ContentsDamaged."""
    found = _decoded(get, ref)
    if isinstance(found, _Listing):
        return Listing(dict(_entries(found)), found.uncovered)
    if isinstance(found, _Page):
        raise ContentsDamaged([ref.hex()])
    entries: dict[bytes, Entry] = {}
    for page_ref in split_refs(found.pages):
        page = _decoded(get, page_ref)
        if not isinstance(page, _Page):
            raise ContentsDamaged([page_ref.hex()])
        entries.update(_entries(page))
    return Listing(entries, found.uncovered)


def parts(get: Callable[[Ref], bytes], ref: Ref) -> list[Ref]:
    """The contents that a listing itself consists of: `ref`, and its pages."""
    found = _decoded(get, ref)
    return [ref, *split_refs(found.pages)] if isinstance(found, _Paged) else [ref]


def split_refs(joined: bytes) -> list[Ref]:
    return [Ref(joined[at : at + refs.SIZE]) for at in range(0, len(joined), refs.SIZE)]


def _columns(names: list[bytes], modes: list[int], entry_refs: bytes) -> tuple[bytes, bytes, bytes]:
    return b"\0".join(names), _little(array("H", modes)).tobytes(), entry_refs


def _entries(page: _Page | _Listing) -> Iterator[tuple[bytes, Entry]]:
    names = page.names.split(b"\0") if page.modes else []
    modes = _little(array("H", page.modes))
    for name, mode, ref in zip(names, modes, split_refs(page.refs), strict=True):
        yield name, Entry(mode, ref)


def _little(numbers: array[int]) -> array[int]:
    if array("H", [1]).tobytes() != b"\1\0":
        numbers.byteswap()
    return numbers


def _decoded(get: Callable[[Ref], bytes], ref: Ref) -> _Page | _Listing | _Paged:
    try:
        found: _Page | _Listing | _Paged = _DECODER.decode(get(ref))
        return found
    except msgspec.MsgspecError as exc:
        raise ContentsDamaged([ref.hex()]) from exc


def _cuts(names: list[bytes]) -> Iterator[tuple[int, int]]:
    start = 0
    for end, name in enumerate(names, 1):
        if crc32(name) % _PAGE == 0 or end == len(names):
            yield start, end
            start = end
