"""A whole log from what the copies of a damaged one still hold: which events, in which order, and what is
lost for good.

The store's own stream is made whole first, because every other stream has its number from there: a lost
record of a stream's creation is made again from the stream itself, and its hash shows whether it is the same.
Where it cannot be proven, the records behind it are chained anew. A stream of which nothing is left keeps its
name and its number, recorded as archived, so that no new run takes its place unnoticed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import Impossible, evolve
from holdfast.kernel.state import RunState
from holdfast.operations.repairing.chains import Chain, follow
from holdfast.operations.repairing.copies import Collected
from holdfast.operations.repairing.mirrored import MirroredRun
from holdfast.store.port import GENESIS, STORE_STREAM
from holdfast.store.sqlite.salvage.candidates import NO_PLACE, SAME, Candidates, JournalPlace

MADE_AGAIN: Final = "the streams whose creation they record"
_LOST_KIND: Final = "lost"
_LATER: Final = 1 << 62


class Cut(NamedTuple):
    """The versions `first` to `last` of a stream are in no copy. `what` says what the stream is."""

    stream: str
    first: int
    last: int
    what: str
    once: tuple[str, ...] = ()
    """Steps with the effect `once` that were, or may have been, in that part."""


class Extra(NamedTuple):
    """An event that is written by the repair, or chained anew."""

    type: str
    at: int
    payload: str
    position: int = 0
    place: JournalPlace = NO_PLACE
    """Of the creation of a stream that only a journal has: where its first event is there."""


@dataclass
class Salvaged:
    """All that a new database is made of."""

    candidates: Candidates
    chains: dict[str, Chain]
    kinds: dict[str, str]
    archived: dict[str, e.StreamArchived]
    deleted: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Stream → its head (version, hash), of those that are deleted and can be restored."""
    records: list[int | Extra] = field(default_factory=list)
    """The store's own stream: candidates as they are, then records that are chained anew."""
    numbers: dict[str, int] = field(default_factory=dict)
    added: dict[str, list[Extra]] = field(default_factory=dict)
    """Stream → events that the repair appends."""
    cuts: list[Cut] = field(default_factory=list)
    lost_values: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    chained_anew: int = 0
    """How many records of the store's own stream have other hashes than before."""
    attention: dict[str, str] = field(default_factory=dict)
    """Run → why it needs attention now."""
    mirrored: Mapping[str, MirroredRun] = field(default_factory=dict)
    """Run → how the mirror shows it."""
    journals: frozenset[int] = frozenset()
    """The copies that are journals."""

    owners: set[str] = field(default_factory=set)
    """Who owned a run: their lock files say when they were last alive."""

    @property
    def events(self) -> int:
        return (
            sum(one.version for one in self.chains.values())
            + len(self.records)
            - self.chains[STORE_STREAM].version
        )

    @property
    def journaled(self) -> int:
        """How many events came from journals."""
        return sum(one.sources[copy] for one in self.chains.values() for copy in self.journals)

    def taken(self) -> dict[str, int]:
        """Copy → how many events came from it."""
        labels, found = self.candidates.labels(), dict[str, int]()
        for one in self.chains.values():
            for copy, count in one.sources.items():
                found[labels[copy]] = found.get(labels[copy], 0) + count
        return found


def salvage(candidates: Candidates, collected: Collected, kept: str, at: int) -> Salvaged:
    """Decide what the repaired store holds. `kept` is the directory that keeps the damaged files; `at` is
    now. Raises StoreCorrupt if no copy has anything of a log."""
    candidates.name_orphans()
    chains = {
        name: chain
        for name in candidates.names()
        if name != STORE_STREAM and (chain := follow(candidates, name)).version
    }
    for name, run in collected.runs.items():
        if name in chains:
            chains[name].known = max(chains[name].known, run.version)
    made = Salvaged(candidates, chains, {}, {}, mirrored=collected.runs, journals=collected.journals)
    _restore_records(made)
    if not (made.records or chains or collected.runs):
        raise StoreCorrupt("no copy of the log has an event that can be proven; nothing was changed")
    _settle_streams(made, kept, at)
    _settle_values(made)
    _settle_runs(made, at)
    return made


def record_repair(made: Salvaged, incarnation: str, kept: str, at: int) -> None:
    """Record in the store's own stream what is lost, and the incarnation that the store had."""
    lost = tuple(e.Lost(one.stream, one.first, one.last) for one in made.cuts)
    _add(made, STORE_STREAM, e.StoreRepaired(kept, lost, tuple(made.lost_values), incarnation), at)


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
        made.records += _chained_anew(made, own, last)
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


def _chained_anew(made: Salvaged, own: Chain, last: int) -> Iterator[Extra]:
    """The records behind the proven ones, up to version `last`: as they were found, or made from the name
    that a stream of their number has. One of which neither is left is that of a stream which was created at
    that time, if there is such a one without a number; or else of a stream that nothing is known of."""
    recorded = {_record(made, one)[1].get("stream") for one in own.ids}
    known = _known_records(made, own, last, recorded)
    next_at, at = dict[int, int](), _LATER
    for version in range(last, own.version, -1):
        at = known[version].at or at if version in known else at
        next_at[version] = at
    at = made.candidates.event(own.ids[-1])[1] if own.ids else 0
    unrecorded = iter(_unrecorded(made, recorded))
    waiting = next(unrecorded, None)
    for version in range(own.version + 1, last + 1):
        while waiting and waiting.at < at:
            waiting = next(unrecorded, None)
        extra = known.get(version)
        if extra is None and waiting and waiting.at <= next_at[version]:
            extra, waiting = waiting.record(), next(unrecorded, None)
        elif extra is None:
            extra = _Creation(f"@lost/{version}", _LOST_KIND, at).record()
        elif not extra.at:
            extra = extra._replace(at=at)
        at = max(at, extra.at)
        yield extra


def _known_records(made: Salvaged, own: Chain, last: int, recorded: set[Any]) -> dict[int, Extra]:
    """Version → the record, of those behind the proven ones. Its time is 0 if that is not known. Adds the
    streams to `recorded`."""
    candidates, known = made.candidates, dict[int, Extra]()
    for one in candidates.of(STORE_STREAM, own.version):
        if one.version not in known and _is_record(one.type, one.payload):
            known[one.version] = Extra(one.type, one.at, one.payload, one.position)
            recorded.add(_fields(one.payload).get("stream"))
    for version in range(own.version + 1, last + 1):
        if version not in known:
            name = next((name for name in candidates.names_of(version + 1) if name not in recorded), "")
            if name:
                kind = _kind(candidates, name, "RunCreated" if name in made.mirrored else "")
                known[version] = _Creation(name, kind, _created_at(made, name)).record()
                recorded.add(name)
    return known


def _created_at(made: Salvaged, name: str) -> int:
    """When a stream was created, by its first event or the mirror; 0 if neither is left."""
    if name in made.chains:
        return made.candidates.event(made.chains[name].ids[0])[1]
    return made.mirrored[name].created_at if name in made.mirrored else 0


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


def _record(made: Salvaged, record: int | Extra) -> tuple[str, dict[str, Any]]:
    if isinstance(record, Extra):
        return record.type, _fields(record.payload)
    type, _, payload, *_ = made.candidates.event(record)
    return type, _fields(payload)


def _decoded(made: Salvaged, record: int | Extra) -> e.Event:
    if isinstance(record, Extra):
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
    for one in _unrecorded(made, made.numbers):
        made.kinds[one.name] = one.kind
        made.numbers[one.name] = len(made.records) + len(made.added.get(STORE_STREAM, ())) + 2
        made.added.setdefault(STORE_STREAM, []).append(one.record())
    for name in made.numbers:
        if name in made.chains or name in made.archived:
            continue
        known = max((head.version for head in candidates.heads(name)), default=0)
        known = max(known, made.mirrored[name].version if name in made.mirrored else 0)
        if made.kinds[name] != _LOST_KIND or not name.startswith("@lost/"):
            made.cuts.append(Cut(name, 1, max(known, 1), _described(made, name)))
        made.archived[name] = record = e.StreamArchived(name, 0, GENESIS.hex(), kept)
        _add(made, STORE_STREAM, record, at)


class _Creation(NamedTuple):
    """The creation of a stream, which no record is left of."""

    name: str
    kind: str
    at: int
    place: JournalPlace = NO_PLACE

    def record(self) -> Extra:
        created = e.StreamCreated(self.name, self.kind)
        return Extra(e.type_of(created), self.at, e.encode(created), place=self.place)


def _unrecorded(made: Salvaged, recorded: Container[object]) -> list[_Creation]:
    """The streams whose creation is not recorded, in the order in which they were created: numbers are
    given by it. A journal has the order; where a stream of another copy belongs, or a run that only the
    mirror shows, is known by the time."""
    journaled, others = list[_Creation](), list[_Creation]()
    for name in made.chains:
        if name == STORE_STREAM or name in recorded:
            continue
        id = made.chains[name].ids[0]
        type, at, *_ = made.candidates.event(id)
        place = made.candidates.journal_place(id)
        created = _Creation(name, _kind(made.candidates, name, type), at, place)
        (others if place == NO_PLACE else journaled).append(created)
    for run in made.mirrored.values():
        if run.id not in made.chains and run.id not in recorded:
            others.append(_Creation(run.id, "run", run.created_at))
    journaled.sort(key=lambda one: one.place)
    # A clock that was set back does not change the order of the journal.
    latest = accumulate((one.at for one in journaled), max)
    ordered = [(at, one) for at, one in zip(latest, journaled, strict=True)]
    ordered += [(one.at, one) for one in others]
    ordered.sort(key=lambda one: (one[0], one[1].place))
    return [one for _, one in ordered]


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
    elif name in made.mirrored:
        title = made.mirrored[name].title
    return f"{kind or 'stream'} {title}".strip()


def _fields(payload: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _add(made: Salvaged, stream: str, event: e.Event, at: int) -> None:
    extra = Extra(e.type_of(event), at, e.encode(event))
    made.added.setdefault(stream, []).append(extra)
