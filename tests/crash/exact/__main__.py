"""Prints the table of the cases: live, killed after each commit, resumed, equal.

    python -m tests.crash.exact [--case NAME ...] [--seed S] [--times N] [--most-kills N] [--verbose]

A case is killed after each of its commits, by SIGKILL at two lines of its report, and some of the resumed
lives are killed again. `kill points` counts them all; `equal` those after which the run was the same
execution, or was refused as it had to be. Exit code 1 if one is not.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator

from tests.crash.exact.cases import Case
from tests.crash.exact.table import CASES
from tests.crash.exact.trials import Row, skipped, try_case
from tests.crash.oracle.faults import FAULTS
from tests.crash.oracle.lives import Place, warm_up

COLUMNS = "{:44} | {:7} | {:>11} | {:>11} | {:>5} | {:>5} | {}"


def main() -> int:
    options = _options()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    began = time.monotonic()
    rows = []
    if not options.json:
        print(f"seed {seed}")
        print(COLUMNS.format("case", "loop", "events live", "kill points", "lives", "equal", "different"))
    for row in _rows(options, seed):
        rows.append(row)
        if not options.json:
            print(_line(row), flush=True)
            if options.verbose and row.details:
                print(row.different, row.details, sep="\n", flush=True)
    wrong = [row for row in rows if row.different and not row.is_skipped]
    if options.json:
        print(json.dumps([row.as_json() for row in rows]))
    else:
        kills, lives = sum(row.kills for row in rows), sum(row.lives for row in rows)
        print(
            f"{len(rows)} rows, {kills:,} kills, {lives:,} lives, {len(wrong)} rows with a difference, "
            f"{time.monotonic() - began:.0f} s"
        )
    return 1 if wrong else 0


def _rows(options: argparse.Namespace, seed: int) -> Iterator[Row]:
    place = Place()
    try:
        for name in options.case or CASES:
            case = CASES[name]
            warm = False
            for loop in case.loops if options.loop is None else [options.loop]:
                row = skipped(case, loop)
                if row is not None:
                    yield row
                    continue
                if not warm:
                    warm_up(case.program(seed))
                    warm = True
                yield _tried(place, case, loop, seed, options)
    finally:
        place.close()


def _tried(place: Place, case: Case, loop: str, seed: int, options: argparse.Namespace) -> Row:
    row = None
    for number in range(options.times):
        given = {"most_kills": options.most_kills, "fault": options.fault}
        again = try_case(place, case, loop, seed + number, **given)
        place.clear()
        if row is None:
            row = again
        else:
            row.add(again)
    assert row is not None
    return row


def _line(row: Row) -> str:
    different = row.different.splitlines()[0][:200] if row.different else "-"
    if row.refused:
        different += f" ({row.refused} refused before any body)"
    return COLUMNS.format(row.name, row.loop, row.events, row.kills, row.lives, row.equal, different)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", default=[], choices=CASES, help="only this one (all)")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default=None, help="(those of the case)")
    parser.add_argument("--seed", type=int, default=None, help="(random)")
    parser.add_argument("--times", type=int, default=1, help="how often to try each")
    parser.add_argument("--most-kills", type=int, default=None, help="of the first life (all)")
    parser.add_argument("--fault", choices=("", *FAULTS), default="", help="plant a fault in the engine")
    parser.add_argument("--verbose", action="store_true", help="print log and trace of every difference")
    parser.add_argument("--json", action="store_true", help="print all rows as JSON, and nothing else")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
