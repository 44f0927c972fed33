"""Kills and I/O errors at every file operation of every workload.

The operations of an undisturbed life are listed first; then each point strikes one of them in a life of its
own (`tests.crash.stories`), told by two processes with the shim. Where there are more operations than the
budget has points, a random sample; where there are fewer, all of them, and the rest goes to pairs: killed,
and killed again in the life that continues (I/O errors: to other cuts and lengths at the same operations).

    python -m tests.crash.points JSON      tells one point again, as a violation's text names it
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.crash import shim, traced
from tests.crash.score import Budget, Score
from tests.crash.shim import CHANGES, Fault, Kind, Mode
from tests.crash.stories import AIMS, READY, Aim, Point
from tests.crash.workloads import UNTRACKED

ROOT = Path(__file__).parents[2]
TELLERS = max(2, min(8, os.cpu_count() or 2))
ROUNDS = 3
"""A life that is not quite like the one that was measured may end before its fault: others take its place."""
FLUSH_AFTER_MS = 2
"""Sooner than by default: the flusher takes part more often, and bodies need not take so long for it."""
_SHARES = {"sequential": 1.2, "shell": 0.3, "asks": 0.6, "calls": 0.6, "helm": 0.6, "turns": 0.6}
"""Of the budget; a command's life is three times as long as another, a steered one is somewhat longer."""
_FILLING = Kind.WRITE | Kind.CREATE

Ask = Callable[[dict[str, Any]], Any]
"""A question to a process that tells stories → its answer."""
Make = Callable[[int, random.Random], tuple[Fault, int]]
"""(operation, chance) → a fault there, and how often a life tries."""


@dataclass(frozen=True)
class Way:
    """One kind of fault."""

    kind: str
    what: str
    points: int
    """In the short form."""
    make: Make
    strikes: Kind = CHANGES
    counts: Kind = CHANGES
    pairs: bool = False


def _kill(mode: Mode, kinds: Kind = CHANGES) -> Make:
    return lambda at, chance: (Fault(mode, at, kinds, argument=chance.randrange(1 << 20)), 1)


def _fail(at: int, chance: random.Random) -> tuple[Fault, int]:
    argument = chance.choice((0, chance.randrange(1 << 20)))
    return Fault(Mode.EIO, at, argument=argument), chance.choice((1, 2))


def _fail_and_kill(at: int, chance: random.Random) -> tuple[Fault, int]:
    return Fault(Mode.EIO, at, Kind.SYNC, until=at + chance.randrange(1, 16)), 2


def _fail_to_read(at: int, chance: random.Random) -> tuple[Fault, int]:
    return Fault(Mode.EIO, at, Kind.READ, counted=Kind.READ), chance.choice((1, 2))


def _fill(at: int, chance: random.Random) -> tuple[Fault, int]:
    return Fault(Mode.FULL, at, _FILLING, argument=chance.randrange(1 << 20)), chance.choice((1, 2))


def _fill_for_a_while(at: int, chance: random.Random) -> tuple[Fault, int]:
    until = at + chance.randrange(1, 16)
    return Fault(Mode.FULL, at, _FILLING, until=until, argument=chance.randrange(1 << 20)), 6


def _shorten(at: int, chance: random.Random) -> tuple[Fault, int]:
    return Fault(Mode.SHORT, at, Kind.WRITE, argument=chance.randrange(1 << 20)), 1


WAYS = (
    Way("kill before", "SIGKILL before a file operation", 1100, _kill(Mode.BEFORE), pairs=True),
    Way("kill after", "SIGKILL after a file operation", 1000, _kill(Mode.AFTER), pairs=True),
    Way(
        "torn write",
        "a part of a write, then SIGKILL",
        920,
        _kill(Mode.TORN, Kind.WRITE),
        strikes=Kind.WRITE,
        pairs=True,
    ),
    Way("EIO once", "one file operation fails", 950, _fail),
    Way("EIO, then a kill", "a sync fails, and SIGKILL soon after", 250, _fail_and_kill, strikes=Kind.SYNC),
    Way("EIO on read", "one read fails", 150, _fail_to_read, strikes=Kind.READ, counts=Kind.READ),
    Way("ENOSPC from", "the disk is full from there on", 620, _fill, strikes=_FILLING),
    Way("ENOSPC for a while", "the disk is full, then not", 620, _fill_for_a_while, strikes=_FILLING),
    Way("short write", "a write does a part and says so", 470, _shorten, strikes=Kind.WRITE),
)


def run(budget: Budget) -> list[Score]:
    """Every kind of fault, over all workloads; then aimed kills, and kills without the shim."""
    try:
        shim.library()
    except shim.Unavailable as reason:
        ways = [Score(way.kind, way.what, skipped=str(reason)) for way in WAYS]
        return [*ways, Score("aimed kill", _AIMED, skipped=str(reason)), *traced.run(budget)]
    with _tellers(UNTRACKED) as ask:
        scores = _strike(budget, UNTRACKED, ask)
        if scores[0].violations:
            return scores
        scores.append(_classify(budget.seed, budget.of(20), ask))
    return [*scores, *traced.run(budget)]


def strike(budget: Budget, workloads: Sequence[str]) -> list[Score]:
    """Every kind of fault in these workloads; the first score is of lives without any. Raises
    `shim.Unavailable`."""
    shim.library()
    with _tellers(workloads) as ask:
        return _strike(budget, workloads, ask)


def _strike(budget: Budget, workloads: Sequence[str], ask: Ask) -> list[Score]:
    operations = {name: ask({"tell": "measure", "workload": name}) for name in workloads}
    reads = {name: ask({"tell": "measure", "workload": name, "reads": True}) for name in workloads}
    undisturbed = Score("no fault", "every workload, undisturbed", points=2 * len(workloads))
    for name, found in [*operations.items(), *reads.items()]:
        if isinstance(found, str):
            undisturbed.violations.append(f"{name}, undisturbed: {found}")
    if undisturbed.violations:
        return [undisturbed]
    scores = [undisturbed]
    for way in WAYS:
        chance = random.Random(f"{budget.seed} {way.kind}")
        score = Score(way.kind, way.what)
        for _ in range(ROUNDS):
            missing = budget.of(way.points) - score.points
            points = choose(way, missing, reads if way.counts == Kind.READ else operations, chance)
            _try(score, points, ask)
        scores.append(score)
    return scores


def kill(workload: str, count: int, seed: int) -> Score:
    """So many kills in one workload, half of them before a file operation, half after one."""
    score = Score("kill", f"SIGKILL around a file operation of {workload}")
    chance = random.Random(seed)
    with _tellers([workload]) as ask:
        operations = {workload: ask({"tell": "measure", "workload": workload})}
        for way in WAYS[:2]:
            _try(score, choose(way, count // 2, operations, chance), ask)
    return score


# Choosing


def choose(
    way: Way, count: int, operations: dict[str, list[list[Any]]], chance: random.Random
) -> list[Point]:
    """So many points of one kind of fault, spread over the workloads; if any, one for each at least."""
    if count <= 0:
        return []
    places = {
        name: [number for number, one in enumerate(found, 1) if Kind(one[0]) & way.strikes]
        for name, found in operations.items()
    }
    points: list[Point] = []
    for name, share in _spread(count, places).items():
        here = places[name]
        chosen = chance.sample(here, min(share, len(here)))
        for at in sorted(chosen):
            fault, tries = way.make(at, chance)
            points.append(Point(name, (fault,), chance.randrange(1 << 30), tries))
        for _ in range(share - len(chosen)):
            fault, tries = way.make(chance.choice(here), chance)
            again = (way.make(chance.choice(here[: len(here) // 2]), chance)[0],) if way.pairs else ()
            points.append(Point(name, (fault, *again), chance.randrange(1 << 30), tries))
    chance.shuffle(points)
    return points


def _spread(count: int, places: dict[str, list[int]]) -> dict[str, int]:
    """How many points each workload gets: by its share, at least one; what is more than it has places goes
    to the others, and what is more than all have is spread evenly."""
    room = {name: len(found) for name, found in places.items() if found}
    given = dict.fromkeys(room, 0)
    open_ones = set(room)
    left = max(count, len(room))
    while left and open_ones:
        shares = {name: _SHARES.get(name, 1.0) for name in open_ones}
        unit = left / sum(shares.values())
        before = left
        for name in sorted(open_ones):
            more = min(room[name] - given[name], max(1, int(unit * shares[name])), left)
            given[name] += more
            left -= more
        open_ones = {name for name in open_ones if given[name] < room[name]}
        if left == before:
            break
    for number in range(left):
        given[sorted(room)[number % len(room)]] += 1
    return given


# Trying


class _Teller:
    """A process that tells stories; a new one if it dies."""

    def __init__(self, workloads: Sequence[str]) -> None:
        self._workloads = workloads
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        environment = {**shim.environment(), "HOLDFAST_FLUSH_AFTER_MS": str(FLUSH_AFTER_MS)}
        command = [sys.executable, "-m", "tests.crash.stories", *self._workloads]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)
        assert process.stdout is not None
        if process.stdout.readline() != READY:
            process.communicate()
            raise RuntimeError("a process that tells stories does not start; its standard error says why")
        return process

    def ask(self, question: dict[str, Any]) -> Any:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if answer:
            return json.loads(answer)
        self.close()
        self._process = self._start()
        text = f"the process that told it hung or died (status {process.returncode}); see its standard error"
        return {"struck": 1, "where": [], "violation": text, "lost": 0, "notes": {}}

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def _tellers(workloads: Sequence[str]) -> Iterator[Ask]:
    """`ask`, which any thread may call: one of the processes that tell stories of these workloads answers."""
    all_of_them = [_Teller(workloads) for _ in range(TELLERS)]
    free: SimpleQueue[_Teller] = SimpleQueue()
    for teller in all_of_them:
        free.put(teller)

    def ask(question: dict[str, Any]) -> Any:
        teller = free.get()
        try:
            return teller.ask(question)
        finally:
            free.put(teller)

    try:
        yield ask
    finally:
        for teller in all_of_them:
            teller.close()


def _try(score: Score, points: Sequence[Point], ask: Ask) -> None:
    with ThreadPoolExecutor(TELLERS) as pool:
        for point, verdict in zip(points, pool.map(lambda one: ask(one.to_dict()), points), strict=True):
            _count(score, json.dumps(point.to_dict()), verdict)
            if len(point.faults) == verdict["struck"] == 2:
                score.notes["struck twice"] = score.notes.get("struck twice", 0) + 1


def _count(score: Score, what: str, verdict: dict[str, Any]) -> None:
    if not verdict["struck"] and not verdict["violation"]:
        score.notes["missed"] = score.notes.get("missed", 0) + 1
        return
    score.points += 1
    score.lost += verdict["lost"]
    for name, count in verdict["notes"].items():
        score.notes[name] = score.notes.get(name, 0) + count
    if verdict["violation"]:
        score.violations.append(f"{score.kind}: {what}: struck {verdict['where']}: {verdict['violation']}")


# Aimed kills

_AIMED = "SIGKILL in a chosen moment of a step of the twenty-step script"


def classify(seed: int, each: int = 20) -> Score:
    """Kills in the body of a step, after its end and before its commit, between the commit and the
    acknowledgement, and after the acknowledgement: at least `each` of each, as log and lines tell. Bodies are
    repeated after the first two only."""
    try:
        shim.library()
    except shim.Unavailable as reason:
        return Score("aimed kill", _AIMED, skipped=str(reason))
    with _tellers(["sequential"]) as ask:
        return _classify(seed, each, ask)


def _classify(seed: int, each: int, ask: Ask) -> Score:
    chance = random.Random(f"{seed} aims")
    score = Score("aimed kill", _AIMED)
    for aim in AIMS:
        for _ in range(3):
            missing = each - score.notes.get(aim, 0)
            aims = [
                Aim(aim, chance.randrange(1, 21), chance.uniform(0, 0.012), chance.randrange(1 << 30))
                for _ in range(missing)
            ]
            with ThreadPoolExecutor(TELLERS) as pool:
                for one, verdict in zip(aims, pool.map(lambda one: ask(one.to_dict()), aims), strict=True):
                    _count(score, json.dumps(one.to_dict()), verdict)
        if score.notes.get(aim, 0) < each and not score.violations:
            score.violations.append(f"only {score.notes.get(aim, 0)} kills were {aim} (seed {seed})")
    return score


def main() -> None:
    questions = [json.loads(text) for text in sys.argv[1:]]
    with _tellers([question.get("workload", "sequential") for question in questions]) as ask:
        for question in questions:
            print(json.dumps(ask(question), indent=2))


if __name__ == "__main__":
    main()
