"""Rebuilds the store's own stream: which streams were created, in which order, archived and deleted.

The record of a stream's creation gives the stream its number. A record is, in this order of preference,

1. one that the hashes prove; after a gap, one that follows from the stored hash before it;
2. made again from the first event of its stream, whose hash covers the name;
3. one that a copy has without proof, unless the stream's row contradicts it; one that archives or deletes a
   stream only if the stream had the head that it names, or with the name or the head that belongs to it;
4. made from the name that a row or an index has for the number;
5. made for the oldest stream without a record that was created between its neighbours.

If none of these is left, the version is kept under the name `@lost/N`, so that no other stream gets its
number.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import accumulate, groupby
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.kernel import events as e
from holdfast.operations.repairing.chains import Chain, follow
from holdfast.operations.repairing.salvaged import Cut, Extra, Salvaged, fields_of
from holdfast.store.port import STORE_STREAM
from holdfast.store.sqlite.salvage.candidates import (
    EARLIER,
    NO_PLACE,
    OWN,
    SAME,
    UNLIKELY,
    Candidate,
    Candidates,
    Head,
    JournalPlace,
)
from holdfast.store.sqlite.salvage.rows import LEFT_OVER, POINTED
from holdfast.store.sqlite.salvage.stream_names import LOST, LOST_KIND, kind_of
from holdfast.store.streams import GONE

_MADE_AGAIN: Final = "the streams whose creation they record"
_NO_END: Final = 1 << 62
_STORE: Final = STORE_STREAM.encode()
_FOLLOWS, _MADE, _UNPROVEN = range(3)
_TYPES: Final = ("StreamCreated", "StreamArchived", "StreamDeleted", "StreamRestored", "StoreRepaired")
_HASH: Final = re.compile("[0-9a-f]{64}")


class Creation(NamedTuple):
    """The creation of a stream whose record is lost."""

    name: str
    kind: str
    at: int
    place: JournalPlace = NO_PLACE

    def record(self) -> Extra:
        created = e.StreamCreated(self.name, self.kind)
        return Extra(e.type_of(created), self.at, e.encode(created), place=self.place)


def restore_records(made: Salvaged) -> None:
    """Fill in the records of `made`, and the numbers, kinds, archivings and deletions that they record."""
    candidates = made.candidates
    made_again = candidates.add_copy(_MADE_AGAIN, SAME)
    numbers = {name: _number(candidates, one) for name, one in made.chains.items()}
    for name, number in numbers.items():
        if number > 1:
            first = candidates.event(made.chains[name].ids[0])
            payload = e.encode(e.StreamCreated(name, _kind(candidates, name, first[0])))
            candidates.add_event(
                made_again, STORE_STREAM, number - 1, "StreamCreated", first[1], payload, b"", rank=9
            )
    own = follow(candidates, STORE_STREAM)
    made.chains[STORE_STREAM] = own
    made.records = list(own.ids)
    recorded = _created(made, own.ids)
    most = _most(candidates, own.version)
    behind = (number - 1 for name, number in numbers.items() if name not in recorded and number <= most)
    last = max(min(own.known, most), *behind, 0)
    if last > own.version:
        made.records += _chained_anew(made, last, made_again, recorded)
        made.chained_anew = last - own.version
    for version, record in enumerate(made.records, 1):
        type, fields = record_of(made, record)
        if type == "StreamDeleted":
            made.deleted[fields.get("stream", "")] = (fields.get("version", 0), fields.get("hash", ""))
        elif type in ("StreamRestored", "StreamArchived"):
            made.deleted.pop(fields.get("stream", ""), None)
        event = _decoded(made, record)
        if isinstance(event, e.StreamCreated):
            made.kinds[event.stream] = event.kind
            made.numbers[event.stream] = version + 1
        elif isinstance(event, e.StreamArchived):
            made.archived[event.stream] = event


def _number(candidates: Candidates, one: Chain) -> int:
    """The number of a stream, by its first event, whose hash proves the name; by a row or an index if only a
    file without numbers has the event."""
    return candidates.number_of(one.ids[0]) or candidates.number(one.name)


def _most(candidates: Candidates, proven: int) -> int:
    """How many records the store can have had. A damaged head may have any version, and a damaged row any
    number; each record of more than there were would be reported as lost. Every stream has one or more, an
    event or an index may show others behind the proven ones, and all have a position in the log."""
    shown = set(candidates.places(STORE_STREAM, proven))
    shown.update(one.version for one in candidates.of(STORE_STREAM, proven) if one.trust <= SAME)
    return max(2 * (proven + len(candidates.names())) + len(shown), candidates.last_position())


def is_nameless(made: Salvaged, name: str) -> bool:
    """Whether nothing is known of a stream, not even that there was one."""
    return made.kinds[name] == LOST_KIND and name.startswith(LOST)


def unrecorded(made: Salvaged, recorded: Container[object]) -> list[tuple[int, Creation]]:
    """The streams whose creation is not recorded, in the order of their creation, each with the time by which
    it is sorted. Streams of a journal have the order of the journal; streams of other copies, and runs that
    only the mirror shows, are placed among them by time."""
    journaled, others = list[Creation](), list[Creation]()
    for name in made.chains:
        if name == STORE_STREAM or name in recorded:
            continue
        id = made.chains[name].ids[0]
        type, at, *_ = made.candidates.event(id)
        place = made.candidates.journal_place(id)
        created = Creation(name, _kind(made.candidates, name, type), at, place)
        (others if place == NO_PLACE else journaled).append(created)
    for run in made.mirrored.values():
        if run.id not in made.chains and run.id not in recorded:
            others.append(Creation(run.id, "run", run.created_at))
    journaled.sort(key=lambda one: one.place)
    # A clock that was set back does not change the order of the journal.
    latest = accumulate((one.at for one in journaled), max)
    ordered = [*zip(latest, journaled, strict=True), *((one.at, one) for one in others)]
    ordered.sort(key=lambda one: (one[0], one[1].place))
    return ordered


def _created(made: Salvaged, records: Iterable[int]) -> set[Any]:
    """The streams whose creation these records show."""
    read = (record_of(made, one) for one in records)
    return {fields.get("stream") for type, fields in read if type == "StreamCreated"}


def _chained_anew(made: Salvaged, last: int, made_again: int, recorded: set[Any]) -> Iterator[Extra]:
    """The records after the proven ones, which create the streams `recorded`, up to version `last`."""
    proven = made.chains[STORE_STREAM].ids
    known = _known_records(made, last, made_again, recorded)
    next_at, at = {last + 1: _NO_END}, _NO_END
    for version in range(last, len(proven), -1):
        at = known[version].at or at if version in known else at
        next_at[version] = at
    at = made.candidates.event(proven[-1])[1] if proven else 0
    left = deque(unrecorded(made, recorded))
    for version in range(len(proven) + 1, last + 1):
        extra = known.get(version)
        while left and left[0][0] < at:
            left.popleft()
        # If a clock was set back, a later record still counts as no older than the one before it.
        if extra is None and left and left[0][0] <= max(next_at[version], at):
            at, created = left.popleft()
            extra = created.record()
        elif extra is None:
            _cut(made, version)
            extra = Creation(f"{LOST}{version}", LOST_KIND, at).record()
        elif not extra.at:
            extra = extra._replace(at=at)
        elif extra.at <= next_at[version + 1]:  # else its time is damaged, or a clock was set back
            at = max(at, extra.at)
        yield extra


def _cut(made: Salvaged, version: int) -> None:
    """Report that a record is lost. Records that follow each other are reported as one part."""
    before = made.cuts.pop() if made.cuts and made.cuts[-1].last == version - 1 else None
    first = before.first if before else version
    made.cuts.append(Cut(STORE_STREAM, first, version, "records of what was created, archived or deleted"))


def _known_records(made: Salvaged, last: int, made_again: int, recorded: set[Any]) -> dict[int, Extra]:
    """Version → record, for the known records after the proven ones; the time is 0 if it is not known. Adds
    the streams that they create to `recorded`."""
    candidates, known = made.candidates, dict[int, Extra]()
    unproven = list[Candidate]()
    behind = made.chains[STORE_STREAM].version
    before = [made.chains[STORE_STREAM].hash]
    for version, group in groupby(candidates.of(STORE_STREAM, behind), key=lambda one: one.version):
        if version > last:
            break
        here = [_as_proven(candidates, one, before) for one in group if one.trust < EARLIER]
        # Among equals, the most trusted comes first.
        likely = sorted(
            (_likelihood(one, before, made_again), n, one) for n, one in enumerate(here) if _is_record(one)
        )
        before = [one.hash for one in here if one.hash]
        for likelihood, _, one in likely:
            created = _creates(one)
            if likelihood == _UNPROVEN:
                unproven.append(one)
            elif version not in known and recorded.isdisjoint(created):
                known[version] = Extra(one.type, one.at, one.payload, one.position)
                recorded.update(created)
    for one in unproven:  # only now: a damaged one may have the name of a later one
        event = _believed(made, one, known) if one.version not in known else None
        created = [event.stream] if isinstance(event, e.StreamCreated) else []
        if event is not None and recorded.isdisjoint(created):
            is_same = event == e.decode(one.type, one.payload)
            payload = one.payload if is_same else e.encode(event)
            known[one.version] = Extra(one.type, one.at, payload, one.position)
            recorded.update(created)
    for version in range(behind + 1, last + 1):
        if version not in known:
            name = next((name for name in candidates.names_of(version + 1) if name not in recorded), "")
            if name:
                kind = _kind(candidates, name, "RunCreated" if name in made.mirrored else "")
                known[version] = Creation(name, kind, _created_at(made, name)).record()
                recorded.add(name)
    return known


def _believed(made: Salvaged, one: Candidate, known: Mapping[int, Extra]) -> e.Event | None:
    """A record that the hashes do not prove, as it must have been; None if it is not believed. `known` are
    the records that are proven, by their versions. The row of a stream contradicts a record if the stream has
    the number that only another record can have given it."""
    event = e.decode(one.type, one.payload)
    named = made.candidates.head_names(one.version + 1)
    if named and not (isinstance(event, e.StreamCreated) and event.stream in named):
        return None
    if isinstance(event, (e.StreamArchived, e.StreamDeleted)):
        return _with_known_head(made, event)
    if isinstance(event, e.StreamRestored):
        return event if _is_restorable(made, event.stream, one.version, known) else None
    if isinstance(event, e.StreamCreated):
        return _with_known_kind(event)
    return None if isinstance(event, e.Unknown) else event


def _with_known_kind(event: e.StreamCreated) -> e.StreamCreated | None:
    """The record of a creation, with the kind that belongs to its name; None if no stream has such a name."""
    kind = kind_of(event.stream)
    if not kind or event.stream == STORE_STREAM:
        return None
    return event if event.kind in (kind, LOST_KIND) else msgspec.structs.replace(event, kind=kind)


def _is_restorable(made: Salvaged, name: str, at: int, known: Mapping[int, Extra]) -> bool:
    """Whether a stream can have been restored by the record `at`: it was deleted before, as far as that is
    known, and it is not deleted now, unless a later record says so."""
    proven = made.chains[STORE_STREAM].ids
    before: list[int | Extra] = [*proven, *(known[n] for n in range(len(proven) + 1, at) if n in known)]
    fates = [
        type for type, fields in (record_of(made, one) for one in before) if fields.get("stream") == name
    ]
    was_deleted = fates[-1:] == ["StreamDeleted"] or (len(before) < at - 1 and bool(fates))
    rows = made.candidates.own_rows(name)
    is_deleted = any(row.kind == "deleted" and row.reach > LEFT_OVER for row in rows)
    later = (record_of(made, record) for version, record in known.items() if version > at)
    return was_deleted and (
        not is_deleted
        or any(type == "StreamDeleted" and fields.get("stream") == name for type, fields in later)
    )


def _with_known_head(
    made: Salvaged, event: e.StreamArchived | e.StreamDeleted
) -> e.StreamArchived | e.StreamDeleted | None:
    """The record of a stream that is gone, with a name and a head that are known to belong together: they
    are as they stand if the stream had that head; else the hash says which stream it was, or the row of the
    stream which head. None if neither does, and something else is known of the stream."""
    head = (event.version, event.hash)
    if _has_had(made, event.stream, head):
        return event
    others = made.candidates.names_at(*head) | {
        one.name for one in made.chains.values() if (one.version, one.hash.hex()) == head
    }
    if event.version > 0 and len(others) == 1:
        return msgspec.structs.replace(event, stream=others.pop())
    rows = {(row.version, row.hash.hex()) for row in _rows_of_end(made, event)}
    there = made.chains.get(event.stream)
    if len(rows) == 1 and (there is None or _has_had(made, event.stream, *rows)):
        version, hash = rows.pop()
        return msgspec.structs.replace(event, version=version, hash=hash)
    is_head = 0 < event.version < UNLIKELY and _HASH.fullmatch(event.hash)
    is_known = event.stream in made.candidates.names()
    return event if not rows and there is None and is_head and is_known else None


def _rows_of_end(made: Salvaged, event: e.StreamArchived | e.StreamDeleted) -> list[Head]:
    """The rows of a stream that is gone. If it was deleted several times, those that have the hash of the
    record, or its version, or are read."""
    rows = [row for row in made.candidates.heads(event.stream) if row.trust == OWN and row.kind in GONE]
    for fit in (
        [row for row in rows if row.hash.hex() == event.hash],
        [row for row in rows if row.version == event.version],
        [row for row in rows if row.reach == POINTED],
    ):
        if fit:
            return fit
    return rows


def _has_had(made: Salvaged, name: str, head: tuple[int, str]) -> bool:
    """Whether the stream had this head (version, hash) at some time: by its events, or by a row of it."""
    one = made.chains.get(name)
    if one is not None and 0 < head[0] <= one.version:
        version, stored = head[0], made.candidates.event(one.ids[head[0] - 1])[3]
        return one.hashes.get(version, stored).hex() == head[1]
    return any((row.version, row.hash.hex()) == head for row in made.candidates.heads(name))


def _creates(one: Candidate) -> list[Any]:
    """The stream whose creation a record shows; empty if it is another record."""
    return [fields_of(one.payload).get("stream")] if one.type == "StreamCreated" else []


def _likelihood(one: Candidate, before: list[bytes], made_again: int) -> int:
    """The rank of a candidate; lower is more likely."""
    if _follows(one, before):
        return _FOLLOWS
    return _MADE if one.copy == made_again else _UNPROVEN


def _follows(one: Candidate, before: list[bytes]) -> bool:
    return bool(one.hash) and any(one.chained(hash, _STORE) == one.hash for hash in before)


def _as_proven(candidates: Candidates, one: Candidate, before: list[bytes]) -> Candidate:
    """The record; with the type that its hash proves, if its own type is none of a record; and of an undo,
    which has no head, with the name that its hash proves."""
    possible = list[Candidate]()
    if one.type not in _TYPES:
        possible = [one._replace(type=type) for type in _TYPES]
    elif one.type == "StreamRestored" and _is_record(one) and not _follows(one, before):
        event = e.decode(one.type, one.payload)
        possible = [
            one._replace(payload=e.encode(msgspec.structs.replace(event, stream=name)))
            for name in candidates.names()
        ]
    return next((other for other in possible if _follows(other, before)), one)


def _created_at(made: Salvaged, name: str) -> int:
    """When a stream was created, by its first event or the mirror; 0 if neither is left."""
    if name in made.chains:
        return made.candidates.event(made.chains[name].ids[0])[1]
    return made.mirrored[name].created_at if name in made.mirrored else 0


def _is_record(one: Candidate) -> bool:
    try:
        e.decode(one.type, one.payload)
        return one.type.startswith(("Stream", "Store")) and bool(fields_of(one.payload))
    except msgspec.DecodeError:
        return False


def _kind(candidates: Candidates, name: str, first: str) -> str:
    heads = candidates.heads(name)
    kind = next((head.kind for head in heads if head.kind in (kind_of(name), LOST_KIND)), "")
    if kind:
        return kind
    if first == "RunCreated":
        return "run"
    word = name[1:].partition("/")[0] if name.startswith("@") else ""
    return "operation" if word == "op" else word or LOST_KIND


def record_of(made: Salvaged, record: int | Extra) -> tuple[str, dict[str, Any]]:
    """The type and the fields of a record."""
    type, payload = _text(made, record)
    return type, fields_of(payload)


def _decoded(made: Salvaged, record: int | Extra) -> e.Event:
    return e.decode(*_text(made, record))


def _text(made: Salvaged, record: int | Extra) -> tuple[str, str]:
    """The type and the payload of a record."""
    if isinstance(record, Extra):
        return record.type, record.payload
    type, _, payload, *_ = made.candidates.event(record)
    return type, payload
