"""The index: what the last scan saw, so that the next one need not read what has not changed.

It can be lost at any time and is then made again by reading everything. An entry whose times were too close
to the scan is kept with a time that never matches: a change within one tick of the clock would not show.
"""

from __future__ import annotations

import stat
import struct
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

import msgspec

from holdfast import typed_values
from holdfast.durable_file import replace_file

Signature: TypeAlias = tuple[int, int, int, int, int]
"""Mode, size, time of change of the content, time of any change, inode."""

SIGNATURE = struct.Struct("<IQqqQ")
signature = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
_FORMAT = 1
_DIGEST = 32
_MARGIN_NS = 20_000_000
_COARSE_MARGIN_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000


class Record(msgspec.Struct, array_like=True):
    """One directory. `names`, `signatures` and `refs` are of its covered entries, sorted by name."""

    path: bytes
    names: bytes
    signatures: bytes
    refs: bytes
    uncovered: dict[bytes, str]
    subdirectories: list[bytes]
    files: int
    links: int
    size: int
    look_again: bool
    suspects: bool
    listing: bytes

    def name_list(self) -> list[bytes]:
        return self.names.split(b"\0") if self.signatures else []

    def signature_list(self) -> list[Signature]:
        return list(SIGNATURE.iter_unpack(self.signatures))


class Index(msgspec.Struct, array_like=True):
    """All directories, each before those inside it; `root` is the signature of the first."""

    format: int
    root: Signature
    generation: str
    rules: str
    git_state: str
    snapshot: bytes
    records: list[Record]


def load(path: Path) -> Index | None:
    """The index that `save` wrote; None if there is none that can be trusted."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        return None
    try:
        index = typed_values.unpack(data[_DIGEST:], Index)
    except msgspec.MsgspecError:
        return None
    return index if index.format == _FORMAT else None


def save(path: Path, index: Index) -> None:
    data = msgspec.msgpack.encode(index)
    replace_file(path, sha256(data).digest() + data, sync=False)


def make(
    root: Signature, generation: str, rules: str, git_state: str, snapshot: bytes, records: list[Record]
) -> Index:
    return Index(_FORMAT, root, generation, rules, git_state, snapshot, records)


def trusted(seen: Signature, started_ns: int) -> Signature:
    """The index row of an entry seen by a scan that began at `started_ns`."""
    newest = max(seen[2], seen[3])
    margin = _MARGIN_NS if newest % _SECOND_NS else _COARSE_MARGIN_NS
    return seen if newest < started_ns - margin else untrusted(seen)


def untrusted(seen: Signature) -> Signature:
    """An entry as it is never seen: the next scan reads it, whatever its times are."""
    mode, size, changed, _, inode = seen
    return mode, size, changed, -1, inode


def distrust(index: Index, paths: Iterable[bytes]) -> None:
    """These files are read by the next scan."""
    inner: dict[bytes, set[bytes]] = {}
    for path in paths:
        parent, _, name = path.rpartition(b"/")
        inner.setdefault(parent, set()).add(name)
    for record in index.records:
        if names := inner.get(record.path):
            entries = zip(record.name_list(), record.signature_list(), strict=True)
            record.signatures = b"".join(
                SIGNATURE.pack(*(untrusted(seen) if name in names else seen)) for name, seen in entries
            )


class Sightings:
    """Paths as a scan saw them that began at `since`, by the monotonic clock."""

    def __init__(self, index: Index, since: float) -> None:
        self.index = index
        self.since = since
        self._records = {record.path: record for record in index.records}
        self._names: dict[bytes, list[bytes]] = {}

    def of(self, path: bytes) -> Signature | None:
        """None if the scan did not see it, or does not cover it."""
        if not path:
            return self.index.root
        parent, _, name = path.rpartition(b"/")
        record = self._records.get(parent)
        if record is None:
            return None
        names = self._names.get(parent)
        if names is None:
            names = self._names[parent] = record.name_list()
        at = bisect_left(names, name)
        if at == len(names) or names[at] != name:
            return None
        return SIGNATURE.unpack_from(record.signatures, at * SIGNATURE.size)


def is_directory(seen: Signature) -> bool:
    return stat.S_ISDIR(seen[0])
