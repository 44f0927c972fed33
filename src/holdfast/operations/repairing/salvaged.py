"""The contents of a repaired store, collected step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel import events as e
from holdfast.operations.repairing.chains import Chain
from holdfast.operations.repairing.mirrored import MirroredRun
from holdfast.store.port import STORE_STREAM
from holdfast.store.sqlite.salvage.candidates import NO_PLACE, Candidates, JournalPlace


class Cut(NamedTuple):
    """Versions `first` to `last` of a stream, which no copy has. `what` describes the stream."""

    stream: str
    first: int
    last: int
    what: str
    once: tuple[str, ...] = ()
    """Steps with the effect `once` that ran, or may have run, in that part."""


class Extra(NamedTuple):
    """An event that is written by the repair, or chained anew."""

    type: str
    at: int
    payload: str
    position: int = 0
    place: JournalPlace = NO_PLACE
    """For the creation of a stream that only a journal has: the place of its first event in that journal."""


@dataclass
class Salvaged:
    """The contents of the new database."""

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
    """The owners of runs: their lock files record when they were last alive."""

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

    def add(self, stream: str, event: e.Event, at: int) -> None:
        """Append an event of the repair itself."""
        extra = Extra(e.type_of(event), at, e.encode(event))
        self.added.setdefault(stream, []).append(extra)


def fields_of(payload: str) -> dict[str, Any]:
    """The fields of an event's payload; none if it cannot be read."""
    try:
        found = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
