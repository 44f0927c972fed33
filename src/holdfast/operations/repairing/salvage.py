"""A whole log from what the copies of a damaged one still hold: which events, in which order, and what is
lost for good.

The store's own stream is made whole first, because every other stream has its number from there: a lost
record of a stream's creation is made again from the stream itself, and its hash shows whether it is the same.
Where it cannot be proven, the records behind it are chained anew. A stream of which nothing is left keeps its
name and its number, recorded as archived, so that no new run takes its place unnoticed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import Impossible, evolve
from holdfast.kernel.state import RunState
from holdfast.operations.repairing.chains import Chain, follow
from holdfast.store.port import GENESIS, STORE_STREAM, chain
from holdfast.store.sqlite.salvage.candidates import SAME, Candidates
from holdfast.store.sqlite.salvage.remake import LogRow, StreamRow

MADE_AGAIN: Final = "made again from the streams themselves"
_LOST_KIND: Final = "lost"


class Cut(NamedTuple):
    """The versions `first` to `last` of a stream are in no copy. `what` says what the stream is."""

    stream: str
    first: int
    last: int
    what: str
    once: tuple[str, ...] = ()
    """Steps with the effect `once` that were, or may have been, in that part."""


class _Extra(NamedTuple):
    """An event that is written by the repair, or chained anew."""

    type: str
    at: int
    payload: str
    position: int = 0


@dataclass
class Salvaged:
    """All that a new database is made of."""

    candidates: Candidates
    chains: dict[str, Chain]
    kinds: dict[str, str]
    archived: dict[str, e.StreamArchived]
    deleted: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Stream → its head (version, hash), of those that are deleted and can be restored."""
    records: list[int | _Extra] = field(default_factory=list)
    """The store's own stream: candidates as they are, then records that are chained anew."""
    numbers: dict[str, int] = field(default_factory=dict)
    added: dict[str, list[_Extra]] = field(default_factory=dict)
    """Stream → events that the repair appends."""
    cuts: list[Cut] = field(default_factory=list)
    lost_values: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    chained_anew: int = 0
    """How many records of the store's own stream have other hashes than before."""
    attention: dict[str, str] = field(default_factory=dict)
    """Run → why it needs attention now."""

    owners: set[str] = field(default_factory=set)
    """Who owned a run: their lock files say when they were last alive."""

    @property
    def events(self) -> int:
        return (
            sum(one.version for one in self.chains.values())
            + len(self.records)
            - self.chains[STORE_STREAM].version
        )

    def taken(self) -> dict[str, int]:
        """Copy → how many events came from it."""
        labels, found = self.candidates.labels(), dict[str, int]()
        for one in self.chains.values():
            for copy, count in one.sources.items():
                found[labels[copy]] = found.get(labels[copy], 0) + count
        return found


def salvage(candidates: Candidates, kept: str, at: int) -> Salvaged:
    """Decide what the repaired store holds. `kept` is the directory that keeps the damaged files; `at` is
    now. Raises StoreCorrupt if no copy has anything of a log."""
    candidates.name_orphans()
    chains = {
        name: chain
        for name in candidates.names()
        if name != STORE_STREAM and (chain := follow(candidates, name)).version
    }
    made = Salvaged(candidates, chains, {}, {})
    _restore_records(made)
    if not made.records and not chains:
        raise StoreCorrupt("no copy of the log has an event that can be proven; nothing was changed")
    _settle_streams(made, kept, at)
    _settle_values(made)
    _settle_runs(made, at)
    if made.cuts or made.lost_values or made.chained_anew:
        lost = tuple(e.Lost(one.stream, one.first, one.last) for one in made.cuts)
        before = next(iter(candidates.meta.values()), {}).get("incarnation", "")
        _add(made, STORE_STREAM, e.StoreRepaired(kept, lost, tuple(made.lost_values), before), at)
    return made


# The store's own stream


def _restore_records(made: Salvaged) -> None:
    """The creations and archivings, from the candidates or made again from the streams themselves."""
    candidates = made.candidates
    copy = candidates.add_copy(MADE_AGAIN, SAME)
    for name, one in made.chains.items():
        number = candidates.number(name)
        if number > 1:
            first = candidates.event(one.ids[0])
            payload = e.encode(e.StreamCreated(name, _kind(candidates, name, first[0])))
            candidates.add_event(
                copy, STORE_STREAM, number - 1, "StreamCreated", first[1], payload, b"", rank=9
            )
    own = follow(candidates, STORE_STREAM)
    made.chains[STORE_STREAM] = own
    made.records = list(own.ids)
    last = max(own.known, *(candidates.number(name) - 1 for name in made.chains), 0)
    if last > own.version:
        made.records += _chained_anew(candidates, own.version, last)
        made.chained_anew = last - own.version
    for version, record in enumerate(made.records, 1):
        type, fields = _record(made, record)
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


def _chained_anew(candidates: Candidates, behind: int, last: int) -> Iterator[_Extra]:
    found: dict[int, _Extra] = {}
    for one in candidates.of(STORE_STREAM, behind):
        if one.version not in found and _is_record(one.type, one.payload):
            found[one.version] = _Extra(one.type, one.at, one.payload, one.position)
    at = 0
    for version in range(behind + 1, last + 1):
        extra = found.get(version)
        if extra is None:
            name, kind = next(iter(candidates.names_of(version + 1)), ("", ""))
            created = e.StreamCreated(name or f"@lost/{version}", kind if name and kind else _LOST_KIND)
            extra = _Extra("StreamCreated", at, e.encode(created))
        at = extra.at
        yield extra


def _is_record(type: str, payload: str) -> bool:
    try:
        e.decode(type, payload)
        return type.startswith(("Stream", "Store")) and bool(_fields(payload))
    except msgspec.DecodeError:
        return False


def _kind(candidates: Candidates, name: str, first: str) -> str:
    heads = candidates.heads(name)
    kind = next((head.kind for head in heads if head.kind not in ("archived", "deleted")), "")
    if kind:
        return kind
    if first == "RunCreated":
        return "run"
    word = name[1:].partition("/")[0] if name.startswith("@") else ""
    return "operation" if word == "op" else word or _LOST_KIND


def _record(made: Salvaged, record: int | _Extra) -> tuple[str, dict[str, Any]]:
    if isinstance(record, _Extra):
        return record.type, _fields(record.payload)
    type, _, payload, *_ = made.candidates.event(record)
    return type, _fields(payload)


def _decoded(made: Salvaged, record: int | _Extra) -> e.Event:
    if isinstance(record, _Extra):
        return e.decode(record.type, record.payload)
    type, _, payload, *_ = made.candidates.event(record)
    return e.decode(type, payload)


# The other streams


def _settle_streams(made: Salvaged, kept: str, at: int) -> None:
    """Every stream that was created is there, archived, or recorded as lost; and every one that is there was
    created."""
    candidates = made.candidates
    for name, version, hash in candidates.archived():
        if name not in made.archived and name in made.numbers:
            made.archived[name] = record = e.StreamArchived(name, version, hash.hex())
            _add(made, STORE_STREAM, record, at)
    for name, (version, digest) in [*made.deleted.items()]:
        there = made.chains.get(name)
        if there is None or (there.version, there.hash.hex()) != (version, digest):
            # What is left of it cannot be restored: the deletion is final.
            del made.deleted[name]
            made.cuts.append(Cut(name, there.version + 1 if there else 1, version, "deleted"))
            made.archived[name] = record = e.StreamArchived(name, version, digest)
            _add(made, STORE_STREAM, record, at)
    for name in made.archived:
        made.chains.pop(name, None)
    for name in [one for one in made.chains if one not in made.numbers and one != STORE_STREAM]:
        first = candidates.event(made.chains[name].ids[0])
        made.kinds[name] = _kind(candidates, name, first[0])
        made.numbers[name] = len(made.records) + len(made.added.get(STORE_STREAM, ())) + 2
        _add(made, STORE_STREAM, e.StreamCreated(name, made.kinds[name]), first[1])
    for name in made.numbers:
        if name in made.chains or name in made.archived:
            continue
        known = max((head.version for head in candidates.heads(name)), default=0)
        if made.kinds[name] != _LOST_KIND or not name.startswith("@lost/"):
            made.cuts.append(Cut(name, 1, max(known, 1), _described(made, name)))
        made.archived[name] = record = e.StreamArchived(name, 0, GENESIS.hex(), kept)
        _add(made, STORE_STREAM, record, at)


def _settle_values(made: Salvaged) -> None:
    """Which large values the new log needs, and which of them no copy has."""
    needed: dict[str, None] = {}
    for one in made.chains.values():
        for id in one.ids:
            type, _, payload, *_ = made.candidates.event(id)
            if type == "RunClaimed":
                made.owners.add(str(_fields(payload).get("owner", "")))
            if '"blob"' in payload:
                blob = e.blob_of(e.decode(type, payload))
                if blob:
                    needed[blob] = None
    made.values = [one for one in needed if made.candidates.has_blob(one)]
    there = set(made.values)
    made.lost_values = [one for one in needed if one not in there]


def _settle_runs(made: Salvaged, at: int) -> None:
    """A run whose history is cut off waits for a person, who learns what may have been in the rest of it."""
    missing = set(made.lost_values)
    for name, one in made.chains.items():
        if name == STORE_STREAM or not (one.lost or missing):
            continue
        is_run = made.kinds.get(name) == "run"
        state, without = _state(made, one, missing) if is_run else (None, "")
        once = list(_once_steps(made, one, state)) if is_run else []
        if one.lost:
            made.cuts.append(Cut(name, one.version + 1, one.known, _described(made, name), tuple(once)))
            reason = _reason(one, once)
        else:
            reason = f"the large value of {without} was lost: resuming it fails where the value is needed"
        if state is None or name in made.deleted or not (one.lost or without):
            continue
        key = next((key for key in once if key in state.steps), "")
        for event in decide(state, c.LoseHistory(reason, key)):
            _add(made, name, event, at)
            made.attention[name] = reason


def _reason(one: Chain, once: list[str]) -> str:
    last = f"versions {one.version + 1} to {one.known} of its history were lost"
    if one.lost == 1:
        last = f"version {one.known} of its history was lost"
    if once:
        return (
            f"{last}; `once` steps may have happened there: {', '.join(once)}. Look whether they did before "
            "you resume it: steps that were recorded there run again"
        )
    return f"{last}; steps that were recorded there run again when you resume it"


def _once_steps(made: Salvaged, one: Chain, state: RunState | None) -> Iterator[str]:
    """The `once` steps that were under way where the history is cut off, and those that began in what is left
    of it behind the cut."""
    seen: set[str] = set()
    for step in state.steps.values() if state else ():
        if step.status == "running" and step.effect == "once":
            seen.add(step.key)
            yield step.key
    for event in made.candidates.of(one.name, one.version):
        if event.type == "StepStarted" and '"once"' in event.payload:
            try:
                started = msgspec.json.decode(event.payload, type=e.StepStarted)
            except msgspec.DecodeError:
                continue
            if started.effect == "once" and started.key not in seen:
                seen.add(started.key)
                yield started.key


def _state(made: Salvaged, one: Chain, missing: set[str]) -> tuple[RunState | None, str]:
    """The run as its history has it, and where a large value that is lost belongs."""
    state: RunState | None = None
    without = ""
    for version, id in enumerate(one.ids, 1):
        type, at, payload, *_ = made.candidates.event(id)
        event = e.decode(type, payload)
        if missing and e.blob_of(event) in missing:
            without = without or str(getattr(event, "key", "") or f"version {version}")
        try:
            state = evolve(state, event, version, at)
        except Impossible:
            return None, without
    return state, without


def _described(made: Salvaged, name: str) -> str:
    """The description of a stream, in words."""
    one, kind = made.chains.get(name), made.kinds.get(name, "")
    if name.startswith("@"):
        kind = name[1:].partition("/")[0]
    title = ""
    if one is not None and one.ids:
        fields = _fields(made.candidates.event(one.ids[0])[2])
        code = fields.get("code")
        named = code if isinstance(code, Mapping) else fields
        title = str(named.get("title") or named.get("name") or "")
    return f"{kind or 'stream'} {title}".strip()


def _fields(payload: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _add(made: Salvaged, stream: str, event: e.Event, at: int) -> None:
    made.added.setdefault(stream, []).append(_Extra(e.type_of(event), at, e.encode(event)))


# The new log


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
    events: list[int | _Extra] = [*(made.records if name == STORE_STREAM else one.ids)]
    hash, encoded = GENESIS, name.encode()
    for version, record in enumerate([*events, *made.added.get(name, ())], 1):
        if isinstance(record, _Extra):
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
