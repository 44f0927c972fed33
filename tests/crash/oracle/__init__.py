"""Random programs whose resumed runs must be the same execution: generator, players, lives and checks.

    python -m tests.crash.oracle --kind async|def|mutated --programs N --seed S

A program (`programs`) is executed by a player (`async_player`, `anyio_player`, `def_player`), which reports
all that the workflow's code observes (`witness`). `lives` executes it in forks; every commit of a life gives
the store of a process killed there (`wal`). `trials` resumes them, `comparing` compares the traces.
`mutations` changes the code between two lives.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.crash.score import Budget, Score

ROOT = Path(__file__).parents[3]
WAYS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("async programs", 120, ("--kind", "async")),
    ("async programs on uvloop", 30, ("--kind", "async", "--loop", "uvloop")),
    ("async programs with anyio", 30, ("--kind", "async", "--anyio")),
    ("`def` programs", 50, ("--kind", "def")),
    ("programs changed between two lives", 50, ("--kind", "mutated")),
)
"""What, how many programs in the short form, and the options that choose it."""


def run(budget: Budget, jobs: int = 2) -> list[Score]:
    """Every way, one after the other."""
    return [
        score(what, try_programs(budget.of(count), budget.seed, *options, jobs=jobs))
        for what, count, options in WAYS
    ]


def try_programs(count: int, seed: int, *options: str, jobs: int = 2) -> list[dict[str, Any]]:
    """Try so many programs in a process of its own, which has no threads when it forks."""
    words = ["--programs", str(count), "--seed", str(seed), "--jobs", str(jobs), "--json", *options]
    command = [sys.executable, "-m", "tests.crash.oracle", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(f"{' '.join(words)} reported nothing: {done.stderr[-2000:]}")
    tried: list[dict[str, Any]] = json.loads(done.stdout)
    if len(tried) < count:
        raise RuntimeError(f"{' '.join(words)}: {len(tried)} of {count} programs: {done.stderr[-2000:]}")
    return tried


def score(what: str, tried: list[dict[str, Any]]) -> Score:
    """The points are kills, each followed by a resume whose trace was compared."""
    found = Score("same execution", what, points=sum(one["kills"] for one in tried))
    found.notes = {"programs": len(tried), "lives": sum(one["lives"] for one in tried)}
    found.violations = [f"{one['command']}: {one['text'][:600]}" for one in tried if one["what"]]
    found.lost = sum(one["what"] == "repeated" for one in tried)
    return found
