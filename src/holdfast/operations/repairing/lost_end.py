"""Detects that an intact database has lost its last events: its mirror shows more of the same log.

A write-ahead log that was deleted or cut off leaves a database that is consistent, and older. The mirror is
written from the log only, and its card says which event it was written up to, of which incarnation of the
store. If the mirror was written again since, its former journal was kept, with that incarnation in its name.
A restore gives the store another incarnation, so that events which it removed on purpose do not count as
lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from holdfast.operations.repairing.mirrored import Mirrored, is_plain
from holdfast.store.port import GENESIS
from holdfast.store.sqlite.database_file import log_end, streams_with, tracker_heads
from holdfast.store.streams import GONE
from holdfast.tracker import journal


class LostEnd(NamedTuple):
    """`events` of the journal continue streams of the database, or begin new ones. The mirror was written up
    to the event at the position `shown`, which the database, whose last one is `last`, does not have; 0 if it
    has it. `journal` is the one that was kept, if it is not that of the mirror."""

    events: int
    shown: int
    last: int
    journal: Path | None = None

    @property
    def what(self) -> str:
        if self.events:
            many = "an event" if self.events == 1 else f"{self.events} events"
            name = "of the mirror" if self.journal is None else self.journal.name
            return f"the journal {name} has {many} behind its end: its write-ahead log was lost"
        return (
            f"the mirror was written up to event {self.shown} of the log, which it does not have (its last "
            f"one is {self.last}): its write-ahead log was lost"
        )


def find_lost_end(mirrored: Mirrored, database: Path, incarnation: str = "") -> LostEnd | None:
    """Find the events that the mirror shows and an intact database lacks; None if there are none, or if the
    mirror is of another incarnation. `incarnation` is used for a database that names none. Other processes
    may write to both meanwhile. Raises StoreError."""
    size = mirrored.journal.stat().st_size if is_plain(mirrored.journal) else 0
    end = log_end(database, mirrored.position)  # after the journal, which is never ahead of it
    incarnation = end.incarnation or incarnation
    for kept in mirrored.ahead_of(incarnation):
        ahead = read_ahead(kept, kept.stat().st_size, database)
        if ahead.events:
            return LostEnd(ahead.events, 0, end.last, kept)
    if not mirrored.incarnation or mirrored.incarnation != incarnation:
        return None
    shown = 0
    if mirrored.position > end.last or (end.hash and not end.hash.hex().startswith(mirrored.piece)):
        shown = mirrored.position
    events = read_ahead(mirrored.journal, size, database).events if size else 0
    return LostEnd(events, shown, end.last) if events or shown else None


class Ahead(NamedTuple):
    """How many events of a journal continue the streams of a database, by their hashes, or begin new ones;
    whether it has streams of the database at all; and the streams whose last event in the journal is neither
    in the database nor follows from it: the two have diverged, or the journal has a gap."""

    events: int
    is_related: bool
    unfit: tuple[str, ...] = ()


def read_ahead(path: Path, size: int, database: Path) -> Ahead:
    """Compare the first `size` bytes of a journal with a database that is whole. Raises StoreError."""
    heads = tracker_heads(database)
    known = set(heads) - {"@links", "@memory"}  # every store has streams of these names
    count, is_related = 0, False
    ends: dict[str, tuple[int, str]] = {}
    with path.open("rb") as file:
        for line in journal.read_lines(_lines(file, size)):
            if line is None or line.redacted or not journal.belongs(line.stream):
                continue
            is_related = is_related or line.stream in known
            kind, version, hash = heads.get(line.stream, ("", 0, GENESIS))
            if kind in GONE:
                continue
            ends[line.stream] = (line.version, line.hash)
            if line.version == version + 1 and line.follows(hash):
                heads[line.stream] = (kind, line.version, bytes.fromhex(line.hash))
                count += 1
    for stream, (_, version, hash) in heads.items():
        if ends.get(stream) == (version, hash.hex()):
            del ends[stream]
    return Ahead(count, is_related, tuple(sorted(ends.keys() - streams_with(database, ends))))


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    for line in file:
        size -= len(line)
        if size < 0:
            return
        yield line
