"""Tasks, claims, links, memory, deletion and companions, under every fault.

faults      kills, torn writes and I/O errors at the file operations of the workloads of `tests.crash.chores`
power cuts  of the same workloads, as `tests.crash.power` makes them
processes   that claim from many tasks while they are killed, race for one, and are taken over

python -m tests.crash.tasks [--seed N] [--scale S]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.crash import page, points, power, shim
from tests.crash.recordings import RecorderProcess
from tests.crash.score import Budget, Score
from tests.crash.workloads import TRACKED
from tests.tracker import claim_race

FAULTS = 0.08
"""Of the points that all other workloads get."""
STATES = 900
"""Crash states of power cuts, of all three workloads."""
RACERS, ROUNDS = 8, 200
WORKERS, TASKS, KILLS = 16, 1000, 60
CYCLES = 100
TAKEOVERS = 12

_CUTS = "power cuts in tasks, links, memory, rewinds and deletions"
_PLACES = "file operations of tasks, links, memory, rewinds and deletions"


def run(budget: Budget) -> list[Score]:
    return [*faults(budget), cuts(budget), *processes(budget)]


def faults(budget: Budget) -> list[Score]:
    """Every kind of fault at the file operations of the workloads."""
    try:
        found = points.strike(Budget(budget.seed, FAULTS * budget.scale), TRACKED)
    except shim.Unavailable as reason:
        return [Score("tasks: faults", _PLACES, skipped=str(reason))]
    return [replace(score, kind=f"tasks: {score.kind}", what=f"{score.what} (tasks)") for score in found]


def cuts(budget: Budget) -> Score:
    """Power cuts in the same workloads; a sample continues to the end."""
    score = Score("tasks: power cut", _CUTS)
    with RecorderProcess() as recorder:
        for name in TRACKED:
            with power.lab_of(budget, name) as lab, power.noting(score, f"{name}, seed {budget.seed}, uncut"):
                truth = power.record(lab, recorder, name)
                power.explore(lab, truth, budget.of(STATES // len(TRACKED)), score)
    return score


def processes(budget: Budget) -> list[Score]:
    """Real processes around one store: see `tests.tracker.claim_race`. A claim of a dead process is free in
    less than a second, or it is a violation."""
    rounds, cycles, takeovers = budget.of(ROUNDS), budget.of(CYCLES), budget.of(TAKEOVERS)
    tasks, kills = budget.of(TASKS), budget.of(KILLS)
    return [
        _tried(
            f"{WORKERS} processes claim from {TASKS:,} tasks and are killed at random",
            tasks,
            lambda home: claim_race.work_under_kills(home, WORKERS, tasks, kills, budget.seed),
            "kills",
        ),
        _tried(
            f"{RACERS} processes claim one task",
            rounds,
            lambda home: claim_race.race(home, RACERS, rounds),
        ),
        _tried(
            "two processes close a cycle from both sides",
            cycles,
            lambda home: claim_race.close_cycles(home, cycles),
        ),
        _tried(
            "a holder is killed, or its lease ends; it completes too late",
            takeovers,
            lambda home: claim_race.take_over(home, takeovers),
        ),
    ]


def _tried(what: str, count: int, play: Callable[[Path], int | None], note: str = "") -> Score:
    """`note` names what `play` counts."""
    score = Score("tasks: processes", what, points=count)
    with tempfile.TemporaryDirectory(prefix="crash-") as directory:
        try:
            counted = play(Path(directory) / "home")
            score.notes = {note: counted or 0} if note else {}
        except AssertionError as violation:
            score.violations.append(f"{what}: {violation}")
    return score


def main() -> int:
    parser = argparse.ArgumentParser(description="The kind `tasks` of `make crash` alone.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--save", action="store_true", help="replace these lines of docs/reliability.md")
    options = parser.parse_args()
    scores = run(Budget(options.seed, options.scale))
    for score in scores:
        print(score, flush=True)
    if options.save:
        page.save_kind(scores, options.seed)
    return int(any(score.violations or score.lost for score in scores))


if __name__ == "__main__":
    sys.exit(main())
