"""`make crash`: every kind of fault, many points of each, on the real engine, CLI and store.

    python -m tests.crash [--seed N] [--minutes M] [--only KIND ...] [--without KIND ...] [--no-save]

Without `--minutes` it is the short form, under ten minutes on two cores, five of them for `oracle`; with it,
as much as fits, with a new seed for every pass. Prints its seeds; a violation names the seed and the point
that show it. Writes `docs/reliability.json` and, from it and from what `make mutants` found,
`docs/reliability.md`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.crash import page
from tests.crash.score import Budget, Score

Kind = Callable[[Budget], list[Score]]

LANES = (("points",), ("processes", "mounts", "flips", "power", "repairs", "tasks", "budgets"))
"""The kind that keeps the processors busy for the longest, beside all the others."""
AFTER = ("oracle",)
"""Kinds that use all processors by themselves: they begin when the lanes have ended."""


def kinds() -> dict[str, Kind]:
    """Name → the function that tries it, in the order of the page. Each is in one of the `LANES` or in
    `AFTER`."""
    from tests.crash import budgets, flips, mounts, oracle, points, power, processes, repairs, tasks

    return {
        "points": points.run,
        "power": power.run,
        "mounts": mounts.run,
        "processes": processes.run,
        "flips": flips.run,
        "repairs": repairs.run,
        "tasks": tasks.run,
        "budgets": budgets.run,
        "oracle": oracle.run,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=None, help="of the first pass (random)")
    parser.add_argument("--minutes", type=float, default=0.0, help="continue for so long (one short pass)")
    parser.add_argument("--only", nargs="*", default=[], help=f"of {', '.join(kinds())}")
    parser.add_argument("--without", nargs="*", default=[], help="leave these kinds out")
    parser.add_argument("--no-save", action="store_true", help="write no page")
    options = parser.parse_args()
    unknown = [name for name in (*options.only, *options.without) if name not in kinds()]
    if unknown:
        parser.error(f"no kind {unknown[0]!r}: one of {', '.join(kinds())}")
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    chosen = [name for name in kinds() if name not in options.without and name in (options.only or kinds())]
    scores, seeds, seconds = _passes(chosen, seed, options.minutes * 60)
    if not options.only and not options.without and not options.no_save:
        page.save_crash(scores, seeds, seconds)
    violations = [text for score in scores for text in score.violations]
    for text in violations:
        print(f"VIOLATION {text}")
    print(
        f"{sum(score.points for score in scores):,} points, {len(violations)} violations, "
        f"{sum(score.lost for score in scores)} acknowledged things lost, {seconds:.0f} s, "
        f"seeds {', '.join(map(str, seeds))}"
    )
    return 1 if violations or any(score.lost for score in scores) else 0


def _passes(chosen: list[str], seed: int, budget_s: float) -> tuple[list[Score], list[int], float]:
    """One pass, or as many as begin within the budget; the scores of all, added up."""
    total: dict[tuple[str, str], Score] = {}
    seeds: list[int] = []
    began = time.monotonic()
    while not seeds or time.monotonic() - began < budget_s:
        seeds.append(seed + len(seeds))
        print(f"seed {seeds[-1]}", flush=True)
        with ThreadPoolExecutor(len(LANES), "crash-lane") as pool:
            lanes = [[name for name in lane if name in chosen] for lane in LANES]
            found = dict(one for lane in pool.map(partial(_try, Budget(seeds[-1])), lanes) for one in lane)
        found.update(_try(Budget(seeds[-1]), [name for name in AFTER if name in chosen]))
        for name in chosen:
            for score in found[name]:
                _add(total, score)
    return list(total.values()), seeds, time.monotonic() - began


def _try(budget: Budget, names: Sequence[str]) -> list[tuple[str, list[Score]]]:
    """The kinds of a lane, one after the other."""
    found = []
    for name in names:
        start = time.monotonic()
        scores = kinds()[name](budget)
        for score in scores:
            _show(score, time.monotonic() - start)
        found.append((name, scores))
    return found


def _add(total: dict[tuple[str, str], Score], score: Score) -> None:
    known = total.setdefault((score.kind, score.what), Score(score.kind, score.what))
    known.points += score.points
    known.lost += score.lost
    known.violations += score.violations
    known.skipped = score.skipped
    for name, count in score.notes.items():
        known.notes[name] = known.notes.get(name, 0) + count


def _show(score: Score, seconds: float) -> None:
    if score.skipped:
        verdict = f"skipped: {score.skipped}"
    else:
        verdict = f"{score.points:,} points, {score.lost} lost, {len(score.violations)} violations"
    notes = "".join(f", {name} {count}" for name, count in score.notes.items())
    print(f"  {score.kind:22} {score.what}: {verdict}{notes}  [{seconds:.0f} s]", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.exit(main())
