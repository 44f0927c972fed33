"""Several lives of one store: what the bodies of steps said, against the log before and after each.

Shares no code with the engine. What a workload's code does is its `Plan`; what it says while it does it
are lines that outlive it, because somebody else holds the other end of the pipe.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.crash.history import History, RunHistory, StepHistory, Violation, digest, require


@dataclass(frozen=True)
class RunPlan:
    """What a run's code does: what must be there when it has ended."""

    steps: tuple[str, ...]
    """The keys of all its steps."""
    result_json: str
    """Its result, canonical."""
    once: frozenset[str] = frozenset()
    failures: Mapping[str, range] = field(default_factory=dict)
    """How many attempts of a step can have failed when it has ended, whatever happened in between."""
    fails: frozenset[str] = frozenset()
    """Steps that end as failures, which the code catches."""
    silent: frozenset[str] = frozenset()
    """Steps whose bodies say no lines: child runs."""
    given_up: frozenset[str] = frozenset()
    """Waits that the code gives up, perhaps before they have begun; not among the steps."""
    marks: tuple[str, ...] = ()
    """Recorded values, emissions and patches."""
    status: Literal["completed", "cancelled", "archived", "deleted"] = "completed"
    """How it ends. What is cancelled has done some of its steps."""


Plan = Mapping[str, RunPlan]
Place = tuple[str, str]
"""A run and a key; the key of a step that began in a later generation ends with `@` and its number."""


@dataclass
class Said:
    """What the lines of one life say."""

    began: Counter[Place] = field(default_factory=Counter)
    ended: Counter[Place] = field(default_factory=Counter)
    told: dict[Place, str] = field(default_factory=dict)
    valued: dict[Place, str] = field(default_factory=dict)
    happened: set[Place] = field(default_factory=set)
    decided: list[tuple[str, str, str]] = field(default_factory=list)
    sent: list[tuple[str, str, str]] = field(default_factory=list)
    stopped: list[tuple[str, str]] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[str]) -> Said:
        said = cls()
        for line in lines:
            verb, *words = line.split(" ", 3)
            place = (words[0], words[1] if len(words) > 1 else "")
            step = f"step {place[1]} of {place[0]}"
            if verb == "began":
                require(place not in said.told, f"{step} began after it was acknowledged")
                require(place not in said.happened, f"{step} began after its hook said that it had happened")
                said.began[place] += 1
            elif verb == "ended":
                said.ended[place] += 1
            elif verb == "told":
                before = said.told.setdefault(place, words[2])
                require(before == words[2], f"{line!r}: it was {before} before")
            elif verb == "value":
                said.valued[place] = words[2]  # until it is in the log, it may be another
            elif verb == "happened":
                said.happened.add(place)
            elif verb == "decided":
                said.decided.append((words[0], words[1], words[2]))
            elif verb == "sent":
                said.sent.append((words[0], words[1], words[2]))
            elif verb == "stopped-at":
                said.stopped.append((words[0], words[1]))
            elif verb == "result":
                said.results[words[0]] = words[1]
        return said


class Lives:
    """The lives of one store, one after the other: what bodies said, against the log before and after.

        lives = Lives(plan)
        lives.add(lines_of_a_life, check_store(home), cut=True)     # killed, or ended with an error
        lives.add(lines_of_the_next, check_store(home), cut=False)
        lives.finish()                                              # "completed" or "needs_attention"

    Lines, in the order in which they were said (a cut line at the end is ignored by who reads the pipe):

        began RUN KEY           a body begins
        ended RUN KEY           it is about to return or to raise
        happened RUN KEY        its `verify` hook says that it did
        told RUN KEY DIGEST     the workflow has the step's value (`digest` of its JSON; `-`: not compared)
        value RUN KEY DIGEST    the workflow has a recorded value
        result RUN DIGEST       the caller has the run's result
        wrote STREAM TYPE FIELD=VALUE ...
                                whoever changed a task, a link or a memory was told that it is done
        decided RUN KEY OUTCOME, sent RUN NAME DIGEST, stopped-at RUN STATUS
                                who steers it was told that this is done
    """

    def __init__(self, plan: Plan, before: History | None = None) -> None:
        self.plan = plan
        self.first = self.last = before or History()
        self.begun: Counter[Place] = Counter()
        self.cut_off: Counter[Place] = Counter()
        self.happened: set[Place] = set()
        self.results: dict[str, str] = {}
        self.lost = 0
        """How often something acknowledged was not in the log."""

    def add(
        self,
        lines: Iterable[str],
        after: History,
        *,
        cut: bool,
        tries: int = 1,
        survives: Literal["all", "synced"] = "all",
    ) -> None:
        """One more life has ended. `cut`: by a kill or by an error; `tries`: how often it began the run.
        `survives` is what the log must still have of its past: all of it, or, after a power cut, what was
        synced."""
        before, self.last = self.last, after
        lines = list(lines)
        said = Said.of(lines)
        for line in lines:
            if line.startswith("wrote "):
                position = after.tracker.position(line) if after.tracker else 0
                self._require_kept(position != 0, f"{line!r} was said, and the log has nothing of it")
        self._check_past(before, after, survives)
        self._check_acknowledged(said, after)
        self._check_steered(said, after)
        for place in sorted(said.began.keys() | said.ended.keys()):
            self._check_bodies(place, said, before, after, tries if cut else 0)
        self._check_new_ends(said, before, after)
        self._check_once(after)
        self.happened |= said.happened

    def finish(self) -> str:
        """After a life without faults: every run has its result, or shows the step that is in doubt."""
        doubtful = False
        for run_id, plan in self.plan.items():
            run = self.last.runs.get(run_id)
            if plan.status != "completed":
                self._check_end(run_id, plan)
                continue
            if run is None or run.status != "completed":
                doubtful = self._check_attention(run_id) or doubtful
                continue
            require(run.result_json == plan.result_json, f"run {run_id}: another result")
            told = self.results.get(run_id)
            require(told in (None, digest(run.result_json)), f"run {run_id}: the caller got another result")
            self._check_complete(run, plan)
        require(self.last.runs.keys() <= self.plan.keys(), f"runs that nobody planned: {[*self.last.runs]}")
        return "needs_attention" if doubtful else "completed"

    def _check_past(self, before: History, after: History, survives: str) -> None:
        for run_id, run in before.runs.items():
            kept = run.events
            if survives == "synced":
                kept = [event for event in kept if event.position <= before.last_synced]
            if run_id in after.archived and run_id not in before.archived:
                continue  # the file has it: the checker has read it
            if run_id in after.deleted:
                continue  # so has the table of what was set aside
            now = after.runs[run_id].events if run_id in after.runs else []
            if now[: len(kept)] != kept:
                self.lost += 1
                raise Violation(f"run {run_id}: what was in the log before this life is not there after it")

        kept_streams = before.tracker.streams if before.tracker and survives == "all" else {}
        for stream, events in kept_streams.items():
            gone = stream in after.archived or after.tracker is None
            if stream.startswith("@") and not gone:
                now = after.tracker.streams.get(stream, [])
                self._require_kept(now[: len(events)] == events, f"{stream}: the log has lost something")

    def _check_acknowledged(self, said: Said, after: History) -> None:
        for (run_id, key), told in said.told.items():
            if run_id in after.archived | after.deleted:
                continue
            step = _step(after, run_id, key)
            if step is None or step.status not in ("completed", "failed"):
                self.lost += 1
                raise Violation(
                    f"step {key} of {run_id} was acknowledged, and the log has it as "
                    f"{step.status if step else 'nothing'}"
                )
            require(step.synced, f"step {key} of {run_id} was acknowledged by a commit that was not synced")
            found = digest(step.result_json)
            require(
                told in ("-", found),
                f"step {key} of {run_id}: the workflow got another value than the log has",
            )
        for (run_id, key), told in said.valued.items():
            run = after.runs.get(run_id)
            mark = run.marks.get((run.generation, key)) if run else None
            require(mark is None or digest(mark.json) == told, f"{key} of {run_id} was another value")
        for run_id, told in said.results.items():
            run = after.runs.get(run_id)
            if run is None or run.status != "completed":
                self.lost += 1
                raise Violation(f"run {run_id} gave a result, and the log has none")
            require(digest(run.result_json) == told, f"run {run_id} gave another result than the log has")
            self.results.setdefault(run_id, told)

    def _check_steered(self, said: Said, after: History) -> None:
        """What somebody was told is decided, sent or stopped, is in the log for good."""
        for run_id, key, outcome in said.decided:
            gate = _step(after, run_id, key) or StepHistory(0, key, *("",) * 4, 0, 0, 0, 0, "", 0)
            got = json.loads(gate.result_json)[0] if gate.status == "completed" else ""
            self._require_kept(got == outcome, f"gate {key} of {run_id} was {outcome}; the log has {got!r}")
        for (run_id, name, value), count in Counter(said.sent).items():
            run = after.runs[run_id]
            same = [one for one in run.signals.values() if (one.name, digest(one.json)) == (name, value)]
            self._require_kept(len(same) >= count, f"signal {name} was sent to {run_id} and is not there")
        for run_id, status in said.stopped:
            what = "RunPaused" if status == "paused" else "RunCancelled"
            there = any(event.type == what for event in after.runs[run_id].events)
            self._require_kept(there, f"run {run_id} was {status}; the log has no {what}")

    def _require_kept(self, holds: bool, what: str) -> None:
        self.lost += not holds
        require(holds, what)

    def _check_bodies(self, place: Place, said: Said, before: History, after: History, most: int) -> None:
        """Bodies that began in this life and the ends that it recorded: `most` may have been cut off."""
        run_id, key = place
        planned = run_id in self.plan and key.partition("@")[0] in self.plan[run_id].steps
        require(planned, f"{place}: nobody planned it")
        past = _step(before, run_id, key)
        if past is not None and past.status in ("completed", "failed"):
            raise Violation(f"step {key} of {run_id} began, although it had {past.status} before this life")
        known = place in self.happened
        require(not known, f"step {key} of {run_id} began after its hook said that it had happened")
        began, ended = said.began[place], said.ended[place]
        require(ended <= began, f"{place} ended {ended} times and began {began} times")
        now = _step(after, run_id, key)
        recorded = (now.by_body if now else 0) - (past.by_body if past else 0)
        cut = began - recorded
        require(
            0 <= cut <= most,
            f"step {key} of {run_id} began {began} times in one life, which recorded {recorded} ends"
            + (f"; at most {most} can have been cut off" if most else ", and was not cut off"),
        )
        self.begun[place] += began
        self.cut_off[place] += cut

    def _check_new_ends(self, said: Said, before: History, after: History) -> None:
        """No end without a body that said so."""
        for run_id, run in after.runs.items():
            silent = self.plan[run_id].silent if run_id in self.plan else frozenset()
            for step in run.steps.values():
                if step.generation != step.origin or step.key in silent or step.kind == "sleep":
                    continue
                key = place(step.key, step.origin)
                past = _step(before, run_id, key)
                recorded = step.by_body - (past.by_body if past else 0)
                require(
                    recorded <= said.ended[run_id, key],
                    f"step {step.key} of {run_id}: the log has an end that no body came to in this life",
                )

    def _check_once(self, after: History) -> None:
        for run_id, plan in self.plan.items():
            for key in plan.once - plan.silent:
                begun = self.begun[run_id, key]
                if not begun:
                    continue
                step = _step(after, run_id, key)
                require(step is not None, f"once step {key} of {run_id} began, and the log does not know")
                assert step is not None
                require(step.effect == "once", f"step {key} of {run_id} is recorded as {step.effect}")
                require(
                    begun <= step.intents,
                    f"once step {key} of {run_id} began {begun} times on {step.intents} synced intents",
                )
                require(
                    begun <= 1 + step.again,
                    f"once step {key} of {run_id} began {begun} times; the log allowed {1 + step.again}",
                )

    def _check_end(self, run_id: str, plan: RunPlan) -> None:
        """A run that is to end otherwise than with a result."""
        if plan.status == "archived":
            require(run_id in self.last.archived, f"run {run_id} is not archived")
            return
        run = self.last.runs.get(run_id)
        status = run.status if run else "deleted" if run_id in self.last.deleted else "not there"
        if status == plan.status == "deleted":
            return
        require(status == plan.status, f"run {run_id} is {status}, not {plan.status}")
        keys = {step.key for step in run.live_steps()} if run else set()
        require(keys <= set(plan.steps), f"run {run_id}: other steps than planned: {keys - set(plan.steps)}")

    def _check_attention(self, run_id: str) -> bool:
        """A run that has not completed shows the `once` step that was cut off, in itself or in a child."""
        run = self.last.runs.get(run_id)
        if run is None:
            waits = any(self._waits(other) for other in self.plan)
            require(waits, f"run {run_id} is not there after a life without faults")
            return True
        if run.status == "pending":
            raise Violation(f"run {run_id} is pending after a life without faults")
        require(run.status == "needs_attention", f"run {run_id} is {run.status} ({run.error or run.reason})")
        step = run.step(run.attention_step)
        require(step is not None, f"run {run_id} needs attention at {run.attention_step!r}, no step of it")
        assert step is not None
        if step.kind == "child":
            require(
                self._waits(step.child), f"run {run_id} blames its child {step.child}, which needs nobody"
            )
        else:
            require(step.status == "in_doubt", f"run {run_id} blames {step.key}, which is {step.status}")
            require(step.key in self.plan[run_id].once, f"step {step.key} of {run_id} is no once step")
        return True

    def _waits(self, run_id: str) -> bool:
        run = self.last.runs.get(run_id)
        return run is not None and run.status == "needs_attention"

    def _check_complete(self, run: RunHistory, plan: RunPlan) -> None:
        keys = {step.key for step in run.live_steps()} - plan.given_up
        require(keys == set(plan.steps), f"run {run.id}: other steps than planned: {keys ^ set(plan.steps)}")
        for key in plan.given_up:
            wait = run.step(key)
            done = wait is not None and wait.status not in ("waiting", "abandoned")
            require(not done, f"wait {key} of {run.id} was not given up")
        marks = {key for generation, key in run.marks if generation == run.generation}
        require(
            marks == set(plan.marks), f"run {run.id}: other marks than planned: {marks ^ set(plan.marks)}"
        )
        for key in plan.steps:
            step = run.step(key)
            assert step is not None
            expected = "failed" if key in plan.fails else "completed"
            require(step.status == expected, f"step {key} of {run.id} is {step.status} in a completed run")
            require(
                step.failures in plan.failures.get(key, range(1)),
                f"step {key} of {run.id} failed {step.failures} times",
            )
            if key in plan.silent:
                continue
            named = place(key, step.origin)
            begun, cut = self.begun[run.id, named], self.cut_off[run.id, named]
            first = _step(self.first, run.id, named)
            ends = step.by_body - (first.by_body if first else 0)
            require(
                begun == ends + cut, f"step {key} of {run.id} began {begun} times: {ends} ends, {cut} cut off"
            )


def place(key: str, generation: int) -> str:
    """How lines name a step: by its key, and by its generation if that is not the first."""
    return f"{key}@{generation}" if generation else key


def _step(history: History, run_id: str, named: str) -> StepHistory | None:
    run = history.runs.get(run_id)
    key, _, generation = named.partition("@")
    return run.steps.get((int(generation or 0), key)) if run else None


def whole_lines(data: bytes) -> list[str]:
    """The lines of a pipe whose writer was killed: what follows the last line feed was not said."""
    return data.decode(errors="replace").split("\n")[:-1]


def said_of(lines: Sequence[str], verb: str) -> list[str]:
    """The rest of every line that begins with this verb."""
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{verb} ")]
