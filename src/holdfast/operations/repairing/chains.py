"""Finds the longest history of each stream that the hashes prove, with events from all copies.

An event is taken if its hash follows from the hashes before it. If its own hash is damaged, it is taken if
the next event, the head of its stream or another copy of its hash proves it. An event that only a copy from
before a restore has is taken if it leads to an event that this store has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from holdfast.store.port import GENESIS
from holdfast.store.sqlite.salvage.candidates import EARLIER, REACHED, SAME, Candidate, Candidates, Head


@dataclass
class Chain:
    """The proven history of a stream: versions 1 to `version`."""

    name: str
    ids: list[int] = field(default_factory=list)
    """The candidates, in the order of their versions."""
    hash: bytes = GENESIS
    hashes: dict[int, bytes] = field(default_factory=dict)
    """Version → its hash, where the stored one is damaged."""
    sources: Counter[int] = field(default_factory=Counter)
    """Copy → how many events were taken from it."""
    known: int = 0
    """The version that the stream is known to have had."""

    @property
    def version(self) -> int:
        return len(self.ids)

    @property
    def lost(self) -> int:
        return max(self.known - self.version, 0)


def follow(candidates: Candidates, name: str) -> Chain:
    """The longest proven history of the stream."""
    heads = candidates.heads(name)
    chain = Chain(name)
    unproven: list[tuple[Candidate, bytes]] = []
    versions = _Versions(candidates.of(name))
    before, encoded = GENESIS, name.encode()
    while True:
        version = chain.version + len(unproven) + 1
        here, following = versions.at(version), versions.at(version + 1)
        taken = _choose(here, following, heads, before, encoded)
        if taken is None:
            break
        event, before = taken
        unproven.append(taken)
        if event.trust < EARLIER:
            _accept(chain, unproven)
    if unproven and _is_head(heads, chain.version + len(unproven), before):
        _accept(chain, unproven)
    chain.known = max(chain.version, _known(candidates, chain, heads))
    return chain


def _accept(chain: Chain, events: list[tuple[Candidate, bytes]]) -> None:
    for event, hash in events:
        chain.ids.append(event.id)
        chain.sources[event.copy] += 1
        chain.hash = hash
        if hash != event.hash:
            chain.hashes[event.version] = hash
    events.clear()


class _Versions:
    """The candidates by version. Reading a version drops all but that one and the one before it."""

    def __init__(self, events: Iterator[Candidate]) -> None:
        self._groups = groupby(events, key=lambda one: one.version)
        self._kept: dict[int, list[Candidate]] = {}
        self._read = 0

    def at(self, version: int) -> list[Candidate]:
        while self._read < version:
            number, group = next(self._groups, (1 << 62, iter(())))
            self._read = number
            self._kept[number] = list(group)
        for old in [one for one in self._kept if one < version - 1]:
            del self._kept[old]
        return self._kept.get(version, [])


def _choose(
    here: list[Candidate], following: list[Candidate], heads: list[Head], before: bytes, name: bytes
) -> tuple[Candidate, bytes] | None:
    for one in here:
        if one.chained(before, name) == one.hash:
            return one, one.hash
    stored = {one.hash for one in here}
    for one in here:
        hash = one.chained(before, name)
        proven = (
            hash in stored
            or any(after.chained(hash, name) == after.hash for after in following)
            or _is_head(heads, one.version, hash)
        )
        if proven:
            return one, hash
    return None


def _is_head(heads: list[Head], version: int, hash: bytes) -> bool:
    return any(
        (head.version, head.hash) == (version, hash) and head.trust < EARLIER and head.rank in REACHED
        for head in heads
    )


def _known(candidates: Candidates, chain: Chain, heads: list[Head]) -> int:
    """The last version that the stream is known to have had, by its head, the index, and the events after a
    gap. A single number is not trusted: a flipped bit may have changed it."""
    end = chain.version
    known = end
    for head in heads:
        if head.trust <= SAME and head.rank in REACHED and head.hash != chain.hash:
            known = max(known, head.version)
    seen = set(candidates.places(chain.name, end))
    behind = {
        one.version
        for one in candidates.of(chain.name, end)
        if one.trust <= SAME and one.rank in REACHED and one.hash
    }
    while known + 1 in seen or known + 1 in behind:
        known += 1
    for version in sorted(behind):
        if version in seen or version + 1 in behind or version - 1 in behind:
            known = max(known, version)
    return known
