"""Four terminals on one store, each killed at any moment and started anew.

Two serve the store (`holdfast resume --all --follow`). One starts runs, which wait at a gate. One is a
clerk's, who looks at what waits, decides, sends signals and cancels. At the end every run has ended as it was
decided, every gate was decided once, and whatever a terminal was told is in the log.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from random import Random
from statistics import mean
from typing import Any

from tests.crash.history import History, RunHistory, require
from tests.crash.processes.ledger import Lost, check_completed, check_passed
from tests.crash.processes.stage import HERE, Actor, Late, Stage, chance_of, note, point, until
from tests.crash.score import Budget, Score

SECONDS = 4.0
"""Of kills, in the short form."""
END_S = 45.0
"""After the last kill, within so long, one more run has come on. Who serves tries again after half a minute
what it could not execute."""
MOMENT_S = 0.1
"""What counts at most of the time between two looks: if all stood still, nobody could continue."""
REFUSED, HELD, WAITS = 2, 4, 5
SERVES_S = 1.5
"""So long at most does a follower serve before it is killed."""
CANCELLED = 5
"""Every so manyth run is cancelled at its gate."""

Terminal = Iterator[Actor]
"""The processes that are started in it, each when the one before has ended."""


def run_terminals(budget: Budget) -> Score:
    """Followers, a starter and a clerk, `kill -9` at random for some seconds."""
    score = Score("terminals", "two that serve, one that starts runs and one that decides, kill -9 at random")
    seconds = max(1.0, SECONDS * budget.scale)
    with point(score, f"{seconds:g} s, seed {budget.seed}"), Stage() as stage:
        stage.side.touch()
        office = Office(stage, chance_of(budget, "terminals", 0), score)
        office.work(seconds)
        office.close()
        history = stage.check()
        check_passed(stage.lines(), history)
        office.check(history)
        stage.check_rebuilt()
        code, written = stage.cli("audit", "verify")
        require(code == 0, f"audit verify ended with {code}: {written}")
        note(score, "runs", len(history.runs))
        note(score, "decisions", sum(_decisions(run) for run in history.runs.values()))
        note(score, "take-overs", sum(_takeovers(run) for run in history.runs.values()))
    score.points += max(0, score.notes.get("kills", 0) - 1)
    return score


class Office:
    """The terminals, who is killed when, and what each was told."""

    def __init__(self, stage: Stage, chance: Random, score: Score) -> None:
        self.stage = stage
        self.chance = chance
        self.score = score
        self.storm = True
        self.started: list[str] = []
        self.told: list[tuple[str, str, str]] = []
        """(run, gate, outcome) of what the clerk was told is done."""
        self._births: dict[Actor, float] = {}
        self._deaths: dict[Actor, float] = {}
        """Process → when it is killed."""
        self._durations: list[float] = []
        """How long the processes took that do one thing, those that were killed too."""
        self._killed: set[Actor] = set()
        self._left: dict[str, str] | None = None
        """Run → status, of those that had not ended when the clerk last looked."""

    def work(self, seconds: float) -> None:
        """Kill at random for so long, then let everything come to its end."""
        code, written = self.stage.cli(*self._new_run())  # there is a store to serve
        require(code == WAITS, f"{self.started} was started, and it ended with {code}: {written}")
        terminals = [self._follow(), self._follow(), self._start_runs(), self._decide()]
        present = {terminal: next(terminal) for terminal in terminals}
        now = time.monotonic()
        storm_ends = now + seconds
        seen, waited = self._left, 0.0
        while self.storm or self._left != {}:
            before, now = now, time.monotonic()
            self.storm = now < storm_ends
            waited += min(now - before, MOMENT_S)
            if self.storm or self._left != seen:
                seen, waited = self._left, 0.0
            if waited > END_S:
                there = "\n".join(actor.autopsy() for actor in present.values())
                raise Late(f"nobody has continued these runs for {END_S:g} s: {self._left}; {there}")
            for terminal, actor in list(present.items()):
                if self.storm and now >= self._death(actor):
                    actor.kill()
                    self._killed.add(actor)
                    note(self.score, "kills")
                if not actor.alive:
                    if "--follow" not in actor.words:
                        self._durations.append(now - self._births[actor])
                    following = next(terminal, None)
                    if following is None:
                        del present[terminal]
                    else:
                        present[terminal] = following
            time.sleep(0.005)

    def close(self) -> None:
        """The followers are told to stop, once they can hear it, and do; the others end by themselves."""
        for actor in self.stage.actors:
            if "--follow" in actor.words:
                until(lambda actor=actor: not actor.alive or actor.err.stat().st_size, f"{actor} serves")
                actor.interrupt()
        for actor in self.stage.actors:
            code = actor.wait()
            require(code == 0 or "--follow" not in actor.words or actor in self._killed, f"{code}: {actor}")
            require("Traceback" not in actor.err.read_text(), f"a traceback: {actor}")

    def _cli(self, *words: object, risk: float) -> Actor:
        """A process that is killed, with this probability, at any moment of the time that others took."""
        actor = self.stage.start_cli(*words)
        self._births[actor] = time.monotonic()
        if self.chance.random() < risk:
            others = self._durations[-20:] or [0.3]
            self._deaths[actor] = self._births[actor] + self.chance.uniform(0, 1.2 * mean(others))
        return actor

    def _death(self, actor: Actor) -> float:
        """When it is killed. One that serves, and was not while it started, some time after it has begun."""
        if actor not in self._deaths and "--follow" in actor.words and actor.err.stat().st_size:
            self._deaths[actor] = time.monotonic() + self.chance.uniform(0, SERVES_S)
        return self._deaths.get(actor, math.inf)

    # What is done in a terminal

    def _follow(self) -> Terminal:
        while True:
            actor = self._cli("resume", "--all", "--follow", risk=0.2)
            yield actor
            require(actor in self._killed, f"it ended by itself with {actor.wait()}: {actor}")

    def _start_runs(self) -> Terminal:
        """Whoever is killed here is started again with the same id, as a person would."""
        while self.storm:
            words = self._new_run()
            while True:
                actor = self._cli(*words, risk=0.3)
                yield actor
                if actor not in self._killed:
                    break
            code = actor.wait()
            require(code in (0, 1, HELD, WAITS), f"a run was started, and it ended with {code}: {actor}")

    def _new_run(self) -> tuple[str, ...]:
        number = len(self.started)
        run = f"order-{number}"
        self.started.append(run)
        workflow = "aorder" if number % 4 == 3 else "order"
        return "run", "--id", run, f"{HERE / 'flow.py'}:{workflow}", run

    def _decide(self) -> Terminal:
        """Look at what waits and answer it, one gate after the other."""
        while True:
            looking = yield from self._ask("list", "--json", "--all")
            if looking is None:
                continue
            status = dict.fromkeys(self.started, "not there") | {one["id"]: one["status"] for one in looking}
            self._left = {run: how for run, how in status.items() if how not in ("completed", "cancelled")}
            waiting = [run for run, how in self._left.items() if how == "waiting"]
            for run in self.chance.sample(waiting, len(waiting)):
                shown = yield from self._ask("show", "--json", run)
                if shown is not None:
                    yield from self._answer(run, shown)

    def _ask(self, *words: object) -> Iterator[Actor]:
        """The JSON that a command prints; None if it was killed."""
        actor = self._cli(*words, risk=0.1)
        yield actor
        if actor in self._killed:
            return None
        require(actor.wait() == 0, f"it failed: {actor}")
        return json.loads(actor.out.read_text())

    def _answer(self, run: str, shown: dict[str, Any]) -> Terminal:
        number = int(run.rpartition("-")[2])
        if number % CANCELLED == 4:
            yield from self._do(("cancel", run), (run, "", "cancelled"))
            return
        for gate in shown["gates"]:
            if gate["status"] != "open":
                continue
            if gate["kind"] == "signal":
                yield from self._do(
                    ("signal", run, gate["title"], number + 1), (run, gate["key"], "received")
                )
                continue
            outcome = self.chance.choice(("approved", "approved", "rejected"))
            place = f"{gate['key']}@{gate['digest'][:8]}"
            words = ("reject" if outcome == "rejected" else "approve", run, place)
            if self.chance.random() < 0.2:
                stale = self._cli(*words[:2], f"{gate['key']}@{'0' * 8}", risk=0.0)
                yield stale
                require(stale.wait() == REFUSED, f"a digest of something else was accepted: {stale}")
                note(self.score, "refused")
            done = yield from self._do((*words, "--by", "clerk"), (run, gate["key"], outcome))
            if done and self.chance.random() < 0.2:
                again = self._cli(*words, "--by", "another", risk=0.0)
                yield again
                require(again.wait() == REFUSED, f"a second decision was accepted: {again}")
                note(self.score, "refused")

    def _do(self, words: tuple[object, ...], told: tuple[str, str, str]) -> Iterator[Actor]:
        """Whether the command said that it was done: not if it was killed."""
        actor = self._cli(*words, risk=0.3)
        yield actor
        if actor in self._killed:
            return False
        require(actor.wait() == 0, f"it failed: {actor}")
        self.told.append(told)
        return True

    # What must have come of it

    def check(self, history: History) -> None:
        require(set(self.started) >= history.runs.keys(), f"runs that nobody started: {[*history.runs]}")
        for run_id, gate, outcome in self.told:
            run = history.runs.get(run_id)
            if run is None or not _has(run, gate, outcome):
                raise Lost(f"the clerk was told that {gate or 'the run'} of {run_id} is {outcome}")
        completed = []
        for run_id in self.started:
            cancelled = int(run_id.rpartition("-")[2]) % CANCELLED == 4
            if cancelled:
                require(history.runs[run_id].status == "cancelled", f"{run_id} was not cancelled")
            else:
                completed.append(run_id)
                _check_way(history.runs[run_id])
        check_completed(history, completed)


def _has(run: RunHistory, gate: str, outcome: str) -> bool:
    if not gate:
        return run.status == outcome
    step = run.step(gate)
    if step is None or step.status != "completed":
        return False
    return step.kind == "signal" or json.loads(step.result_json)[:2] == [outcome, "clerk"]


def _check_way(run: RunHistory) -> None:
    """The run has done what was decided, and nothing else."""
    steps = {step.key: step for step in run.live_steps()}
    for key, gate in steps.items():
        if gate.kind != "approval":
            continue
        approved = json.loads(gate.result_json)[0] == "approved"
        then = "paid#1" if run.workflow == "order" else key.replace("send", "awork")
        require(
            (then in steps) == approved, f"run {run.id}: {key} was {gate.result_json}, and {then} is not so"
        )


def _decisions(run: RunHistory) -> int:
    return sum(event.type == "GateDecided" for event in run.events)


def _takeovers(run: RunHistory) -> int:
    return sum(event.type == "RunClaimed" and "took_over" in event.payload for event in run.events)
