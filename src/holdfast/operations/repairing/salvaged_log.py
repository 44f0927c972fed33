"""The log of a repaired store: its heads, and its events in their order."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from holdfast.kernel import events as e
from holdfast.operations.repairing.chains import Chain
from holdfast.operations.repairing.salvaged import Extra, Salvaged
from holdfast.store.port import GENESIS, STORE_STREAM, chain
from holdfast.store.sqlite.salvage.candidates import NO_PLACE, JournalPlace
from holdfast.store.sqlite.salvage.remake import LogRow, StreamRow


def is_as_before(made: Salvaged) -> bool:
    """Whether the new log is the old one to the last event, with nothing added."""
    return not (made.cuts or made.added or made.chained_anew or made.lost_values)


class Order(NamedTuple):
    """The sort key of an event. An event with a known position is sorted by it; an event of a journal by the
    last known position before it in the journal, then by its line; any other event by its distance (`after`)
    from one of these."""

    position: int = 0
    line: int = 0
    after: int = 0

    def next(self) -> Order:
        return self._replace(after=self.after + 1)


_FIRST: Final = Order()
_LAST: Final = Order(1 << 62)


class Survey(NamedTuple):
    """The new log as a whole: its heads, the former positions of its events (0 if unknown), and the times of
    the events whose place in the log is known."""

    heads: list[StreamRow]
    positions: list[int]
    known: list[tuple[int, Order]]
    gone: int
    """How many events were archived: their positions stay empty."""
    misplaced: set[tuple[int, int]]
    """The events (number of the stream, version) whose position is not in the order of their stream: they
    count as events without a known position."""

    @property
    def keeps_positions(self) -> bool:
        """Whether the positions that the events had fit together."""
        places = self.positions
        return (
            bool(places)
            and not self.misplaced
            and min(places) > 0
            and len(set(places)) == len(places)
            and max(places) == len(places) + self.gone
        )


def survey(made: Salvaged) -> Survey:
    """Read the new log once."""
    found = Survey([], [], [], sum(one.version for one in made.archived.values()), set())
    for name, number in {STORE_STREAM: 1, **made.numbers}.items():
        record = made.archived.get(name)
        if record is not None:
            # Nothing depends on the epoch and the time of a head that is archived.
            hash = bytes.fromhex(record.hash)
            found.heads.append(StreamRow(number, name, "archived", record.version, hash, 0, 0))
            continue
        head = StreamRow(number, name, made.kinds.get(name, "store"), 0, GENESIS, 0, 0)
        found.misplaced.update((number, version) for version in _misplaced(made, name))
        for row, place in _rows(made, name, number, found.misplaced):
            epoch = head.epoch
            if row.type in _FENCING:
                epoch = getattr(e.decode(row.type, row.payload), "epoch", 0) or epoch
            head = head._replace(version=row.version, hash=row.hash, epoch=epoch, at=row.at)
            found.positions.append(row.position)
            if row.position or place != NO_PLACE:
                found.known.append((row.at, _order(row, place)))
        if name in made.deleted:  # the epoch of one that is deleted is below every other one
            head = head._replace(kind="deleted", epoch=-1 - head.epoch)
        found.heads.append(head)
    found.known.sort()
    return found


_FENCING: Final = frozenset(one.__name__ for one in e.FENCING)


def _order(row: LogRow, place: JournalPlace) -> Order:
    return Order(row.position) if row.position else Order(place.behind, place.line)


def _misplaced(made: Salvaged, name: str) -> Iterator[int]:
    """The versions of a stream whose position is not in order: all but the longest series of events whose
    positions grow."""
    known = [
        (version, position)
        for version, record in enumerate(_records(made, name), 1)
        if (position := record.position if isinstance(record, Extra) else made.candidates.event(record)[5])
    ]
    ends: list[int] = []  # length of a series - 1 → the lowest position that ends one so long
    lengths = []
    for _, position in known:
        length = bisect_left(ends, position)
        ends[length : length + 1] = [position]
        lengths.append(length)
    left = len(ends) - 1
    for (version, _), length in zip(reversed(known), reversed(lengths), strict=True):
        if length == left:
            left -= 1
        else:
            yield version


def _records(made: Salvaged, name: str) -> list[int | Extra]:
    """The events of a stream in their order: candidates, and those that the repair writes."""
    one = made.chains.get(name) or Chain(name)
    return [*(made.records if name == STORE_STREAM else one.ids), *made.added.get(name, ())]


def _rows(
    made: Salvaged, name: str, number: int, misplaced: Container[tuple[int, int]] = ()
) -> Iterator[tuple[LogRow, JournalPlace]]:
    """The events of a stream with the positions that they had, 0 where that is not known; and their places
    in the journal."""
    hash, encoded = GENESIS, name.encode()
    for version, record in enumerate(_records(made, name), 1):
        if isinstance(record, Extra):
            type, at, payload, position, place = record
            synced = 1
        else:
            type, at, payload, _, synced, position, _ = made.candidates.event(record)
            place = NO_PLACE if position else made.candidates.journal_place(record)
        if (number, version) in misplaced:
            position = 0
        hash = chain(hash, encoded, version, type, at, payload)
        yield LogRow(position, number, version, type, at, payload, hash, synced), place


def log_rows(made: Salvaged, surveyed: Survey) -> Iterator[LogRow]:
    """The whole log in its order. Positions are kept if all are known and consistent; otherwise all are
    assigned anew. An event without a known place follows the last older event, and the event before it in its
    stream."""
    streams = [
        _ordered(_rows(made, name, number, surveyed.misplaced), surveyed.known)
        for name, number in {STORE_STREAM: 1, **made.numbers}.items()
        if name not in made.archived
    ]
    keeps = surveyed.keeps_positions
    merged = heapq.merge(*streams, key=lambda one: (one[0], one[1].stream, one[1].version))
    for place, (_, row) in enumerate(merged, surveyed.gone + 1):
        yield row if keeps else row._replace(position=place)


def _ordered(
    rows: Iterator[tuple[LogRow, JournalPlace]], known: list[tuple[int, Order]]
) -> Iterator[tuple[Order, LogRow]]:
    """Each event with an order that grows within its stream. One whose place is not known stays between its
    neighbours in the stream, whatever its time is."""
    last = _FIRST
    waiting: list[LogRow] = []
    for row, place in rows:
        order = _order(row, place)
        if order == _FIRST:
            waiting.append(row)
            continue
        for one in waiting:
            guess = _guessed(one, known)
            last = guess if last < guess < order else last.next()
            yield last, one
        waiting.clear()
        last = max(last.next(), order)
        yield last, row
    for one in waiting:
        last = max(last.next(), _guessed(one, known))
        yield last, one


def _guessed(row: LogRow, known: list[tuple[int, Order]]) -> Order:
    """A place behind the last older event: behind the record of its creation, and before what follows it."""
    is_first = row.version == 1 and row.stream > 1
    older = bisect_right(known, (row.at, _LAST)) if is_first else bisect_left(known, (row.at, _FIRST))
    return known[older - 1][1].next() if older else _FIRST.next()
