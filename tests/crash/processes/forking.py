"""A process forks with a Holdfast open and runs under way.

What it owns ends with it, whatever its children do: they keep none of its locks. A child cannot write through
what it inherited, and a Holdfast of its own is refused to it until it has become another program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

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

FORKS = 12
CHILDREN = 40
"""Of a busy process, each of which opens a store."""
TAKE_OVER_S = 5.0
"""From the start of the next process to the end of the run; a lease would take longer."""

Tell = Callable[[Stage, Random, Score], None]


def run_forking(budget: Budget) -> Score:
    """Parents that continue, close or are killed; children that end, exec, live on, write."""
    score = Score("fork", "os.fork and multiprocessing with a Holdfast open and runs under way")
    if not LINUX:
        score.skipped = NEEDS_LINUX
        return score
    for number in range(budget.of(FORKS)):
        tell = STORIES[number % len(STORIES)]
        where = f"{tell.__name__[1:]}, point {number}, seed {budget.seed}"
        with point(score, where), Stage() as stage:
            tell(stage, chance_of(budget, "fork", number), score)
    return score


def _way(chance: Random) -> str:
    return chance.choice(("fork", "multiprocessing"))


def _child_is_no_heir(stage: Stage, chance: Random, score: Score) -> None:
    """The parent is killed, its child lives on: whoever comes gets the run at once."""
    child = chance.choice(("becomes", "lasts", "uses"))
    parent = stage.start_forker("beside", _way(chance), child, "wait", hold="work#2")
    stage.wait_for("forked")
    heir_of_child = stage.wait_for("child", child).pid
    parent.kill()
    require(child == "uses" or is_alive(heir_of_child), "the child died with its parent")
    _take(stage, score)
    require(child == "uses" or is_alive(heir_of_child), "the child is gone")
    check_completed(stage.check(), ["main"])


def _take(stage: Stage, score: Score) -> None:
    """The run of a dead parent continues in another process, without a wait."""
    began = time.monotonic()
    heir = stage.start("resume", "main")
    require(heir.wait(TAKE_OVER_S) == 0, f"it could not continue: {heir}")
    longest = "longest take-over, ms"
    score.notes[longest] = max(score.notes.get(longest, 0), round((time.monotonic() - began) * 1000))


def _body_forks(stage: Stage, chance: Random, score: Score) -> None:
    """The fork is in the body of a step; the parent is killed, the child lives on."""
    child = chance.choice(("lasts", "becomes"))
    words = ("go", "main", "inside", _way(chance), child)
    parent = stage.start_forker(*words, hold="forks#1")
    stage.wait_for("child", child)
    parent.kill()
    stage.let_go()
    heir = stage.start_forker("resume", "main")
    require(heir.wait(TAKE_OVER_S) == 0, f"it could not continue: {heir}")
    check_completed(stage.check(), ["main"])


def _child_ends(stage: Stage, chance: Random, score: Score) -> None:
    """The child ends at once, or as programs end; the parent does not notice."""
    child = chance.choice(("exits", "ends"))
    parent = stage.start_forker("beside", _way(chance), child, "continue", hold="work#2")
    ended = stage.wait_for("child", child).pid
    until(lambda: not is_alive(ended), f"the end of child {ended}")
    stage.let_go()
    require(parent.wait() == 0, f"the parent failed: {parent}")
    require(not _complaints(parent), f"somebody complained: {parent}")
    check_completed(stage.check(), ["main"])
    stage.check_rebuilt()


def _child_ends_last(stage: Stage, chance: Random, score: Score) -> None:
    """The parent is killed, others use the store, and only then does Python take the child apart, with the
    connections that it inherited."""
    parent = stage.start_forker("beside", "fork", "lingers", "wait", hold="work#2")
    child = stage.wait_for("child", "lingers").pid
    parent.kill()
    _take(stage, score)
    other = stage.start("go", "other", "chain", 12)
    stage.wait_for("told", "other", f"work#{chance.randint(1, 8)}")
    stage.turn()
    until(lambda: not is_alive(child), f"the end of child {child}")
    require(other.wait() == 0, f"it failed: {other}")
    check_completed(stage.check(), ["main", "other"])
    stage.check_rebuilt()


def _inherited_is_refused(stage: Stage, chance: Random, score: Score) -> None:
    """The child tries to write and to read through the parent's Holdfast, and closes it."""
    parent = stage.start_forker("beside", "fork", "uses", "continue", hold="work#2")
    child = stage.wait_for("child", "uses").pid
    until(lambda: not is_alive(child), f"the end of child {child}")
    stage.let_go()
    require(parent.wait() == 0, f"the parent failed: {parent}")
    used = [line.words[0] for line in stage.lines() if line.verb == "used"]
    require(not used, f"the child could {used}")
    refused = _refused(stage)
    require(refused == ["run", "resume", "get", "runs"], f"refused were only {refused}: {parent}")
    check_completed(stage.check(), ["main"])


def _own_is_refused(stage: Stage, chance: Random, score: Score) -> None:
    """The child opens Holdfasts of its own, on the same store and elsewhere, while threads of the parent may
    be in the middle of anything: it is refused, and does not hang."""
    parent = stage.start_forker("beside", _way(chance), "owns", "continue", hold="work#2")
    child = stage.wait_for("child", "owns").pid
    until(lambda: not is_alive(child), f"the end of child {child}")
    require(_refused(stage) == ["own", "elsewhere"], f"not refused: {parent}")
    stage.let_go()
    require(parent.wait() == 0, f"the parent failed: {parent}")
    check_completed(stage.check(), ["main"])


def _renewed(stage: Stage, chance: Random, end: str) -> tuple[Actor, int]:
    """The child has become another program with a Holdfast of its own, and has finished a run in it; the
    parent ends as it is told."""
    parent = stage.start_forker("beside", _way(chance), "renews", end, hold="work#2")
    child = stage.wait_for("child", "renews").pid
    stage.wait_for("result", f"own-first-{child}")
    return parent, child


def _renewed_and_parent_lives(stage: Stage, chance: Random, score: Score) -> None:
    """Both continue, and so do others that come and go."""
    parent, child = _renewed(stage, chance, "continue")
    _passer_by(stage)
    stage.let_go()
    stage.wait_for("result", "main")
    _finish_renewed(stage, child, ["main"])
    require(parent.wait() == 0, f"the parent failed: {parent}")


def _renewed_and_parent_closes(stage: Stage, chance: Random, score: Score) -> None:
    """The parent closes; somebody else comes and goes; the child continues."""
    parent, child = _renewed(stage, chance, "close")
    stage.wait_for("closed")
    _passer_by(stage)
    _finish_renewed(stage, child, [])
    require(parent.wait() == 0, f"the parent failed: {parent}")


def _renewed_and_parent_dies(stage: Stage, chance: Random, score: Score) -> None:
    """The parent is killed; its run continues elsewhere; the child continues."""
    parent, child = _renewed(stage, chance, "wait")
    parent.kill()
    _take(stage, score)
    _finish_renewed(stage, child, ["main"])


def _passer_by(stage: Stage) -> None:
    """A process that opens the store, and closes it."""
    code, written = stage.cli("list")
    require(code == 0, f"list ended with {code}: {written}")


def _finish_renewed(stage: Stage, child: int, runs: list[str]) -> None:
    """What the child was told of is there."""
    stage.turn()
    until(lambda: not is_alive(child), f"the end of child {child} ({stage.actors[0]})")
    _passer_by(stage)
    check_completed(stage.check(), [*runs, f"own-first-{child}", f"own-second-{child}"])
    stage.check_rebuilt()


def _busy(stage: Stage, chance: Random, score: Score) -> None:
    """Forks while four runs commit all the time; the children end, or try what they inherited."""
    child = chance.choice(("exits", "ends", "uses"))
    _fork_busily(stage, child, 30, score)


def _busy_and_own(stage: Stage, chance: Random, score: Score) -> None:
    """The children open stores, whatever lock a thread of the parent held at the moment of the fork."""
    _fork_busily(stage, "owns", CHILDREN, score)
    refused = _refused(stage)
    require(
        len(refused) == 2 * CHILDREN,
        f"{2 * CHILDREN - len(refused)} of {2 * CHILDREN} stores were not refused",
    )


def _fork_busily(stage: Stage, child: str, times: int, score: Score) -> None:
    parent = stage.start_forker("busily", "fork", child, times)
    require(parent.wait(60) == 0, f"it hangs or failed: {parent}")
    note(score, "forks of a busy process", times)
    lines = stage.lines()
    hung = [line.words[0] for line in lines if line.verb == "hangs"]
    require(not hung, f"children hang: {hung}")
    check_completed(stage.check(), [line.words[0] for line in lines if line.verb == "result"])
    stage.check_rebuilt()


def _refused(stage: Stage) -> list[str]:
    return [line.words[0] for line in stage.lines() if line.verb == "refused"]


def _busy_and_dies(stage: Stage, chance: Random, score: Score) -> None:
    """The same, and the parent is killed: children keep no lock that another thread of it held."""
    parent = stage.start_forker("busily", "fork", "lasts", 20)
    stage.wait_for("forked")
    parent.kill()
    note(score, "forks of a busy process", 20)
    heir = stage.start("recover")
    require(heir.wait(TAKE_OVER_S + 5) == 0, f"it could not continue: {heir}")
    check_completed(stage.check(), [f"busy-{n}" for n in range(4)])


def _complaints(actor: Actor) -> str:
    return actor.err.read_text()


STORIES: tuple[Tell, ...] = (
    _child_is_no_heir,
    _own_is_refused,
    _busy_and_own,
    _body_forks,
    _renewed_and_parent_dies,
    _busy_and_dies,
    _child_ends,
    _inherited_is_refused,
    _renewed_and_parent_closes,
    _busy,
    _child_ends_last,
    _renewed_and_parent_lives,
)
