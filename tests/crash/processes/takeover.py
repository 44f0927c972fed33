"""Take-over: an owner is stopped, another process takes its run, the first one wakes up.

SIGSTOP is not death: without `--take-over` the second process is told who has the run. With it, it continues;
and when the first one wakes up, nothing of it reaches the log any more.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.crash.history import History, require
from tests.crash.processes.ledger import check_completed, late_beginnings
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

TAKEOVERS = 40
WAKE_S = 10.0
"""A stale owner that is awake has noticed by then, whatever it was doing."""
HELD_BY = 4
NOT_FOUND = 3
IN_DOUBT = 6


@dataclass
class Story:
    """One take-over: the stage, the luck, and what is learned on the way."""

    stage: Stage
    chance: Random
    score: Score
    by_cli: bool
    ended: History = field(default_factory=History)
    """The log when the run had ended elsewhere and the first owner was still asleep."""

    def begin(self, workflow: str, *args: object, **env: str) -> Actor:
        return self.stage.start("go", "run", workflow, *args, **env)

    def take(self, owner: Actor, code: int = 0) -> None:
        """Another process asks for the run, is told who has it, takes it, and continues to the end."""
        if self.by_cli:
            self._is_told(owner)
            taker = self.stage.start_cli("resume", "run", "--take-over")
        else:
            taker = self.stage.start("take_over", "run")
        found = taker.wait()
        require(found == code, f"the take-over ended with {found}, not {code}: {taker}")
        require("Traceback" not in taker.err.read_text(), f"a traceback: {taker}")
        if not self.by_cli:
            held = self.stage.line("held", "run")
            require(held is not None, f"{taker} was not told who has the run")
            assert held is not None
            require(held.words[1] == str(owner.pid), f"{taker} was told of {held.words[1]}, not {owner.pid}")
        self.ended = self.stage.check()

    def _is_told(self, owner: Actor) -> None:
        code, written = self.stage.cli("resume", "run")
        require(code == HELD_BY, f"resume of a held run ended with {code}: {written}")
        require(re.search(rf"\b{owner.pid}\b", written), f"pid {owner.pid} is not named: {written}")

    def wake(self, *owners: Actor, branches: int = 0) -> None:
        """The first owners continue, in vain: each says so, and the log stays as it was. So many `branches`
        may have been stopped just before a body."""
        woken = time.monotonic_ns()
        self.stage.let_go()
        for owner in owners:
            owner.go_on()
        for owner in owners:
            code = owner.wait(WAKE_S)
            require(code == HELD_BY, f"a stale owner ended with {code}: {owner}")
            error = self.stage.line("error", "OwnershipLost")
            require(error is not None, f"a stale owner was not told so: {owner}")
            self.excuse(owner, woken, branches)
        after = self.stage.check()
        before = {run_id: run.events for run_id, run in self.ended.runs.items()}
        now = {run_id: run.events for run_id, run in after.runs.items()}
        require(before == now, "a stale owner changed the log")

    def excuse(self, owner: Actor, woken: int, branches: int) -> None:
        """So many branches may have begun a body after the owner was woken up."""
        late = late_beginnings(self.stage.lines(), owner.pid, woken)
        require(len(late) <= branches, f"a stale owner began {[line.words for line in late]}: {owner}")
        self.stage.excused += late
        note(self.score, "bodies begun by a woken owner", len(late))

    def finish(self, *runs: str) -> None:
        check_completed(self.stage.check(), runs or ("run",))
        self.stage.check_rebuilt()

    def hold(self, owner: Actor, key: str, run: str = "run") -> None:
        """Stop the owner in the body of this step, which is held."""
        self.stage.wait_for("began", run, key)
        self.stop(owner)

    def stop(self, owner: Actor) -> None:
        """Stop the owner, but not in one of its commits, beside the body: that is another story."""
        while True:
            require(owner.stop(), f"{owner} ended before it could be stopped")
            if not self.stage.gate_is_shut():
                return
            note(self.score, "gate held")
            owner.go_on()
            time.sleep(0.01)


def _body(story: Story) -> None:
    """In the body of a step."""
    key = f"work#{story.chance.randint(1, 5)}"
    workflow, branches = story.chance.choice((("chain", 0), ("fan", 4)))
    owner = story.begin(workflow, 5, hold=key)
    story.hold(owner, key)
    story.take(owner)
    story.wake(owner, branches=branches)
    story.finish()


def _async_body(story: Story) -> None:
    """In an async body: it is cancelled, although nobody lets it go."""
    workflow, key, beside = story.chance.choice((("stream", "awork#2", 0), ("tide", "wave[3]/awork#1", 1)))
    owner = story.begin(workflow, 4, hold=key)
    story.stage.wait_for("began", "run", key)
    time.sleep(story.chance.choice((0.0, 0.05)))  # before or after the log has its beginning
    story.stop(owner)
    story.take(owner)
    woken = time.monotonic_ns()
    owner.go_on()
    require(owner.wait(WAKE_S) == HELD_BY, f"it continues a run that it lost: {owner}")
    story.excuse(owner, woken, beside)
    line = story.stage.line("cancelled", "run", key)
    require(line is not None and line.pid == owner.pid, f"its step was not cancelled: {owner}")
    story.finish()


def _once(story: Story) -> None:
    """In the body of a `once` step: nobody knows whether it happened, so it is in doubt, and stays so."""
    key = f"send#{story.chance.randint(1, 2)}"
    owner = story.begin("post", 2, hold=key)
    story.hold(owner, key)
    story.take(owner, IN_DOUBT)
    story.wake(owner)
    outcome = story.chance.choice((["--retry"], ["--done", '"settled"']))
    code, written = story.stage.cli("settle", "run", key, *outcome)
    require(code == 0, f"settle ended with {code}: {written}")
    code, written = story.stage.cli("resume", "run")
    require(code == 0, f"resume after settle ended with {code}: {written}")
    story.finish()


def _command(story: Story) -> None:
    """While a command runs with children that left it: all are dead before it runs again."""
    effect = story.chance.choice(("idempotent", "once"))
    owner = story.begin("shell", story.chance.choice(("plain", "deep", "deaf")), effect)
    story.stage.wait_for("grown", "run")
    story.stop(owner)
    if effect == "once":
        story.take(owner, IN_DOUBT)
        _all_dead(story.stage, "when the take-over had ended")
        owner.go_on()
        require(owner.wait(WAKE_S) == HELD_BY, f"a stale owner was not told so: {owner}")
        require(story.stage.check().runs["run"].status == "needs_attention", "the doubt is gone")
        return
    first = {line.pid for line in story.stage.lines() if line.verb == "beat"}
    taker = story.stage.start("take_over", "run")
    until(lambda: _begun(story.stage) == 2, f"the command again ({taker})")
    again = [line for line in story.stage.lines() if line.verb == "began" and line.words[1] == "shell#1"][1]
    late = [line for line in story.stage.lines() if line.pid in first and line.at > again.at]
    require(not late, f"processes of the first command lived beside the second: {late[:3]}")
    owner.go_on()
    require(owner.wait(WAKE_S) == HELD_BY, f"a stale owner was not told so: {owner}")
    story.stage.let_go()
    require(taker.wait() == 0, f"the take-over failed: {taker}")
    story.finish()


def _begun(stage: Stage) -> int:
    return sum(line.verb == "began" and line.words[1] == "shell#1" for line in stage.lines())


def _all_dead(stage: Stage, when: str) -> None:
    alive = {line.pid for line in stage.lines() if line.verb == "beat" and is_alive(line.pid)}
    require(not alive, f"{len(alive)} processes of the command live {when}")


def _child_run(story: Story) -> None:
    """In a step of a child run: the family is taken as one."""
    owner = story.begin("family", 2, hold="work#2")
    story.hold(owner, "work#2", "run.chain-1")
    story.take(owner)
    story.wake(owner)
    story.finish("run", "run.chain-1", "run.chain-2")


def _asleep(story: Story) -> None:
    """In a durable sleep."""
    owner = story.begin(story.chance.choice(("nap", "anap")), 0.6)
    story.stage.wait_for("asleep", "run")
    story.stop(owner)
    story.take(owner)
    story.wake(owner)
    story.finish()


def _waiting(story: Story) -> None:
    """Waiting for the write lock, with a result in its hands."""
    key = f"work#{story.chance.randint(2, 4)}"
    owner = story.begin("chain", 5, hold=key)
    story.stage.wait_for("began", "run", key)
    with story.stage.gate_shut():
        story.stage.let_go()
        story.stage.wait_for("ended", "run", key)
        time.sleep(0.05)
        require(owner.stop(), f"{owner} ended before it could be stopped")
    if story.stage.gate_is_shut():
        note(story.score, "gate held")
        owner.go_on()
        owner.wait()
    else:
        story.take(owner)
        story.wake(owner)
    story.finish()


def _committing(story: Story) -> None:
    """With the write lock in its hands: it is let end that write, stopped again, and gone past."""
    where = f"{story.chance.choice(('enter', 'exit'))}:{story.chance.randint(5, 8)}"
    owner = story.begin("chain", 6, stop=where)
    require(owner.stopped(), f"{owner} was not stopped at {where}")
    require(story.stage.gate_is_shut(), "the gate is open")
    note(story.score, "gate held")
    code, written = story.stage.cli("resume", "run", "--take-over")
    if code == NOT_FOUND:
        note(story.score, "gate held, by whom was making the run")
        owner.go_on()
        require(owner.wait(WAKE_S) == 0, f"it did not continue: {owner}")
    else:
        require(code == 0, f"the take-over ended with {code}: {written}")
        require(owner.stopped(), f"it was let continue for good: {owner}")
        woken = time.monotonic_ns()
        owner.go_on()
        require(owner.wait(WAKE_S) in (0, HELD_BY), f"a stale owner was not told so: {owner}")
        story.excuse(owner, woken, branches=1)
    story.finish()


def _awake(story: Story) -> None:
    """An owner that is not stopped at all loses its run all the same."""
    key = f"work#{story.chance.randint(1, 4)}"
    owner = story.begin("chain", 5, hold=key)
    story.stage.wait_for("began", "run", key)
    story.take(owner)
    story.wake(owner)
    story.finish()


def _twice(story: Story) -> None:
    """Who took the run over is stopped as well, and a third one takes it."""
    first = story.begin("chain", 5, hold="work#2")
    story.hold(first, "work#2")
    second = story.stage.start("take_over", "run", hold="work#4")
    story.hold(second, "work#4")
    story.take(second)
    story.wake(first, second)
    story.finish()


def _anywhere(story: Story) -> None:
    """At any moment of a run that nothing holds up."""
    workflow, branches = story.chance.choice(
        (("chain", 1), ("fan", 4), ("tide", 12), ("stream", 1), ("bank", 1), ("family", 1))
    )
    owner = story.begin(workflow, 12)
    story.stage.wait_for("began")
    time.sleep(story.chance.uniform(0, 0.06))
    if not owner.stop():
        note(story.score, "ended before the stop")
        story.finish()
        return
    if story.stage.gate_is_shut():
        note(story.score, "gate held")
        owner.go_on()
        require(owner.wait() == 0, f"it did not continue: {owner}")
        story.finish()
        return
    taker = story.stage.start("take_over", "run")
    require(taker.wait() == 0, f"the take-over failed: {taker}")
    story.ended = story.stage.check()
    if story.stage.line("held", "run") is None:
        note(story.score, "ended before the stop")
        owner.go_on()
        require(owner.wait(WAKE_S) == 0, f"it had the result: {owner}")
    else:
        story.wake(owner, branches=branches)
    story.finish()


STORIES: tuple[Callable[[Story], None], ...] = (
    _body,
    _anywhere,
    _once,
    _async_body,
    _waiting,
    _command,
    _anywhere,
    _committing,
    _child_run,
    _twice,
    _awake,
    _anywhere,
    _asleep,
)


def run_takeover(budget: Budget) -> Score:
    """Owners stopped at random moments; the short form takes 40 runs over."""
    score = Score("take-over", "an owner stopped by SIGSTOP, its run taken over, the owner woken up")
    if not LINUX:
        score.skipped = NEEDS_LINUX
        return score
    for number in range(budget.of(TAKEOVERS)):
        chance = chance_of(budget, "take-over", number)
        tell = STORIES[number % len(STORIES)]
        by_cli = chance.random() < 0.3
        with (
            point(score, f"{tell.__name__[1:]}, point {number}, seed {budget.seed}"),
            Stage() as stage,
        ):
            tell(Story(stage, chance, score, by_cli))
    return score
