"""An owner dies while its command runs: that one's whole family dies too, and only then is there a next.

The family is hard to kill: children that left by a double fork and a session of their own, one that forks all
the time, one that is stopped, all of them deaf to SIGTERM.
"""

from __future__ import annotations

import time

from tests.crash.history import require
from tests.crash.processes.ledger import check_completed
from tests.crash.processes.stage import (
    LINUX,
    NEEDS_LINUX,
    Actor,
    Stage,
    chance_of,
    is_alive,
    note,
    point,
    until,
)
from tests.crash.score import Budget, Score

OWNERS = 12
DEAD_S = 1.0
IN_DOUBT = 6


def run_trees(budget: Budget) -> Score:
    """`kill -9` for owners of running commands."""
    score = Score("command trees", "kill -9 for an owner while its command and that one's children run")
    if not LINUX:
        score.skipped = NEEDS_LINUX
        return score
    for number in range(budget.of(OWNERS)):
        chance = chance_of(budget, "trees", number)
        limbs, effect = chance.choice(("plain", "deep", "deaf")), ("idempotent", "once")[number % 2]
        where = f"{limbs}, {effect}, point {number}, seed {budget.seed}"
        with point(score, where), Stage() as stage:
            owner = stage.start("go", "run", "shell", limbs, effect)
            stage.wait_for("told", "run", "work#1")
            heir = stage.start("inherit", "run")
            if number % 3 == 0:  # at any moment, also before the command has begun
                time.sleep(chance.uniform(0, 0.08))
            else:
                stage.wait_for("ready")
                stage.wait_for("grown", "run")
                time.sleep(chance.uniform(0, 0.03))
            owner.kill()
            _tell(stage, owner, heir, effect, score)
    return score


def _tell(stage: Stage, owner: Actor, heir: Actor, effect: str, score: Score) -> None:
    """The owner is dead; the next one has waited for that."""
    killed = time.monotonic_ns()
    until(lambda: not _living(stage, owner), "all processes of the command dead", DEAD_S)
    beats = [line.at for line in stage.lines() if line.verb == "beat" and line.words[1] == str(owner.pid)]
    lived_ms = max(0, max(beats, default=killed) - killed) // 1_000_000
    longest = "longest life of a command after its owner, ms"
    score.notes[longest] = max(lived_ms, score.notes.get(longest, 0))
    until(lambda: not heir.alive or stage.line("grown", "run", str(heir.pid)) is not None, f"work of {heir}")
    claimed = stage.line("claimed", "run")
    require(claimed is None or len(claimed.words) == 1, f"the run was claimed beside its command: {claimed}")
    began = [line.at for line in stage.lines() if line.verb == "began" and line.words[1] == "shell#1"]
    stage.let_go()
    code = heir.wait()
    if code == IN_DOUBT:
        require(effect == "once", f"a command that may run again did not: {heir}")
        require(stage.line("grown", "run", str(heir.pid)) is None, "a command in doubt ran again")
        note(score, "in doubt")
        stage.check()
        return
    require(code == 0, f"it did not continue: {heir}")
    require(effect != "once" or len(began) == 1, f"a once command ran {len(began)} times")
    require(max(beats, default=0) <= max(began), "the next command began before the last one was dead")
    check_completed(stage.check(), ["run"])


def _living(stage: Stage, owner: Actor) -> set[int]:
    """The processes of the command that this owner started."""
    family = {
        line.pid
        for line in stage.lines()
        if line.verb in ("beat", "grown") and line.words[1] == str(owner.pid)
    }
    return {pid for pid in family if is_alive(pid)}
