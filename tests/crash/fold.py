"""Events become histories: what a log tells, one event after the other.

Shares no code with the engine; docs/formats.md and docs/states.md say what events mean. One that cannot
follow those before it is a `Violation`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.crash.history import (
    ENDED,
    Event,
    Mark,
    OperationHistory,
    RunHistory,
    Signal,
    Stand,
    StepHistory,
    Violation,
    canonical,
    canonical_text,
    require,
)

_BY_OWNER = frozenset(
    "StepStarted StepCompleted StepRan StepAttemptFailed StepFailed SleepStarted SleepEnded ValueRecorded "
    "OutputCaptured GateOpened CheckpointTaken Emitted PatchSeen StageEntered RunNeedsAttention RunCompleted "
    "RunFailed RunReleased CancelRequested PauseRequested WaitAbandoned OutcomeDelivered TimerFired "
    "StepMeasured OutcomeReported EvidenceWritten".split()
)
"""What only the owner writes, or others write to an owner."""
_AFTER_END = frozenset(
    "StepReopened RunReopened FilesForgotten Rewound GenerationRestored StepInDoubt StepSettled "
    "EvidenceVerified".split()
)
_STARTABLE = ("running", "retrying", "reopened")
_ENDED_STEPS = ("completed", "failed", "abandoned")
_GOING = ("pending", "running", "waiting", "sleeping")


class Fold:
    """One run's events become its history."""

    def __init__(self, run_id: str, blobs: dict[str, str]) -> None:
        self.run = RunHistory(run_id)
        self.blobs = blobs
        self.event = Event(0, 0, "", 0, {}, b"", 0)
        self.copying = False
        """The event is a copy of another run's."""
        self.saved = ("", "")
        """Place and key of the last snapshot of its files."""

    def fold(self, events: list[Event]) -> RunHistory:
        run = self.run
        run.events = events
        forked = next((n for n, event in enumerate(events) if event.type == "RunForked"), 0)
        run.copied = events[1:forked]
        for n, event in enumerate(events):
            self.event, self.copying = event, 0 < n < forked
            self.require((event.version == 1) == (event.type == "RunCreated"), "a run begins with RunCreated")
            if run.status in ENDED:
                allowed = event.type in _AFTER_END
                self.require(allowed, f"nothing follows a run that is {run.status}")
            if event.type in _BY_OWNER:
                self.require(run.owner or self.copying, "the run has no owner")
            apply = getattr(self, f"on_{event.type}", None)
            self.require(apply is not None, "an event of an unknown type")
            apply(event.payload)  # type: ignore[misc]
        self.check_signals()
        return run

    def require(self, holds: object, what: str) -> None:
        require(holds, f"run {self.run.id}, version {self.event.version}, {self.event.type}: {what}")

    def value(self, payload: dict[str, Any], field: str = "result") -> str:
        blob = payload.get("blob")
        if blob:
            self.require(blob in self.blobs, f"its large value {blob[:12]} is missing")
            return canonical_text(self.blobs[blob])
        return canonical(payload[field]) if field in payload else ""

    def generation(self, payload: dict[str, Any]) -> int:
        """The present one, of which the event must be."""
        of, now = payload.get("generation", 0), self.run.generation
        self.require(of == now, f"it is of another generation, {of} and not {now}")
        return now

    def step(self, payload: dict[str, Any], *statuses: str) -> StepHistory:
        """The step that the event speaks of, changed by it."""
        key = payload["key"]
        self.generation(payload)
        step = self.run.step(key)
        if step is None:
            raise Violation(f"run {self.run.id}, version {self.event.version}: step {key} never started")
        self.require(step.status in statuses, f"step {key} is {step.status}")
        attempt = payload.get("attempt", 1 if self.event.type in ("StepCompleted", "StepFailed") else None)
        if attempt is not None:
            self.require(attempt == step.attempt, f"attempt {attempt} of {key}, which is at {step.attempt}")
        step.version = self.event.version
        return step

    def new_step(self, key: str, **columns: Any) -> StepHistory:
        at = (self.run.generation, key)
        self.require(at not in self.run.steps and at not in self.run.marks, f"step {key} is not new")
        plain = {
            "kind": "step",
            "effect": "idempotent",
            "attempt": 1,
            "ended_at": 0,
            "due_at": 0,
            "child": "",
        }
        new = {**plain, "started_at": self.event.time, "version": self.event.version, **columns}
        step = self.run.steps[at] = StepHistory(self.run.generation, key, origin=self.run.generation, **new)
        return step

    def mark(self, kind: str, payload: dict[str, Any], json: str = "") -> None:
        at = (self.generation(payload), payload["key"])
        self.require(at not in self.run.steps and at not in self.run.marks, f"{at[1]} is recorded already")
        self.run.marks[at] = Mark(kind, self.event.version, json)

    def end(self, step: StepHistory, status: str, *, by_body: bool = True) -> None:
        step.status, step.ended_at, step.synced = status, self.event.time, bool(self.event.synced)
        step.by_body += by_body
        if status == "completed":
            step.successes += 1
            self.require(step.successes == 1, f"step {step.key} succeeded twice")

    def go(self) -> None:
        """What holds the run up has changed: its gates, its sleeps, its owner."""
        run = self.run
        if any(step.status == "waiting" for step in run.live_steps()):
            run.status = "waiting"
        elif run.sleepers:
            run.status = "sleeping"
        else:
            run.status = "running" if run.owner else "pending"

    # Runs

    def on_RunCreated(self, payload: dict[str, Any]) -> None:
        run = self.run
        run.workflow, run.status = payload["code"]["name"], "pending"
        run.parent, run.created_at = payload.get("parent", ""), self.event.time

    def fence(self, payload: dict[str, Any]) -> None:
        epoch, last = payload["epoch"], self.run.epoch
        self.require(epoch == last + 1, f"epoch {epoch} after {last}")
        self.run.epoch = epoch

    def on_RunClaimed(self, payload: dict[str, Any]) -> None:
        run = self.run
        self.fence(payload)
        took = payload.get("took_over", "")
        self.require(took == run.owner, f"it took the run over from {took!r}, whose owner was {run.owner!r}")
        self.require(payload["owner"] not in ("", run.owner), f"{payload['owner']!r} claims what it has")
        self.require(not run.cancel, "somebody continues a run that was to be cancelled")
        run.epochs.append(payload["epoch"])
        run.owners.append(payload["owner"])
        run.owner = payload["owner"]
        run.reason = run.cause = run.attention_step = ""
        self.go()

    def on_RunReleased(self, payload: dict[str, Any]) -> None:
        run, waits = self.run, payload.get("waits", "")
        self.require(payload["owner"] == run.owner, f"released by {payload['owner']}, not its owner")
        run.owner = ""
        if waits == "pending" or (waits and run.status in ("pending", "running")):
            run.status = waits

    def on_RunReopened(self, payload: dict[str, Any]) -> None:
        self.require(self.run.status in ("failed", "cancelled"), f"the run is {self.run.status}")
        self.run.status, self.run.error, self.run.ended_at = "running", "", 0

    def on_RunNeedsAttention(self, payload: dict[str, Any]) -> None:
        run = self.run
        run.status, run.cause, run.reason = "needs_attention", payload["cause"], payload["reason"]
        run.attention_step = payload.get("step", "")

    def on_RunCompleted(self, payload: dict[str, Any]) -> None:
        open_ones = [step.key for step in self.run.live_steps() if step.status == "in_doubt"]
        self.require(not open_ones, f"it completed with steps in doubt: {open_ones}")
        self.run.status, self.run.owner, self.run.result_json = "completed", "", self.value(payload)
        self.run.ended_at = self.event.time

    def on_RunFailed(self, payload: dict[str, Any]) -> None:
        error = payload["error"]
        self.run.status, self.run.owner, self.run.ended_at = "failed", "", self.event.time
        self.run.error = f"{error['type']}: {error.get('message', '')}"

    def on_RunCancelled(self, payload: dict[str, Any]) -> None:
        self.run.status, self.run.owner, self.run.reason = "cancelled", "", payload.get("reason", "")
        self.run.cancel, self.run.ended_at = False, self.event.time

    def on_CancelRequested(self, payload: dict[str, Any]) -> None:
        self.require(not self.run.cancel, "it was asked for already")
        self.run.cancel = True

    def on_PauseRequested(self, payload: dict[str, Any]) -> None:
        self.require(self.run.status != "paused", "it is paused already")

    def on_RunPaused(self, payload: dict[str, Any]) -> None:
        self.require(self.run.status != "paused", "it is paused already")
        self.run.status, self.run.owner, self.run.reason = "paused", "", payload.get("reason", "")

    # Generations

    def leave(self) -> None:
        """Whoever executed the run in the present generation is fenced off."""
        run = self.run
        run.left[run.generation] = Stand(*(getattr(run, name) for name in Stand._fields))
        self.fence(self.event.payload)
        run.owner = ""

    def enter(self, generation: int, stand: Stand) -> None:
        run = self.run
        run.generation = generation
        for name, value in stand._asdict().items():
            setattr(run, name, value)
        run.sleepers = sum(step.status == "sleeping" for step in run.live_steps())
        run.stage = next((name for at, _, name in reversed(run.stages()) if at == generation), "")

    def on_Rewound(self, payload: dict[str, Any]) -> None:
        run = self.run
        opened, parent, upto = payload["generation"], payload["parent"], payload["version"]
        self.require(opened == 1 + max([run.generation, *run.left]), "not the next generation")
        self.require(parent == run.generation, f"from generation {parent}, not from {run.generation}")
        points = [step for step in run.live_steps() if step.version == upto]
        ended = [step for step in points if step.status in _ENDED_STEPS]
        self.require(ended, f"back to version {upto}, at which no step of this generation ended")
        self.leave()
        for (generation, key), step in list(run.steps.items()):
            if generation == parent and step.version <= upto:
                run.steps[opened, key] = replace(step, generation=opened, ran=False)
        for (generation, key), mark in list(run.marks.items()):
            if generation == parent and mark.version <= upto:
                run.marks[opened, key] = mark
        for (generation, version), signal in list(run.signals.items()):
            if generation == parent and version <= upto:
                kept = (opened, signal.taken_by) in run.steps
                run.signals[opened, version] = signal if kept else signal._replace(taken_by="")
        self.enter(opened, Stand("paused", "rewound", "", "", 0, "", "", False))

    def on_GenerationRestored(self, payload: dict[str, Any]) -> None:
        run, restored = self.run, payload["generation"]
        self.require(restored != run.generation, f"generation {restored} is the present one")
        self.require(restored in run.left, f"generation {restored} was never left")
        stand = run.left[restored]
        self.leave()
        self.enter(restored, stand)

    def on_RunForked(self, payload: dict[str, Any]) -> None:
        run = self.run
        self.require(not run.epochs and not run.forked_from, "it is no new run")
        run.forked_from = payload["origin"]
        run.status, run.reason = "paused", f"forked from {payload['origin']}"
        open_ones = [step.key for step in run.live_steps() if step.status not in _ENDED_STEPS]
        self.require(not open_ones, f"it has steps that had not ended: {open_ones}")
        for step in run.steps.values():
            step.by_body = 0  # by bodies of the other run

    # Steps

    def on_StepStarted(self, payload: dict[str, Any]) -> None:
        key, attempt = payload["key"], payload.get("attempt", 1)
        if payload.get("effect") == "workspace":
            self.require(self.saved == ("before", key), f"{key} begins, and its files were not saved before")
        if self.run.step(key) is None:
            self.require(attempt == 1, f"step {key} begins with attempt {attempt}")
            step = self.new_step(
                key,
                name=payload["name"],
                kind=payload.get("kind", "step"),
                effect=payload.get("effect", "idempotent"),
                status="running",
                child=payload.get("child", ""),
            )
        else:
            step = self.step({**payload, "attempt": None}, *_STARTABLE)
            cut_off = step.status == "running"
            self.require(
                not (cut_off and step.effect == "once"), f"once step {key} begins again, cut off or not"
            )
            self.require(attempt == step.attempt + 1, f"attempt {attempt} of {key} follows {step.attempt}")
            step.again += 1
            step.attempts += 1
            step.status, step.attempt = "running", attempt
            step.started_at, step.ended_at, step.due_at = self.event.time, 0, 0
        step.intents += bool(self.event.synced)

    def on_StepRan(self, payload: dict[str, Any]) -> None:
        self.generation(payload)
        started = payload["started_at"]
        step = self.new_step(
            payload["key"], name=payload["name"], status="running", started_at=started, ran=True
        )
        self.end(step, "completed")
        step.result_json = self.value(payload)

    def on_StepCompleted(self, payload: dict[str, Any]) -> None:
        step = self.step(payload, "running")
        self.end(step, "completed")
        step.result_json = self.value(payload)

    def on_StepMeasured(self, payload: dict[str, Any]) -> None:
        """What was used was used, whatever became of the step."""
        self.generation(payload)
        step = self.run.step(payload["key"])
        self.require(step is not None and 0 < payload["attempt"] <= step.attempt, "no such attempt has begun")

    def on_StepAttemptFailed(self, payload: dict[str, Any]) -> None:
        step = self.step(payload, "running")
        self.end(step, "retrying")
        step.due_at = payload["retry_at"]
        step.failures += 1

    def on_StepFailed(self, payload: dict[str, Any]) -> None:
        step = self.step(payload, "running")
        self.end(step, "failed")
        step.failures += 1

    def on_StepReopened(self, payload: dict[str, Any]) -> None:
        step = self.step(payload, "failed", "running")
        self.require(step.status == "failed" or step.kind == "child", f"{step.key} had not failed")
        step.status = "reopened"

    def on_StepInDoubt(self, payload: dict[str, Any]) -> None:
        step = self.step(payload, "running")
        self.require(step.effect == "once", f"{step.effect} step {step.key} cannot be in doubt")
        step.status = "in_doubt"

    def on_StepSettled(self, payload: dict[str, Any]) -> None:
        run, step = self.run, self.step(payload, "in_doubt")
        if payload["outcome"] == "retry":
            step.status = "reopened"
        else:
            done = payload["outcome"] == "done"
            self.end(step, "completed" if done else "failed", by_body=False)
            step.result_json = self.value(payload)
        doubtful = any(at[0] == run.generation and one.status == "in_doubt" for at, one in run.steps.items())
        if run.status == "needs_attention" and run.cause == "in_doubt" and not doubtful:
            run.status = "running"
            run.reason = run.cause = run.attention_step = ""

    def on_SleepStarted(self, payload: dict[str, Any]) -> None:
        self.generation(payload)
        step = self.new_step(payload["key"], name="sleep", kind="sleep", status="sleeping")
        step.due_at = payload["until"]
        self.run.sleepers += 1
        self.go()

    def on_SleepEnded(self, payload: dict[str, Any]) -> None:
        self.end(self.step(payload, "sleeping"), "completed", by_body=False)
        self.run.sleepers -= 1
        if self.run.status in _GOING:
            self.go()

    def on_WaitAbandoned(self, payload: dict[str, Any]) -> None:
        run, before = self.run, self.run.step(payload["key"])
        slept = before is not None and before.status == "sleeping"
        wait = self.step(payload, "sleeping", "waiting", "completed", "retrying")
        waits = wait.kind in ("sleep", "approval", "signal") or wait.status == "retrying"
        self.require(waits, f"{wait.key} is a {wait.kind}, {wait.status}")
        wait.status, wait.ended_at, wait.due_at = "abandoned", self.event.time, 0
        run.sleepers -= slept
        for at, signal in run.signals.items():
            if at[0] == run.generation and signal.taken_by == wait.key:
                run.signals[at] = signal._replace(taken_by="")
        if run.status in _GOING:
            self.go()

    def on_OutcomeDelivered(self, payload: dict[str, Any]) -> None:
        self.generation(payload)
        gate = self.run.step(payload["key"])
        known = gate is not None and gate.kind in ("approval", "signal")
        self.require(known, f"{payload['key']} is no gate")

    def on_TimerFired(self, payload: dict[str, Any]) -> None:
        self.generation(payload)
        self.require(0 < payload["first"] <= payload["last"], f"timers {payload}")

    def on_CheckpointTaken(self, payload: dict[str, Any]) -> None:
        self.generation(payload)
        step = self.new_step(payload["key"], name=payload["name"], kind="checkpoint", status="running")
        self.end(step, "completed", by_body=False)
        step.result_json = self.value(payload, "data")

    def on_FilesSaved(self, payload: dict[str, Any]) -> None:
        self.generation(payload)
        known = ("start", "before", "brought", "after", "taken_back", "stop")
        self.require(payload["place"] in known, f"files saved {payload['place']!r}")
        self.require(len(bytes.fromhex(payload["snapshot"])) == 32, "a snapshot that is no SHA-256")
        if payload["place"] == "after":
            step = self.run.step(payload["key"])
            running = step is not None and step.status == "running"
            self.require(running, f"files saved after {payload['key']}, which does not run")
        self.saved = (payload["place"], payload.get("key", ""))

    def on_FilesForgotten(self, payload: dict[str, Any]) -> None:
        self.require(self.run.status in ENDED, "files of a run that continues are forgotten")

    def on_ValueRecorded(self, payload: dict[str, Any]) -> None:
        self.mark("value", payload, canonical(payload["value"]))

    def on_StageEntered(self, payload: dict[str, Any]) -> None:
        self.mark("stage", payload, payload["name"])
        self.run.stage = payload["name"]

    def on_OutcomeReported(self, payload: dict[str, Any]) -> None:
        self.mark("outcome", payload, canonical([payload["chosen"], payload["ok"]]))

    def on_EvidenceWritten(self, payload: dict[str, Any]) -> None:
        known = self.run.step(payload["key"])
        self.require(known is None, f"evidence of {payload['key']}, which was reached before")
        self.require(payload["blob"] in self.blobs, "the document is not in the store")

    def on_PatchSeen(self, payload: dict[str, Any]) -> None:
        self.mark("patch", payload)

    def on_Emitted(self, payload: dict[str, Any]) -> None:
        if payload.get("key"):
            self.mark("emit", payload, canonical(payload["value"]))
            return
        step = self.run.steps.get((self.generation(payload), payload["step"]))
        self.require(step is None or step.status == "running", f"step {payload['step']} has ended")

    def on_OutputCaptured(self, payload: dict[str, Any]) -> None:
        before = self.run.step(payload["key"])
        version = before.version if before else 0
        step = self.step(payload, "running")
        self.require(step.kind == "command", f"output of {step.key}, which is a {step.kind}")
        step.version = version  # output is no change of its step

    # Gates and signals

    def on_GateOpened(self, payload: dict[str, Any]) -> None:
        self.generation(payload)
        self.require(payload["kind"] in ("approval", "signal"), f"a gate that is a {payload['kind']}")
        self.require(
            bool(payload.get("digest")) == (payload["kind"] == "approval"),
            "an approval has the digest of what it shows, a signal's gate has none",
        )
        self.value(payload, "show")
        self.new_step(
            payload["key"],
            name=payload["name"],
            kind=payload["kind"],
            status="waiting",
            due_at=payload.get("until", 0),
        )
        self.go()

    def on_GateDecided(self, payload: dict[str, Any]) -> None:
        run, outcome = self.run, payload["outcome"]
        gate = self.step(payload, "waiting")
        if outcome in ("approved", "rejected"):
            self.require(gate.kind == "approval", f"{gate.key} waits for a signal, and was {outcome}")
            decided = [outcome, payload.get("by", ""), payload.get("comment", ""), self.event.time]
            gate.result_json = canonical(decided)
        elif outcome == "received":
            self.require(gate.kind == "signal", f"{gate.key} waits for a decision, not for a signal")
            gate.result_json = self.value(payload, "value")
            self.take(gate, payload.get("signal", 0))
        else:
            self.require(outcome == "unanswered", f"outcome {outcome!r}")
            self.require(run.owner or self.copying, "nobody executes the run")
            over = 0 < gate.due_at <= self.event.time
            self.require(over, f"the time of {gate.key} is not over: until {gate.due_at}")
            gate.result_json = canonical([outcome, "", "", self.event.time])
        gate.due_at = 0
        self.end(gate, "completed", by_body=False)
        if run.status in _GOING:
            self.go()
            if not run.owner:
                run.status = "pending"

    def take(self, gate: StepHistory, version: int) -> None:
        """A signal is taken by one gate, of its name, with its value."""
        signal = self.run.signals.get((self.run.generation, version))
        if signal is None:
            raise Violation(
                f"run {self.run.id}, version {self.event.version}: no signal at version {version}"
            )
        self.require(signal.name == gate.name, f"{gate.key} takes a signal of the name {signal.name}")
        self.require(not signal.taken_by, f"signal {signal.name} was taken by {signal.taken_by} before")
        self.require(signal.json == gate.result_json, f"{gate.key} has another value than its signal")
        earlier = [
            other
            for (generation, at), other in self.run.signals.items()
            if generation == self.run.generation and at < version and other.name == signal.name
        ]
        self.require(all(one.taken_by for one in earlier), f"an earlier signal {signal.name} is left out")
        self.run.signals[self.run.generation, version] = signal._replace(taken_by=gate.key)

    def on_SignalReceived(self, payload: dict[str, Any]) -> None:
        at = (self.run.generation, self.event.version)
        self.run.signals[at] = Signal(payload["name"], self.value(payload, "value"))

    def check_signals(self) -> None:
        """No gate waits for a signal that is there: neither may miss the other."""
        waiting = {
            step.name for step in self.run.live_steps() if (step.kind, step.status) == ("signal", "waiting")
        }
        for (generation, version), signal in self.run.signals.items():
            if generation == self.run.generation and not signal.taken_by:
                self.require(
                    signal.name not in waiting,
                    f"a gate waits for {signal.name}, which came at version {version}",
                )


# Operations

_STATE = ["OperationBegun", "StateApplied", "OperationDone"]
_FILES = ["OperationBegun", "FilesPlanned", "FilesApplied", "OperationDone"]
_BOTH = ["OperationBegun", "FilesPlanned", "FilesApplied", "StateApplied", "OperationDone"]
_NEITHER = ["OperationBegun", "OperationDone"]
_DROPPED = ["OperationBegun", "FilesPlanned", "OperationDropped"]
_STAGES = {"rewind": (_STATE, _BOTH, _DROPPED), "undo": (_STATE, _FILES, _BOTH, _NEITHER, _DROPPED)}
_STAGES["restore"] = (_FILES, _NEITHER, _DROPPED)
_STAGES["edit"] = (_NEITHER,)
_STAGES["delete"] = (["OperationBegun", "ItemsDeleted", "OperationDone"],)
_STAGES["undo"] += (*_STAGES["delete"], ["OperationBegun", "ItemsRestored", "OperationDone"])
_PARTS = ("Git", "TasksApplied", "LinksApplied", "MemoryApplied")
"""Stages that any operation may have; `tests.crash.tracker` looks at them."""


def fold_operation(stream: str, events: list[Event]) -> OperationHistory:
    """An operation has all its stages when everybody has ended: those on the state alone are one transaction,
    and what was cut off was finished or dropped by whoever came next."""
    found = [event.type for event in events if not event.type.startswith(_PARTS)]
    begun = events[0].payload
    kind = begun.get("kind", "")
    require(kind in _STAGES, f"operation {stream}: of the kind {kind!r}")
    require(found in _STAGES[kind], f"operation {stream}: {found}, of the kind {kind}")
    applied = next((event.payload for event in events if event.type == "StateApplied"), {})
    return OperationHistory(
        kind=kind,
        run=begun.get("run", ""),
        person=begun.get("by", ""),
        target=begun.get("to", ""),
        undoes=begun.get("undoes", ""),
        left_generation=applied.get("left", -1),
        opened_generation=applied.get("opened", -1),
        status="dropped" if found[-1] == "OperationDropped" else "done",
        begun_at=events[0].time,
        id=stream.partition("/")[2],
    )
