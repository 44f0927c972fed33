"""The wall clock jumps, by hours and days, both ways, between the lives of a run and inside one.

Sleeps end at the recorded time of the wall clock, not before; a pause between two attempts and a time limit
never take longer than they say; who is alive, and what came first, is no matter of clocks. Nothing hangs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from random import Random

from tests.crash.history import RunHistory, require
from tests.crash.processes.ledger import check_completed
from tests.crash.processes.stage import Actor, Stage, chance_of, point
from tests.crash.score import Budget, Score

JUMPS = 20
SOON_S = 20.0
"""What takes a second of the story takes no longer than this, however busy the machine is; a clock that was
set back would make it hours."""
LOOK_S = 60.0
"""A sleeper looks at the clock so often."""
HELD_BY = 4
LONG_FORM = 4
"""The scale from which a minute does not matter."""
HOUR, DAY = 3600.0, 86400.0

Tell = Callable[[Stage, Random], None]


def run_clocks(budget: Budget) -> Score:
    """Jumps of an hour to ten days."""
    score = Score("clock jumps", "the wall clock set forwards and back, between lives and inside one")
    for number in range(budget.of(JUMPS)):
        tell = STORIES[number % len(STORIES)]
        where = f"{tell.__name__[1:]}, point {number}, seed {budget.seed}"
        with point(score, where), Stage() as stage:
            stage.set_clock(0)
            tell(stage, chance_of(budget, "clocks", number))
    if budget.scale >= LONG_FORM:
        with point(score, f"forwards_in_a_long_sleep, seed {budget.seed}"), Stage() as stage:
            stage.set_clock(0)
            _forwards_in_a_long_sleep(stage, chance_of(budget, "clocks", -1))
    return score


def _far(chance: Random) -> float:
    return chance.choice((HOUR, 5 * HOUR, DAY, 10 * DAY))


def _asleep(stage: Stage, seconds: float, chance: Random) -> Actor:
    """A run that has gone to sleep."""
    owner = stage.start("go", "run", chance.choice(("nap", "anap")), seconds)
    stage.wait_for("asleep", "run")
    return owner


def _finish(stage: Stage, owner: Actor, patience_s: float = SOON_S) -> RunHistory:
    require(owner.wait(patience_s) == 0, f"it failed: {owner}")
    history = stage.check()
    check_completed(history, ["run"])
    return history.runs["run"]


def _check_sleep(run: RunHistory) -> None:
    """It ended once, and not before its time by the wall clock."""
    began = [event for event in run.events if event.type == "SleepStarted"]
    ended = [event for event in run.events if event.type == "SleepEnded"]
    require(len(began) == len(ended) == 1, f"{len(began)} sleeps began, {len(ended)} ended")
    require(ended[0].time >= began[0].payload["until"], "a sleep ended before its time")


def _over_while_dead(stage: Stage, chance: Random) -> None:
    """The time of a sleep comes while nobody lives: it is not slept again."""
    _asleep(stage, 30.0, chance).kill()
    stage.set_clock(_far(chance))
    _check_sleep(_finish(stage, stage.start("resume", "run")))


def _back_while_dead(stage: Stage, chance: Random) -> None:
    """The clock is set back while nobody lives: the sleep continues, and ends when the time comes."""
    _asleep(stage, 0.5, chance).kill()
    stage.set_clock(-_far(chance))
    second = stage.start("resume", "run")
    time.sleep(1.5)
    require(stage.line("awake", "run") is None, "a sleep ended before its time")
    require(second.alive, f"it gave up: {second}")
    second.kill()
    stage.set_clock(0)
    _check_sleep(_finish(stage, stage.start("resume", "run")))


def _forwards_in_sleep(stage: Stage, chance: Random) -> None:
    """The clock is set forwards under a sleeper: it wakes up, at the latest when it would have."""
    owner = _asleep(stage, 1.5, chance)
    stage.set_clock(_far(chance))
    _check_sleep(_finish(stage, owner))


def _to_and_fro_in_sleep(stage: Stage, chance: Random) -> None:
    """Set back, and put right again: nothing has happened. A sleeper that looked meanwhile looks again."""
    owner = _asleep(stage, 1.5, chance)
    time.sleep(0.3)
    stage.set_clock(-_far(chance))
    time.sleep(chance.uniform(0.0, 0.3))
    stage.set_clock(0)
    _check_sleep(_finish(stage, owner, LOOK_S + SOON_S))


def _back_before_a_retry(stage: Stage, chance: Random) -> None:
    """The clock is set back while a step waits for its next attempt, 0.4 s away: not for days."""
    owner = stage.start("go", "run", "stubborn", 2)
    stage.wait_for("failed", "run", "flaky#1")
    stage.set_clock(-_far(chance))
    run = _finish(stage, owner)
    require(run.steps[0, "flaky#1"].failures == 2, "attempts were lost")


def _back_between_attempts(stage: Stage, chance: Random) -> None:
    """The same while nobody lives."""
    owner = stage.start("go", "run", "stubborn", 2)
    stage.wait_for("failed", "run", "flaky#1")
    owner.kill()
    stage.set_clock(-_far(chance))
    run = _finish(stage, stage.start("resume", "run"))
    require(run.steps[0, "flaky#1"].failures == 2, "attempts were lost")


def _forwards_between_attempts(stage: Stage, chance: Random) -> None:
    """A step whose next attempt is long due is tried at once; no attempt is skipped."""
    owner = stage.start("go", "run", "stubborn", 2)
    stage.wait_for("failed", "run", "flaky#1")
    owner.kill()
    stage.set_clock(_far(chance))
    run = _finish(stage, stage.start("resume", "run"))
    require(run.steps[0, "flaky#1"].failures == 2, "attempts were lost")


def _forwards_in_a_limit(stage: Stage, chance: Random) -> None:
    """The clock is set forwards inside a time limit: it is over, and stays so in every replay."""
    owner = stage.start("go", "run", "bounded", 60, 0.1, hold="work#1")
    stage.wait_for("began", "run", "work#1")
    stage.set_clock(_far(chance))
    stage.let_go()
    require(owner.wait(SOON_S) == 0, f"it failed: {owner}")
    require(json.loads(stage.check().runs["run"].result_json) == "late", "the limit was not kept")
    stage.set_clock(0)
    again = stage.start("go", "run", "bounded", 60, 0.1)
    require(again.wait(SOON_S) == 0, f"it failed: {again}")


def _back_in_a_limit(stage: Stage, chance: Random) -> None:
    """The clock is set back inside a time limit of half a second: it does not become one of days."""
    owner = stage.start("go", "run", "bounded", 0.5, 60.0, hold="work#1")
    stage.wait_for("began", "run", "work#1")
    stage.set_clock(-_far(chance))
    stage.let_go()
    require(owner.wait(SOON_S) == 0, f"it failed: {owner}")
    require(json.loads(stage.check().runs["run"].result_json) == "late", "the limit was not kept")


def _who_is_alive(stage: Stage, chance: Random) -> None:
    """Ten days later by the clock, a live owner is still alive; order is by version, whatever the times."""
    owner = stage.start("go", "run", "chain", 6, hold="work#3")
    stage.wait_for("began", "run", "work#3")
    stage.set_clock(chance.choice((1, -1)) * _far(chance))
    second = stage.start("resume", "run")
    require(second.wait() == HELD_BY, f"a live owner was robbed: {second}")
    stage.let_go()
    run = _finish(stage, owner)
    require(len(run.epochs) == 1, f"the run had {len(run.epochs)} owners")
    for words in (("list",), ("show", "run"), ("audit", "verify")):
        code, written = stage.cli(*words)
        require(code == 0, f"{words} ended with {code}: {written}")


def _forwards_in_a_long_sleep(stage: Stage, chance: Random) -> None:
    """The sleeper notices when it looks at the clock again."""
    owner = _asleep(stage, HOUR, chance)
    stage.set_clock(_far(chance))
    _check_sleep(_finish(stage, owner, LOOK_S + SOON_S))


STORIES: tuple[Tell, ...] = (
    _over_while_dead,
    _back_before_a_retry,
    _forwards_in_sleep,
    _back_in_a_limit,
    _to_and_fro_in_sleep,
    _back_while_dead,
    _forwards_between_attempts,
    _forwards_in_a_limit,
    _who_is_alive,
    _back_between_attempts,
)
