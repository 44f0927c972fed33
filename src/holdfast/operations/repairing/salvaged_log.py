"""The log of a repaired store: its heads, and its events in their order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.kernel import events as e
from holdfast.operations.repairing.chains import Chain
from holdfast.operations.repairing.salvage import Extra, Salvaged
from holdfast.store.port import GENESIS, STORE_STREAM, chain
from holdfast.store.sqlite.salvage.remake import LogRow, StreamRow


def is_as_before(made: Salvaged) -> bool:
    """Whether the new log is the old one to the last event, with nothing added."""
    return not (made.cuts or made.added or made.chained_anew or made.lost_values)


class Survey(NamedTuple):
    """The new log as a whole: its heads, the positions that its events had (0 where that is not known), and
    when those were whose position is known."""

    heads: list[StreamRow]
    positions: list[int]
    known: list[tuple[int, int]]
    gone: int
    """How many events were archived: their positions stay empty."""

    @property
    def keeps_positions(self) -> bool:
        """Whether the positions that the events had fit together."""
        places = self.positions
        return (
            bool(places)
            and min(places) > 0
            and len(set(places)) == len(places)
            and max(places) == len(places) + self.gone
        )


def survey(made: Salvaged) -> Survey:
    """Go through the new log once."""
    found = Survey([], [], [], sum(one.version for one in made.archived.values()))
    for name, number in {STORE_STREAM: 1, **made.numbers}.items():
        record = made.archived.get(name)
        if record is not None:
            # Nothing depends on the epoch and the time of a head that is archived.
            hash = bytes.fromhex(record.hash)
            found.heads.append(StreamRow(number, name, "archived", record.version, hash, 0, 0))
            continue
        head = StreamRow(number, name, made.kinds.get(name, "store"), 0, GENESIS, 0, 0)
        for row in _rows(made, name, number):
            epoch = head.epoch
            if row.type in _FENCING:
                epoch = getattr(e.decode(row.type, row.payload), "epoch", 0) or epoch
            head = head._replace(version=row.version, hash=row.hash, epoch=epoch, at=row.at)
            found.positions.append(row.position)
            if row.position:
                found.known.append((row.at, row.position))
        if name in made.deleted:  # the epoch of one that is deleted is below every other one
            head = head._replace(kind="deleted", epoch=-1 - head.epoch)
        found.heads.append(head)
    found.known.sort()
    return found


_FENCING: Final = frozenset(one.__name__ for one in e.FENCING)


def _rows(made: Salvaged, name: str, number: int) -> Iterator[LogRow]:
    """The events of a stream with the positions that they had; 0 where that is not known."""
    one = made.chains.get(name) or Chain(name)
    events: list[int | Extra] = [*(made.records if name == STORE_STREAM else one.ids)]
    hash, encoded = GENESIS, name.encode()
    for version, record in enumerate([*events, *made.added.get(name, ())], 1):
        if isinstance(record, Extra):
            type, at, payload, position = record
            synced = 1
        else:
            type, at, payload, _, synced, position, _ = made.candidates.event(record)
        hash = chain(hash, encoded, version, type, at, payload)
        yield LogRow(position, number, version, type, at, payload, hash, synced)


def log_rows(made: Salvaged, surveyed: Survey) -> Iterator[LogRow]:
    """The whole log in its order. Positions stay if all are known and fit; else they are new. An event
    without a position follows the one before it in its stream; a first one follows the last older event."""
    streams = [
        _ordered(_rows(made, name, number), surveyed.known)
        for name, number in {STORE_STREAM: 1, **made.numbers}.items()
        if name not in made.archived
    ]
    keeps = surveyed.keeps_positions
    merged = heapq.merge(*streams, key=lambda one: (one[0], one[1].stream, one[1].version))
    for place, (_, row) in enumerate(merged, surveyed.gone + 1):
        yield row if keeps else row._replace(position=place)


def _ordered(
    rows: Iterator[LogRow], known: list[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], LogRow]]:
    """Each event with a key that grows within its stream."""
    from bisect import bisect_right

    last = (0, 0)
    for row in rows:
        if row.position > last[0]:
            last = (row.position, 0)
        elif row.position == 0 and last == (0, 0):
            older = bisect_right(known, (row.at, 1 << 62))
            last = (known[older - 1][1] if older else 0, 1)
        elif row.position == 0:
            older = bisect_right(known, (row.at, 1 << 62))
            last = max((last[0], last[1] + 1), (known[older - 1][1] if older else 0, 1))
        else:
            last = (last[0], last[1] + 1)
        yield last, row
