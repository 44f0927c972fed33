"""The disk is full: no room for one more byte, at any moment, by somebody else's file.

The process is told so, nothing that it was told of before is lost, and once there is room the same run goes
on. Two ways: a small tmpfs (root), and a limit on the size of files (RLIMIT_FSIZE), under which the
write-ahead log cannot grow.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.crash.history import require
from tests.crash.processes.ledger import check_completed
from tests.crash.processes.stage import Actor, Stage, chance_of, note, point
from tests.crash.score import Budget, Score

DISKS = 6
FILLINGS = 3
"""For each disk."""
LIMITS = 8
STEPS = 60
SIZE = "2m"
STORE_ERROR = 8


def run_full(budget: Budget) -> Score:
    """A disk of 2 MB, filled up again and again."""
    score = Score("full disk", "a small tmpfs filled up by a foreign file at random moments")
    for number in range(budget.of(DISKS)):
        chance = chance_of(budget, "full", number)
        with small_disk() as disk:
            if disk is None:
                score.skipped = "a tmpfs can only be mounted by root"
                return score
            with point(score, f"disk {number}, seed {budget.seed}"), Stage(disk / "home") as stage:
                _fill_again_and_again(stage, disk / "foreign", chance, score)
    return score


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A tmpfs of a few pages; None where that cannot be had."""
    if os.geteuid() != 0:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="crash-processes-disk-") as directory:
        options = ["-t", "tmpfs", "-o", f"size={SIZE},mode=700", "crash", directory]
        mounted = subprocess.run(["mount", *options], capture_output=True, check=False)
        if mounted.returncode != 0:
            yield None
            return
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", "-l", directory], check=True, timeout=30)


def _fill_again_and_again(stage: Stage, foreign: Path, chance: Random, score: Score) -> None:
    workflow = chance.choice(("bulk", "abulk"))
    for filling in range(FILLINGS):
        owner = stage.start("go", "run", workflow, STEPS)
        _wait_for_steps(stage, owner, chance)
        _fill(foreign, leave=chance.choice((0, 0, chance.randrange(60_000))))
        code = owner.wait()
        _check_told(owner, code, "StoreFull", score)
        stage.check()
        foreign.unlink()
        if code == 0:
            break
        score.points += filling > 0
    last = stage.start("go", "run", workflow, STEPS)
    require(last.wait() == 0, f"with room again it did not continue: {last}")
    check_completed(stage.check(), ["run"])
    stage.check_rebuilt()


def _wait_for_steps(stage: Stage, owner: Actor, chance: Random) -> None:
    """Until the owner has done a few steps more, or has only just begun."""
    wanted = chance.randint(0, STEPS // 4)
    deadline = time.monotonic() + 30
    while owner.alive and time.monotonic() < deadline:
        if sum(line.verb == "told" and line.pid == owner.pid for line in stage.lines()) >= wanted:
            return
        time.sleep(0.002)


def _fill(foreign: Path, leave: int) -> None:
    """Take all the room but so many bytes."""
    with foreign.open("wb", buffering=0) as file:
        try:
            for size in (65536, 4096, 512):
                while True:
                    try:
                        if file.write(b"\0" * size) < size:
                            break
                    except OSError:
                        break
        finally:
            file.truncate(max(0, file.tell() - leave))


def _check_told(owner: Actor, code: int, error: str, score: Score) -> None:
    text = owner.err.read_text()
    require("Traceback" not in text, f"a traceback: {owner}")
    if code == 0:
        note(score, "done in the room that was left")
        return
    require(code == STORE_ERROR, f"it ended with {code}: {owner}")
    note(score, "told")
    require(error != "StoreFull" or "no room left" in text, f"it was not told that the disk is full: {owner}")


def run_limited(budget: Budget) -> Score:
    """The same by RLIMIT_FSIZE, for whoever is not root."""
    score = Score("file size limit", "RLIMIT_FSIZE lowered to a random size, then lifted")
    for number in range(budget.of(LIMITS)):
        chance = chance_of(budget, "limited", number)
        with point(score, f"point {number}, seed {budget.seed}"), Stage() as stage:
            _limit(stage, chance, score)
    return score


def _limit(stage: Stage, chance: Random, score: Score) -> None:
    workflow = chance.choice(("bulk", "abulk"))
    size = chance.randrange(40_000, 600_000)
    first = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    owner = stage.start("go", "run", workflow, STEPS, first=first)
    _check_told(owner, owner.wait(), "", score)
    if stage.home.exists():
        stage.check()
    last = stage.start("go", "run", workflow, STEPS)
    require(last.wait() == 0, f"without the limit it did not continue: {last}")
    check_completed(stage.check(), ["run"])
    stage.check_rebuilt()
