"""holdfast and its peers measured in turns.

A peer's rate is taken between two of holdfast's, each of which is itself in turns with raw SQLite, so that a noisy
machine moves all of them. Rounds begin with another peer each time, so that none always comes first.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Protocol, TypeVar

from raw import Raw
from row import Spread
from turns import RawTurns, Turn, nobody

from .comparison import RATES, Comparison, Standing
from .peer import Broken

Found = TypeVar("Found")

COMMITS = {"sequential": 30, "many": 300, "many_async": 300, "one_step_runs": 30}


class Contender(Protocol):
    """Who is measured, and what every contender can do; the rates are methods named as in `RATES`."""

    name: str
    version: str
    setting: str
    durability: str

    def kill_to_rerun(self) -> float: ...
    def disk(self) -> dict[str, float]: ...


class Ours(Contender, Protocol):
    """holdfast: its rates leave turns to others."""

    def sequential(self, others: Turn, /) -> float: ...
    def many(self, others: Turn, /) -> float: ...
    def many_async(self, others: Turn, /) -> float: ...
    def one_step_runs(self, others: Turn, /) -> float: ...


class Theirs(Contender, Protocol):
    """A peer, as `peer.Peer`; its measurements may raise `Broken`."""

    variant: bool

    def sequential(self) -> float: ...
    def many(self) -> float: ...
    def many_async(self) -> float: ...
    def one_step_runs(self) -> float: ...


class Notes:
    """All measurements of one contender."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = defaultdict(list)
        self.behind: dict[str, list[float]] = defaultdict(list)
        self.kills: list[float] = []
        self.disk: dict[str, float] = {}

    def standing(self, one: Contender, *, variant: bool = False) -> Standing:
        return Standing(
            name=one.name,
            version=one.version,
            setting=one.setting,
            durability=one.durability,
            variant=variant,
            rates={figure: Spread.of(rates) for figure, rates in self.rates.items()},
            behind={figure: Spread.of(times) for figure, times in self.behind.items()},
            kill_to_rerun=Spread.of(self.kills),
            disk=self.disk,
        )


class Contest:
    """The rounds. A peer that breaks down is absent from then on, with what it said last."""

    def __init__(self, ours: Ours, peers: Sequence[Theirs], raw: Raw, absent: Mapping[str, str]) -> None:
        self._ours = ours
        self._peers = list(peers)
        self._raw = raw
        self._absent = dict(absent)
        self._raws: dict[str, list[float]] = defaultdict(list)
        self._notes: dict[str, Notes] = defaultdict(Notes)

    def warm_up(self) -> None:
        """Take every rate once, and what is measured only once: the disk."""
        for figure in RATES:
            getattr(self._ours, figure)(nobody)
        self._notes[self._ours.name].disk = self._ours.disk()
        for peer in self._peers:
            _say(f"warming up {peer.name}")
            for figure in RATES:
                self._try(peer, getattr(peer, figure))
            self._notes[peer.name].disk = self._try(peer, peer.disk) or {}

    def play(self) -> None:
        """One round."""
        for figure in RATES:
            before = self._measure_ours(figure)
            for peer in self._peers:
                rate = self._try(peer, getattr(peer, figure))
                if rate is not None:
                    after = self._measure_ours(figure)
                    self._notes[peer.name].rates[figure].append(rate)
                    self._notes[peer.name].behind[figure].append(mean((before, after)) / rate)
                    before = after
        self._notes[self._ours.name].kills.append(self._ours.kill_to_rerun())
        for peer in self._peers:
            took = self._try(peer, peer.kill_to_rerun)
            if took is not None:
                self._notes[peer.name].kills.append(took)
        self._peers = [*self._peers[1:], *self._peers[:1]]

    def outcome(self, rounds: int) -> Comparison:
        there = {peer.name: peer for peer in self._peers if peer.name not in self._absent}
        return Comparison(
            rounds=rounds,
            raw={figure: Spread.of(rates) for figure, rates in self._raws.items()},
            ours=self._notes[self._ours.name].standing(self._ours),
            peers=[
                notes.standing(there[name], variant=there[name].variant)
                for name, notes in self._notes.items()
                if name in there
            ],
            absent=self._absent,
        )

    def _measure_ours(self, figure: str) -> float:
        turns = RawTurns(self._raw, COMMITS[figure])
        rate: float = getattr(self._ours, figure)(turns)
        self._raws[figure].append(turns.rate)
        self._notes[self._ours.name].rates[figure].append(rate)
        return rate

    def _try(self, peer: Theirs, measure: Callable[[], Found]) -> Found | None:
        if peer.name in self._absent:
            return None
        try:
            return measure()
        except Broken as reason:
            self._absent[peer.name] = f"it broke down: {reason}"
            return None


def compare(
    ours: Ours, peers: Sequence[Theirs], raw: Raw, rounds: int, absent: Mapping[str, str]
) -> Comparison:
    """Measure everybody `rounds` times, after a round that does not count."""
    contest = Contest(ours, peers, raw, absent)
    contest.warm_up()
    for turn in range(rounds):
        _say(f"round {turn + 1} of {rounds}")
        contest.play()
    return contest.outcome(rounds)


def _say(text: str) -> None:
    print(f"  {text} ...", file=sys.stderr, flush=True)
