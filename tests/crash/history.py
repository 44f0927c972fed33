"""What a store's log tells: runs, steps, owners, folded from its events.

Shares no code with the engine. An event that cannot follow those before it is a `Violation`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

ENDED = ("completed", "failed", "cancelled")


class Violation(AssertionError):
    """An invariant does not hold."""


def require(holds: object, what: str) -> None:
    if not holds:
        raise Violation(what)


# What a store holds


class Event(NamedTuple):
    position: int
    version: int
    type: str
    time: int
    payload: dict[str, Any]
    hash: bytes
    synced: int


@dataclass
class StepHistory:
    """A step of one generation, as the log tells it. The first fields are its row in the tables."""

    generation: int
    key: str
    name: str
    kind: str
    effect: str
    status: str
    attempt: int
    started_at: int
    ended_at: int
    due_at: int
    child: str
    version: int
    ran: bool = False
    """It is one `StepRan`, which has no row of its own."""
    attempts: int = 1
    intents: int = 0
    """Attempts that the log had, on the disk, before their bodies could begin."""
    successes: int = 0
    failures: int = 0
    by_body: int = 0
    """Ends (successes and failures) that a body brought about: not a settlement."""
    again: int = 0
    """How often the log allows a step that had begun to begin once more."""
    result_json: str = ""
    synced: bool = False
    """The commit of its end waited for the disk."""


@dataclass
class RunHistory:
    """A run, as the log tells it."""

    id: str
    workflow: str = ""
    status: str = ""
    reason: str = ""
    cause: str = ""
    attention_step: str = ""
    owner: str = ""
    generation: int = 0
    sleepers: int = 0
    parent: str = ""
    created_at: int = 0
    result_json: str = ""
    error: str = ""
    steps: dict[tuple[int, str], StepHistory] = field(default_factory=dict)
    values: dict[tuple[int, str], str] = field(default_factory=dict)
    """What `now`, `random` and `uuid` gave, as JSON."""
    epochs: list[int] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def step(self, key: str) -> StepHistory | None:
        """The step of the present generation."""
        return self.steps.get((self.generation, key))


@dataclass
class History:
    """A whole store. Empty if there was no store yet."""

    runs: dict[str, RunHistory] = field(default_factory=dict)
    schema: int = 0
    last_synced: int = 0
    """The position of the last event whose commit waited for the disk."""


def canonical(value: object) -> str:
    """One text per JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@lru_cache(32)
def _canonical_text(text: str) -> str:
    """The same of a JSON text: large values come again and again."""
    return canonical(json.loads(text))


def digest(text: str) -> str:
    """What side lines say of a value."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# From events to histories

_NEEDS_OWNER = frozenset(
    "StepStarted StepCompleted StepRan StepAttemptFailed StepFailed SleepStarted SleepEnded ValueRecorded "
    "OutputCaptured RunNeedsAttention RunCompleted RunFailed RunReleased".split()
)
_AFTER_END = frozenset("StepReopened RunReopened Rewound StepInDoubt StepSettled".split())
_STARTABLE = ("running", "retrying", "reopened")


class Fold:
    """One run's events become its history; an event that cannot follow is a violation."""

    def __init__(self, run_id: str, blobs: dict[str, str]) -> None:
        self.run = RunHistory(run_id)
        self.blobs = blobs
        self.event = Event(0, 0, "", 0, {}, b"", 0)

    def fold(self, events: list[Event]) -> RunHistory:
        run = self.run
        run.events = events
        for event in events:
            self.event = event
            self.require((event.version == 1) == (event.type == "RunCreated"), "a run begins with RunCreated")
            if run.status in ENDED:
                allowed = event.type in _AFTER_END
                self.require(allowed, f"nothing follows a run that is {run.status}")
            if event.type in _NEEDS_OWNER:
                self.require(run.owner, "the run has no owner")
            apply = getattr(self, f"on_{event.type}", None)
            self.require(apply is not None, "an event of an unknown type")
            apply(event.payload)  # type: ignore[misc]
        return run

    def require(self, holds: object, what: str) -> None:
        require(holds, f"run {self.run.id}, version {self.event.version}, {self.event.type}: {what}")

    def value(self, payload: dict[str, Any]) -> str:
        blob = payload.get("blob")
        if blob:
            self.require(blob in self.blobs, f"its large value {blob[:12]} is missing")
            return _canonical_text(self.blobs[blob])
        return canonical(payload["result"]) if "result" in payload else ""

    def step(self, payload: dict[str, Any], *statuses: str) -> StepHistory:
        """The step that the event speaks of, changed by it."""
        key = payload["key"]
        self.require(
            payload.get("generation", 0) == self.run.generation,
            f"step {key} of generation {payload.get('generation', 0)} in generation {self.run.generation}",
        )
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
        self.require(at not in self.run.steps and at not in self.run.values, f"step {key} is not new")
        plain = {
            "kind": "step",
            "effect": "idempotent",
            "attempt": 1,
            "ended_at": 0,
            "due_at": 0,
            "child": "",
        }
        new = {**plain, "started_at": self.event.time, "version": self.event.version, **columns}
        step = self.run.steps[at] = StepHistory(self.run.generation, key, **new)
        return step

    def end(self, step: StepHistory, status: str, *, by_body: bool = True) -> None:
        step.status, step.ended_at, step.synced = status, self.event.time, bool(self.event.synced)
        step.by_body += by_body
        if status == "completed":
            step.successes += 1
            self.require(step.successes == 1, f"step {step.key} succeeded twice")

    # Runs

    def on_RunCreated(self, payload: dict[str, Any]) -> None:
        run = self.run
        run.workflow, run.status = payload["code"]["name"], "pending"
        run.parent, run.created_at = payload.get("parent", ""), self.event.time

    def on_RunClaimed(self, payload: dict[str, Any]) -> None:
        run = self.run
        last = run.epochs[-1] if run.epochs else 0
        self.require(payload["epoch"] == last + 1, f"epoch {payload['epoch']} after {last}")
        took = payload.get("took_over", "")
        self.require(took == run.owner, f"it took the run over from {took!r}, whose owner was {run.owner!r}")
        self.require(payload["owner"] not in ("", run.owner), f"{payload['owner']!r} claims what it has")
        run.epochs.append(payload["epoch"])
        run.owners.append(payload["owner"])
        run.owner = payload["owner"]
        run.reason = run.cause = run.attention_step = ""
        if run.status != "sleeping":
            run.status = "running"

    def on_RunReleased(self, payload: dict[str, Any]) -> None:
        self.require(payload["owner"] == self.run.owner, f"released by {payload['owner']}, not its owner")
        self.run.owner = ""

    def on_RunReopened(self, payload: dict[str, Any]) -> None:
        self.require(self.run.status in ("failed", "cancelled"), f"the run is {self.run.status}")
        self.run.status, self.run.error = "running", ""

    def on_RunNeedsAttention(self, payload: dict[str, Any]) -> None:
        run = self.run
        run.status, run.cause, run.reason = "needs_attention", payload["cause"], payload["reason"]
        run.attention_step = payload.get("step", "")

    def on_RunCompleted(self, payload: dict[str, Any]) -> None:
        open_ones = [step.key for step in self.run.steps.values() if step.status == "in_doubt"]
        self.require(not open_ones, f"it completed with steps in doubt: {open_ones}")
        self.run.status, self.run.owner, self.run.result_json = "completed", "", self.value(payload)

    def on_RunFailed(self, payload: dict[str, Any]) -> None:
        error = payload["error"]
        self.run.status, self.run.owner = "failed", ""
        self.run.error = f"{error['type']}: {error.get('message', '')}"

    def on_RunCancelled(self, payload: dict[str, Any]) -> None:
        self.run.status, self.run.owner, self.run.reason = "cancelled", "", payload.get("reason", "")

    def on_Rewound(self, payload: dict[str, Any]) -> None:
        run = self.run
        opened, parent, upto = payload["generation"], payload["parent"], payload["version"]
        self.require(
            opened == 1 + max(at[0] for at in [*run.steps, (run.generation, "")]), "not the next generation"
        )
        for (generation, key), step in list(run.steps.items()):
            if generation == parent and step.version <= upto:
                run.steps[opened, key] = replace(step, generation=opened, ran=False)
        run.generation, run.status, run.reason, run.owner = opened, "paused", "rewound", ""
        run.result_json = run.error = ""
        run.sleepers = sum(at[0] == opened and step.status == "sleeping" for at, step in run.steps.items())

    # Steps

    def on_StepStarted(self, payload: dict[str, Any]) -> None:
        key, attempt = payload["key"], payload.get("attempt", 1)
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
        self.require(payload.get("generation", 0) == self.run.generation, "it is of another generation")
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
        self.step(payload, "failed").status = "reopened"

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
        step = self.new_step(payload["key"], name="sleep", kind="sleep", status="sleeping")
        step.due_at = payload["until"]
        self.run.status, self.run.sleepers = "sleeping", self.run.sleepers + 1

    def on_SleepEnded(self, payload: dict[str, Any]) -> None:
        self.end(self.step(payload, "sleeping"), "completed", by_body=False)
        self.run.sleepers -= 1
        if self.run.status == "sleeping" and not self.run.sleepers:
            self.run.status = "running"

    def on_ValueRecorded(self, payload: dict[str, Any]) -> None:
        at = (payload.get("generation", 0), payload["key"])
        self.require(at[0] == self.run.generation, "it is of another generation")
        self.require(at not in self.run.steps and at not in self.run.values, f"{at[1]} is recorded already")
        self.run.values[at] = canonical(payload["value"])

    def on_OutputCaptured(self, payload: dict[str, Any]) -> None:
        before = self.run.step(payload["key"])
        version = before.version if before else 0
        step = self.step(payload, "running")
        self.require(step.kind == "command", f"output of {step.key}, which is a {step.kind}")
        step.version = version  # output is no change of its step
