"""The store is taken away under a live process: deleted, moved, replaced, emptied, locked up.

The process is told so at its next step, is told of nothing more, and does not make the store anew. What it
was told of before is where the store is now; put back, the same run continues.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.crash.checker import check_store
from tests.crash.history import require
from tests.crash.processes.ledger import check_completed, check_ledger
from tests.crash.processes.stage import LINUX, NEEDS_LINUX, Actor, Stage, chance_of, point
from tests.crash.score import Budget, Score

FAULTS = 18
STORE_ERROR = 8
STEPS = 8
PLAIN = "import ctypes; drop = ctypes.CDLL(None).prctl; drop(24, 1, 0, 0, 0); drop(24, 2, 0, 0, 0)"
"""Let modes of files count for root, too: without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


@dataclass
class Story:
    """A run, held in the body of one of its steps, and what happens to its store meanwhile."""

    stage: Stage
    owner: Actor
    again: Callable[[], Actor]
    """The same program once more."""
    killed: bool
    """It does not live to see it, where that makes a difference."""

    @property
    def home(self) -> Path:
        return self.stage.home

    @property
    def away(self) -> Path:
        return self.stage.directory / "away"

    def go_on(self) -> None:
        """Let the step end: the process is told of the store, and of nothing else."""
        since = time.monotonic_ns()
        self.stage.let_go()
        code = self.owner.wait()
        told = [line.words for line in self.stage.lines() if line.verb == "told" and line.at > since]
        require(not told, f"it was told of {told} after its store was gone: {self.owner}")
        require(code == STORE_ERROR, f"it ended with {code}: {self.owner}")
        require("Traceback" not in self.owner.err.read_text(), f"a traceback: {self.owner}")

    def finish(self) -> None:
        """With the store put back: nothing is lost, and the same run continues."""
        self.stage.check()
        again = self.again()
        require(again.wait() == 0, f"it did not continue: {again}")
        check_completed(self.stage.check(), ["run"])


def _deleted(story: Story) -> None:
    shutil.rmtree(story.home)
    story.go_on()
    require(not story.home.exists(), f"the store was made anew: {story.owner}")


def _moved(story: Story) -> None:
    story.home.rename(story.away)
    story.go_on()
    require(not story.home.exists(), f"the store was made anew: {story.owner}")
    check_ledger(story.stage.lines(), check_store(story.away))
    story.away.rename(story.home)
    story.finish()


def _replaced(story: Story) -> None:
    """By a store with a run of the same name."""
    other = story.stage.directory / "other"
    with Stage(other) as elsewhere:
        require(elsewhere.start("go", "run", "chain", 2).wait() == 0, "the other store could not be made")
    before = _content(other)
    story.home.rename(story.away)
    other.rename(story.home)
    story.go_on()
    require(_content(story.home) == before, f"somebody wrote to the other store: {story.owner}")
    shutil.rmtree(story.home)
    story.away.rename(story.home)
    story.finish()


def _unlinked(story: Story) -> None:
    """Only the database, with what belongs to it left behind."""
    (story.home / "holdfast.db").unlink()
    story.go_on()
    require(not (story.home / "holdfast.db").exists(), f"the store was made anew: {story.owner}")


def _emptied(story: Story) -> None:
    """The database is cut to nothing. Nobody can save it; but nobody may take it for a new one, either,
    whether its process lives to see it or is killed."""
    os.truncate(story.home / "holdfast.db", 0)
    if story.killed:
        story.owner.kill()
    else:
        story.go_on()
    told = [line for line in story.stage.lines() if line.verb == "told"]
    code, written = story.stage.cli("list")
    require(
        code == STORE_ERROR or not told or "run " in written,
        f"a store that was emptied passes for a new one: {written!r}",
    )


def _locked_up(story: Story) -> None:
    """Mode 000. As root without the right to pass by it."""
    story.home.chmod(0)
    try:
        story.go_on()
        code = story.stage.start_cli("list", first=PLAIN).wait()
        require(code == STORE_ERROR, f"list of a store that cannot be opened ended with {code}")
    finally:
        story.home.chmod(0o700)
    story.finish()


def _content(home: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(home.iterdir())
        if path.is_file() and path.stat().st_size
    }


HAPPENINGS: tuple[Callable[[Story], None], ...] = (
    _deleted,
    _moved,
    _emptied,
    _replaced,
    _locked_up,
    _unlinked,
)
COLOURS = ("sync", "async", "cli")


def run_vanishing(budget: Budget) -> Score:
    """Every way of losing the store, for plain, async and CLI runs, at a random step."""
    score = Score("store vanished", "deleted, moved, replaced, emptied or mode 000 under a live process")
    if not LINUX:
        score.skipped = NEEDS_LINUX
        return score
    for number in range(budget.of(FAULTS)):
        chance = chance_of(budget, "vanishing", number)
        happen = HAPPENINGS[number % len(HAPPENINGS)]
        colour = COLOURS[(number + number // len(HAPPENINGS)) % len(COLOURS)]
        where = f"{happen.__name__[1:]}, {colour}, point {number}, seed {budget.seed}"
        with point(score, where), Stage() as stage:
            happen(_begin(stage, colour, chance))
    return score


def _begin(stage: Stage, colour: str, chance: Random) -> Story:
    """A run that is held at a random step."""
    number = chance.randint(1, STEPS)
    key = f"awork#{number}" if colour == "async" else f"work#{number}"

    def start(**env: str) -> Actor:
        if colour == "cli":
            target = f"{Path(__file__).with_name('program.py')}:chain"
            return stage.start_cli("run", "--id", "run", target, "run", STEPS, first=PLAIN, **env)
        workflow = "stream" if colour == "async" else "chain"
        return stage.start("go", "run", workflow, STEPS, first=PLAIN, **env)

    owner = start(hold=key)
    stage.wait_for("began", "run", key)
    time.sleep(chance.choice((0.0, 0.02)))
    return Story(stage, owner, start, chance.random() < 0.5)
