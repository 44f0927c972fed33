"""What a store's log tells: runs, their generations, steps, gates and signals, and operations on them.

Shares no code with the engine. `tests.crash.fold` makes it from events.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
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
    """What the workflow has from it. Of an approval: outcome, who, comment and time, as a list."""
    synced: bool = False
    """The commit of its end waited for the disk."""
    origin: int = -1
    """The generation in which it began, whose name its idempotency key has: a rewind takes steps over."""


class Mark(NamedTuple):
    """What is done when it is in the log: a recorded value, an emission, a patch, a stage, whose name is its
    `json`."""

    kind: str
    version: int
    json: str


class Signal(NamedTuple):
    name: str
    json: str
    taken_by: str = ""
    """The gate that has it."""


class Stand(NamedTuple):
    """How a run stood when it left a generation. The first five are its row in the tables."""

    status: str
    reason: str
    cause: str
    attention_step: str
    ended_at: int
    result_json: str
    error: str
    cancel: bool


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
    ended_at: int = 0
    stage: str = ""
    result_json: str = ""
    error: str = ""
    steps: dict[tuple[int, str], StepHistory] = field(default_factory=dict)
    marks: dict[tuple[int, str], Mark] = field(default_factory=dict)
    signals: dict[tuple[int, int], Signal] = field(default_factory=dict)
    """By generation and version."""
    left: dict[int, Stand] = field(default_factory=dict)
    """Generation → how it stood when it was last left."""
    cancel: bool = False
    """Its owner was asked to end it, and has not."""
    epoch: int = 0
    epochs: list[int] = field(default_factory=list)
    """Of its owners, one after the other."""
    owners: list[str] = field(default_factory=list)
    forked_from: str = ""
    copied: list[Event] = field(default_factory=list)
    """Of a fork: what it has from the other run."""
    events: list[Event] = field(default_factory=list)

    def stages(self) -> list[tuple[int, int, str]]:
        """Generation, version and name of every stage, in order."""
        return sorted((at[0], one.version, one.json) for at, one in self.marks.items() if one.kind == "stage")

    def step(self, key: str) -> StepHistory | None:
        """The step of the present generation."""
        return self.steps.get((self.generation, key))

    def live_steps(self) -> list[StepHistory]:
        """All of the present generation."""
        return [step for step in self.steps.values() if step.generation == self.generation]


@dataclass
class OperationHistory:
    """Something that was done to a run from outside. All but the last are its row in the tables."""

    kind: str
    run: str
    person: str
    target: str
    undoes: str
    left_generation: int = -1
    opened_generation: int = -1
    status: str = "begun"
    begun_at: int = 0
    id: str = ""


@dataclass
class History:
    """A whole store. Empty if there was no store yet."""

    runs: dict[str, RunHistory] = field(default_factory=dict)
    operations: dict[str, OperationHistory] = field(default_factory=dict)
    """By the names of their streams."""
    archived: frozenset[str] = frozenset()
    """Streams of which only a record is left."""
    deleted: frozenset[str] = frozenset()
    """Streams that are set aside."""
    tracker: Any = None
    """A `tests.crash.tracker.TrackerHistory`; None in a store that is older than tasks."""
    schema: int = 0
    last_synced: int = 0
    """The position of the last event whose commit waited for the disk."""


SPENDING = "spending"
"""The workflow whose appends have companions."""
SPENDING_TYPES = frozenset(
    {"StepRan", "StepStarted", "StepCompleted", "StepAttemptFailed", "StepFailed", "RunCompleted"}
)
"""Events that only an owner writes; what they say, a companion repeats."""


def budget_of(run_id: str) -> str:
    return f"@budget/{run_id}"


def task_of(run_id: str) -> str:
    return f"@task/{run_id}"


def canonical(value: object) -> str:
    """One text per JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@lru_cache(32)
def canonical_text(text: str) -> str:
    """The same of a JSON text: large values come again and again."""
    return canonical(json.loads(text))


def digest(text: str) -> str:
    """What side lines say of a value."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
