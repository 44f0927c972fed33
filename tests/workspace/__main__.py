"""The long forms: random trees, kills at every system call, power cuts, races. Prints a score.

    python -m tests.workspace [--minutes 2] [--seed 0] [--races 1000] [--each 35] [--troubles 1000]

The kills take as long as they take: some ten minutes on two cores. With `--each 200` there are so many
changes of each kind, and it takes hours.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.crash import mounts, shim
from tests.workspace import kills
from tests.workspace.properties import round_trip
from tests.workspace.races import Race, following_links


class Score:
    """How many of each kind went well."""

    def __init__(self) -> None:
        self.failed = 0

    def tell(self, what: str, good: int, bad: list[str], detail: str = "") -> None:
        self.failed += len(bad)
        print(f"{what}: {good} of {good + len(bad)}{detail}", flush=True)
        for text in bad[:10]:
            print(f"  {text}", flush=True)


def _until(deadline: float, act: Callable[[int], object]) -> tuple[int, list[str]]:
    good, bad = 0, []
    number = 0
    while time.monotonic() < deadline:
        try:
            act(number)
            good += 1
        except StopIteration:
            break
        except Exception as exc:
            bad.append(f"{number}: {type(exc).__name__}: {exc}")
        number += 1
    return good, bad


def trees(score: Score, seed: int, seconds: float) -> None:
    def one(number: int) -> None:
        with tempfile.TemporaryDirectory() as made:
            round_trip(Path(made), seed + number)

    score.tell("random trees restored", *_until(time.monotonic() + seconds, one))


def killed(score: Score, arguments: argparse.Namespace, *how: str) -> None:
    """Every call, and lives in trouble, by two processes."""
    chosen = [f"--{name}={getattr(arguments, name)}" for name in ("seed", "each", "troubles")]
    try:
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(lambda part: kills.tally(*chosen, *how, "--part", part, "2"), ("0", "1"))
    except shim.Unavailable as reason:
        score.tell("kills at system calls", 0, [f"not tried: {reason}"])
        return
    found = one.found + other.found
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(one.changes.items()))
    detail = (
        f" ({one.calls} calls, each before, after and torn; changes: {kinds}; "
        f"{found['old']} old, {found['new']} new; not reached: {one.missed + other.missed})"
    )
    what = " ".join(("kills with the old or the new files after", *how))
    score.tell(what, one.struck + other.struck, one.wrong + other.wrong, detail)


def cut(score: Score, arguments: argparse.Namespace, kind: str, *how: str) -> None:
    """A sample of the calls, and a power cut at each; then lives in trouble, and a cut after them."""
    what = " ".join((f"power cuts on {kind} with the old or the new files after", *how))
    try:
        with mounts.mounted(kind):
            pass
    except mounts.CannotCut as reason:
        print(f"{what}: not tried: {reason}")
        return
    chosen = (f"--seed={arguments.seed}", f"--sample={arguments.cuts}", f"--troubles={arguments.cuts // 2}")
    found = kills.tally("--power", kind, *chosen, *how)
    score.tell(what, found.struck, found.wrong, f" ({found.found['old']} old, {found.found['new']} new)")


def raced(score: Score, races: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        race = Race(Path(made))
        done = sum(race.run() for _ in range(races))
        bad = ["something outside was written"] if race.has_escaped else []
        score.tell("races without an escape", races - len(bad), bad, f" ({done} restores done)")
    with tempfile.TemporaryDirectory() as made, following_links():
        race = Race(Path(made))
        for number in range(races):
            race.run()
            if race.has_escaped:
                print(f"the control, following links, escaped after {number + 1} races")
                return
        score.tell("control", 0, ["following links did not escape: the races prove nothing"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2, help="for random trees")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument("--each", type=int, default=kills.EACH, help="so many changes of each kind")
    parser.add_argument("--troubles", type=int, default=1000, help="so many lives in trouble")
    parser.add_argument("--cuts", type=int, default=200, help="so many power cuts on each filesystem")
    arguments = parser.parse_args()
    score = Score()
    trees(score, arguments.seed, arguments.minutes * 60)
    killed(score, arguments)
    killed(score, arguments, "--by-links")
    for kind in mounts.MAKE:
        cut(score, arguments, kind)
        cut(score, arguments, kind, "--neighbour")
    raced(score, arguments.races)
    return 1 if score.failed else 0


if __name__ == "__main__":
    sys.exit(main())
