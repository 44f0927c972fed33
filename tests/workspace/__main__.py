"""The long forms: random trees, kills at every operation, races. Prints a score; 1 if anything failed.

python -m tests.workspace [--minutes 5] [--seed 0] [--races 1000]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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


def killed(score: Score, seed: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as made:
        story = kills.make(Path(made), seed)
        every = kills.points(story, random.Random(seed))
        outcomes = {"old": 0, "new": 0}

        def one(_: int) -> None:
            outcomes[kills.kill_at(story, next(every))] += 1

        good, bad = _until(time.monotonic() + seconds, one)
        detail = (
            f" ({story.changes} changes, {story.operations} operations, each before and after; "
            f"{outcomes['old']} old, {outcomes['new']} new)"
        )
        score.tell("kills with the old or the new files after", good, bad, detail)


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
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--races", type=int, default=1000)
    arguments = parser.parse_args()
    score, seconds = Score(), arguments.minutes * 60
    trees(score, arguments.seed, seconds * 0.4)
    killed(score, arguments.seed, seconds * 0.6)
    raced(score, arguments.races)
    return 1 if score.failed else 0


if __name__ == "__main__":
    sys.exit(main())
