"""Some kinds alone: to look at a violation again, with the seed that it names."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.crash import processes
from tests.crash.score import Budget


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.processes", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(processes.KINDS)} (all)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the short form")
    options = parser.parse_args()
    unknown = set(options.kinds) - processes.KINDS.keys()
    if unknown:
        parser.error(f"no kind {min(unknown)!r}: one of {', '.join(processes.KINDS)}")
    print(f"seed {options.seed}", flush=True)
    violations = 0
    for name in options.kinds or processes.KINDS:
        began = time.monotonic()
        score = processes.KINDS[name](Budget(options.seed, options.scale))
        seconds = time.monotonic() - began
        notes = "".join(f", {what}: {count}" for what, count in score.notes.items())
        verdict = score.skipped or f"{score.points} points, {score.lost} lost{notes}"
        print(f"{score.kind}: {verdict}  [{seconds:.0f} s]", flush=True)
        for text in score.violations:
            print(f"VIOLATION {text}", flush=True)
        violations += len(score.violations)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
