"""Random programs, killed at each of their commits and resumed: is it the same execution?

    python -m tests.crash.oracle --kind async|def|mutated --programs N --seed S
                                 [--loop asyncio|uvloop] [--anyio] [--jobs 2]
                                 [--only-program K [--times T]] [--most-kills M] [--verbose] [--json] [--save]

Prints the score, and for every violation the command that tries that program again. Timing is random, so a
program may have to be tried several times to show it. Exits with 1 if there is a violation.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.crash import page
from tests.crash.oracle.crew import Task, Tried, try_all
from tests.crash.oracle.faults import FAULTS

WORDS = {
    "difference": "differences",
    "repeated": "repeated once bodies",
    "divergence": "false divergences",
    "hang": "hangs",
    "error": "errors",
}


def main() -> int:
    options = _options()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    task = Task(options.kind, seed, options.loop, options.anyio, options.fault, options.most_kills)
    numbers = list(range(options.first, options.first + options.programs))
    if options.only_program is not None:
        numbers = [options.only_program] * options.times
    if not options.json:
        print(f"{options.kind} programs, seed {seed}, {options.loop}{', anyio' if options.anyio else ''}")
    began = time.monotonic()
    found = []
    for tried in try_all(task, numbers, options.jobs):
        found.append(tried)
        _progress(tried, len(found), len(numbers), task, options)
    if options.json:
        print(json.dumps([{**asdict(one), "command": task.command(one.number)} for one in found]))
    else:
        print(score_of(found, time.monotonic() - began))
    if options.save:
        with_anyio = " with anyio" if options.anyio else ""
        programs = f"{options.kind}{with_anyio}{'' if options.loop == 'asyncio' else ', ' + options.loop}"
        page.save_oracle(programs, {"seed": seed, "programs": len(found), **_sums(found)})
    return 1 if any(one.what for one in found) or len(found) < len(numbers) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=("async", "def", "mutated"), default="async")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first program (0)")
    parser.add_argument("--seed", type=int, default=None, help="of the programs (random)")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--anyio", action="store_true", help="programs that use anyio too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only-program", type=int, default=None, metavar="K")
    parser.add_argument("--times", type=int, default=1, help="how often to try that one")
    parser.add_argument("--most-kills", type=int, default=None, help="of the first life (all)")
    parser.add_argument("--fault", choices=("", *FAULTS), default="", help="plant a fault in the engine")
    parser.add_argument("--verbose", action="store_true", help="print log and trace of every violation")
    parser.add_argument("--save", action="store_true", help="write the score into docs/reliability.md")
    parser.add_argument("--json", action="store_true", help="print all results as JSON, and nothing else")
    return parser.parse_args()


def _progress(tried: Tried, count: int, total: int, task: Task, options: argparse.Namespace) -> None:
    if options.json:
        return
    if tried.what:
        print(f"VIOLATION {task.command(tried.number)}\n  {tried.program}\n  {tried.text}", flush=True)
        if options.verbose:
            print(tried.details, flush=True)
    if sys.stdout.isatty():
        print(f"\r{count} of {total} programs", end="\n" if count == total else "", flush=True)
    elif count % 50 == 0:
        print(f"{count} of {total} programs", flush=True)


def _sums(found: list[Tried]) -> dict[str, int]:
    wrong = Counter(one.what for one in found if one.what)
    counts = {word: wrong[what] for what, word in WORDS.items()}
    return {"lives": sum(one.lives for one in found), "kills": sum(one.kills for one in found), **counts}


def score_of(found: list[Tried], seconds: float) -> str:
    sums = ", ".join(f"{count:,} {word}" for word, count in _sums(found).items())
    return f"{len(found):,} programs, {sums}, {seconds:.0f} s"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    sys.exit(main())
