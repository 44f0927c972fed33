"""Several processes on one store, all with the same runs, killed again and again.

Whoever is killed is started anew. At the end every run has its result; nothing that anybody was told of is
lost or was done again; each run had one owner at a time; and nobody waited long for the write lock.
"""

from __future__ import annotations

import time

from tests.crash.history import require
from tests.crash.processes.ledger import Line, check_completed
from tests.crash.processes.stage import Stage, chance_of, note, point, until
from tests.crash.score import Budget, Score

SECONDS = 4.0
"""Of kills, for each number of processes, in the short form."""
CROWDS = (2, 4)
GATE_S = 2.0
"""Nobody waits longer than that for the write lock, on two cores that others use, too."""


def run_crowd(budget: Budget) -> Score:
    """Two and four processes, `kill -9` at random for some seconds."""
    score = Score("crowd", "two and four processes on one store, kill -9 at random, the dead started anew")
    for size in CROWDS:
        _storm(budget, score, size, max(0.7, SECONDS * budget.scale))
    return score


def _storm(budget: Budget, score: Score, size: int, seconds: float) -> None:
    chance = chance_of(budget, "crowd", size)
    kills = 0
    with point(score, f"{size} processes, {seconds:g} s, seed {budget.seed}"), Stage() as stage:
        stage.side.touch()
        crowd = [stage.start("share", budget.seed) for _ in range(size)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            until(lambda: any(map(stage.has_spoken, crowd)), f"a word of {crowd[0]}")
            victim = chance.choice([n for n in range(size) if stage.has_spoken(crowd[n])])
            time.sleep(chance.uniform(0, 0.1))
            require(crowd[victim].alive, f"it ended by itself: {crowd[victim]}")
            crowd[victim].kill()
            crowd[victim] = stage.start("share", budget.seed)
            kills += 1
            if kills % 10 == 5:
                code, written = stage.cli("list")
                require(code == 0, f"list ended with {code}: {written}")
        stage.turn()
        for member in crowd:
            require(member.wait() == 0, f"it failed: {member}")
        last = stage.start("recover")
        require(last.wait() == 0, f"what was left could not continue: {last}")
        history = stage.check()
        check_completed(history, history.runs)
        stage.check_rebuilt()
        _check_gate(stage.lines(), score)
        note(score, "runs", len(history.runs))
        note(score, "take-overs", sum(len(run.epochs) - 1 for run in history.runs.values()))
    score.points += max(0, kills - 1)


def _check_gate(lines: list[Line], score: Score) -> None:
    longest_us = max((int(line.words[0]) for line in lines if line.verb == "waited"), default=0)
    longest_ms = -(-longest_us // 1000)
    score.notes["longest wait for the write lock, ms"] = max(
        longest_ms, score.notes.get("longest wait for the write lock, ms", 0)
    )
    require(longest_us < GATE_S * 1e6, f"somebody waited {longest_ms} ms for the write lock")
