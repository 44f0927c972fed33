"""Builds a whole log from the events that the copies of a damaged log still hold, and lists what is lost.

The store's own stream is rebuilt first (`store_records`), because it gives every other stream its number. A
stream without any event left keeps its name and its number and is recorded as archived, so that no new run
gets that name or number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from holdfast import typed_values
from holdfast.errors import StoreCorrupt
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel import operation
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import Impossible, evolve
from holdfast.kernel.state import RunState
from holdfast.operations.repairing.chains import Chain, follow
from holdfast.operations.repairing.copies import Collected
from holdfast.operations.repairing.salvaged import Cut, Salvaged, fields_of
from holdfast.operations.repairing.store_records import (
    Creation,
    is_nameless,
    record_of,
    restore_records,
    unrecorded,
)
from holdfast.store.port import GENESIS, STORE_STREAM
from holdfast.store.sqlite.salvage.candidates import EARLIER, Candidates
from holdfast.store.sqlite.salvage.rows import LEFT_OVER, POINTED
from holdfast.store.sqlite.salvage.stream_names import LOST_KIND
from holdfast.store.streams import GONE

_OPERATION: Final = operation.stream_of("")


class _Fate(NamedTuple):
    """A record of the end of a stream, or of its undo."""

    type: str
    is_last: bool
    """Whether all later records are known."""


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
    restore_records(made)
    if not (made.records or made.chains.keys() - {STORE_STREAM} or collected.runs):
        raise StoreCorrupt("no copy of the log has an event that can be proven; nothing was changed")
    _complete_streams(made, kept, at)
    _collect_values(made)
    _mark_cut_runs(made, at)
    return made


def record_repair(made: Salvaged, incarnation: str, kept: str, at: int) -> None:
    """Record in the store's own stream what is lost, and the incarnation that the store had."""
    lost = tuple(e.Lost(one.stream, one.first, one.last) for one in made.cuts)
    made.add(STORE_STREAM, e.StoreRepaired(kept, lost, tuple(made.lost_values), incarnation), at)


def _complete_streams(made: Salvaged, kept: str, at: int) -> None:
    """Add records so that every created stream is present, archived or recorded as lost, and every present
    stream has a record of its creation. A row with the head of another stream archives nothing."""
    candidates = made.candidates
    for name, version, hash in candidates.archived():
        there = made.chains.get(name)
        is_other = there is not None and there.version >= version and there.hash != hash
        if name not in made.archived and name in made.numbers and not is_other:
            made.deleted.pop(name, None)
            made.archived[name] = record = e.StreamArchived(name, version, hash.hex())
            made.add(STORE_STREAM, record, at)
    is_cut = any(one.stream == STORE_STREAM for one in made.cuts)
    if is_cut and candidates.own_end(STORE_STREAM) >= len(made.records):  # else the rows are older
        _restore_deletions(made, at)
    for name, (version, digest) in [*made.deleted.items()]:
        there = made.chains.get(name)
        if there is None or (there.version, there.hash.hex()) != (version, digest):
            # What is left of it cannot be restored: the deletion is final.
            del made.deleted[name]
            made.cuts.append(Cut(name, there.version + 1 if there else 1, version, "deleted"))
            made.archived[name] = record = e.StreamArchived(name, version, digest)
            made.add(STORE_STREAM, record, at)
    for name in made.archived:
        made.chains.pop(name, None)
    unnumbered = [Creation(name, LOST_KIND, at) for name in made.archived if name not in made.numbers]
    for one in [*unnumbered, *(one for _, one in unrecorded(made, made.numbers))]:
        made.kinds[one.name] = one.kind
        made.numbers[one.name] = len(made.records) + len(made.added.get(STORE_STREAM, ())) + 2
        made.added.setdefault(STORE_STREAM, []).append(one.record())
    for name in made.numbers:
        if name in made.chains or name in made.archived:
            continue
        known = max((head.version for head in candidates.heads(name) if head.trust < EARLIER), default=0)
        known = max(known, made.mirrored[name].version if name in made.mirrored else 0)
        if not is_nameless(made, name):
            made.cuts.append(Cut(name, 1, max(known, 1), _described(made, name)))
        made.archived[name] = record = e.StreamArchived(name, 0, GENESIS.hex(), kept)
        made.add(STORE_STREAM, record, at)


def _restore_deletions(made: Salvaged, at: int) -> None:
    """Add the records of deletions and of undos that are lost, by the rows of the streams: what was deleted
    stays deleted, and what was restored stays."""
    candidates = made.candidates
    fates, operations = _fates(made), _operations(made)
    for name, row in candidates.deleted():
        there, version, hash = made.chains.get(name), row.version, row.hash
        fate = fates.get(name)
        if fate and fate.type == "StreamRestored" and (fate.is_last or row.reach == LEFT_OVER):
            continue  # the row is that of an earlier deletion
        if there is None or name in made.deleted or name in made.archived or name not in made.numbers:
            continue
        if there.version < version or (there.version, there.hash) == (version, hash):
            made.deleted[name] = (version, hash.hex())
            record = e.StreamDeleted(name, made.kinds[name], version, hash.hex(), operations.get(name, ""))
            made.add(STORE_STREAM, record, at)
    for name in [*made.deleted]:
        rows, there, fate = candidates.own_rows(name), made.chains.get(name), fates.get(name)
        if not rows or any(row.kind in GONE for row in rows) or (fate and fate.is_last):
            continue
        is_continued = there is not None and there.version > made.deleted[name][0]
        if is_continued or rows[0].reach == POINTED:  # else the row may be older than the deletion
            del made.deleted[name]
            made.add(STORE_STREAM, e.StreamRestored(name, made.kinds[name]), at)


def _fates(made: Salvaged) -> dict[str, _Fate]:
    """Stream → its last deletion, undo of one or archiving that is recorded."""
    cut = max(one.last for one in made.cuts if one.stream == STORE_STREAM)
    fates = dict[str, _Fate]()
    for version, record in enumerate(made.records, 1):
        type, fields = record_of(made, record)
        if type in ("StreamDeleted", "StreamRestored", "StreamArchived"):
            fates[fields.get("stream", "")] = _Fate(type, version > cut)
    return fates


def _operations(made: Salvaged) -> dict[str, str]:
    """Stream → the last operation that deleted it, which `undo` needs."""
    found = dict[str, tuple[int, str]]()
    for stream, one in made.chains.items():
        for id in one.ids if stream.startswith(_OPERATION) else ():
            type, time, payload, *_ = made.candidates.event(id)
            if type == "ItemsDeleted":
                last = (time, stream.removeprefix(_OPERATION))
                for name in fields_of(payload).get("streams", ()):
                    found[name] = max(last, found.get(name, last))
    return {name: operation for name, (_, operation) in found.items()}


def _collect_values(made: Salvaged) -> None:
    """Find the large values that the new log needs, and those of them that no copy has."""
    needed: dict[str, None] = {}
    for one in made.chains.values():
        for id in one.ids:
            type, _, payload, *_ = made.candidates.event(id)
            if type == "RunClaimed":
                made.owners.add(str(fields_of(payload).get("owner", "")))
            if '"blob"' in payload:
                blob = e.blob_of(e.decode(type, payload))
                if blob:
                    needed[blob] = None
    made.values = [one for one in needed if made.candidates.has_blob(one)]
    there = set(made.values)
    made.lost_values = [one for one in needed if one not in there]


def _mark_cut_runs(made: Salvaged, at: int) -> None:
    """Record that a run whose history is cut off needs attention, and what the lost part may have
    contained."""
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
            made.add(name, event, at)
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
                started = typed_values.decode(event.payload, e.StepStarted)
            except msgspec.DecodeError:
                continue
            if started.effect == "once" and started.key not in seen:
                seen.add(started.key)
                yield started.key


def _state(made: Salvaged, one: Chain, missing: set[str]) -> tuple[RunState | None, str]:
    """The state of the run by its history, and the step or version whose large value is lost."""
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
        fields = fields_of(made.candidates.event(one.ids[0])[2])
        code = fields.get("code")
        named = code if isinstance(code, Mapping) else fields
        title = str(named.get("title") or named.get("name") or "")
    elif name in made.mirrored:
        title = made.mirrored[name].title
    return f"{kind or 'stream'} {title}".strip()
