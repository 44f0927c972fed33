"""The state of a run, folded from its events.

Steps are not tracked by the garbage collector (they hold no cycles): with tens of thousands of them
in memory its passes took a third of the time.

A state belongs to the caller that folds it: `evolve` changes it in place and returns it, because a copy
per event would make the cost of a step grow with the length of its run.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from holdfast.kernel.events import (
    NOTHING,
    CancelRequested,
    Code,
    Effect,
    Failure,
    FilesPlace,
    GitPosition,
    PauseRequested,
    RunPaused,
    StepKind,
)
from holdfast.kernel.measures import Measured

RunStatus = Literal[
    "pending",
    "running",
    "waiting",
    "sleeping",
    "paused",
    "needs_attention",
    "completed",
    "failed",
    "cancelled",
]
StepStatus = Literal[
    "running", "retrying", "sleeping", "waiting", "completed", "failed", "in_doubt", "reopened", "abandoned"
]

ALWAYS = 1 << 62

# Of a run. Those that queries take are tuples.

STATUSES: Final[tuple[str, ...]] = get_args(RunStatus)
ENDED: Final[frozenset[str]] = frozenset({"completed", "failed", "cancelled"})
UNDONE: Final[frozenset[str]] = frozenset({"failed", "cancelled"})
"""Ended, and `resume` tries it again."""
FINAL: Final[tuple[str, ...]] = ("completed", "cancelled")
"""Ended for good: `resume` of no run follows by itself."""
HALTED: Final[frozenset[str]] = frozenset({"paused", "needs_attention"})
"""It continues only when a person resumes it."""
UNFINISHED: Final[tuple[str, ...]] = ("pending", "running", "sleeping")
"""It continues by itself: without an owner it was interrupted, unless it is parked."""
OPEN: Final[tuple[str, ...]] = (*UNFINISHED, "waiting")
"""It continues by itself, now or when a gate is decided."""
STOPPED: Final[tuple[str, ...]] = ("waiting", "paused", "needs_attention", "failed")
RESUMABLE: Final[tuple[str, ...]] = (*UNFINISHED, *STOPPED)
PARKED: Final[frozenset[str]] = frozenset({"waiting", "sleeping"})

# Of a step.

OVER: Final[frozenset[str]] = frozenset({"completed", "failed", "abandoned"})
"""Its outcome is recorded."""
UNSEEN: Final[frozenset[str]] = frozenset({"value", "emit", "patch", "stage", "outcome"})
"""Kinds that are recorded among the steps and are none to a reader."""
GATES: Final[frozenset[str]] = frozenset({"approval", "signal"})
"""Kinds that wait for a person or a program outside."""


class StepState(msgspec.Struct, gc=False):
    key: str
    name: str
    status: StepStatus
    digest: str = ""
    ordinal: int = 0
    attempt: int = 1
    failures: int = 0
    effect: Effect = "idempotent"
    kind: StepKind = "step"
    result: msgspec.Raw = NOTHING
    blob: str = ""
    secret: bool = False
    error: Failure | None = None
    started_at: int = 0
    first_started_at: int = 0
    ended_at: int = 0
    due_at: int = 0
    child: str = ""
    why: str = ""
    verifiable: bool = False
    outcome: str = ""
    """How a gate was decided, `by` whom and with which comment. Until then `result` is what it shows."""
    by: str = ""
    comment: str = ""
    version: int = 0
    delivered: int = 0
    """The version at which the code received the outcome of a gate; 0 if it has not."""
    generation: int = 0
    """The one in which it first started: its idempotency key is made of that, so that a step which had begun
    when it was taken over into another generation is tried again under the key that it may have used."""
    measured: tuple[Measured, ...] = ()
    """The usage of its attempts, one for each model."""


class Signal(msgspec.Struct, gc=False):
    """A signal that the run has received; `taken_by` is the gate that has it."""

    name: str
    value: msgspec.Raw
    blob: str
    taken_by: str = ""


class Saved(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of the run's files, and the version of the event that names it."""

    version: int
    snapshot: str
    root: str
    place: FilesPlace | Literal["checkpoint"]
    key: str = ""
    git: GitPosition | None = None
    mark: str = ""
    """Which directory the root was, wherever it has been moved since."""
    isolated: bool = False


class Fired(msgspec.Struct, frozen=True, gc=False):
    """Timers of the code's own that fired one after the other: numbers `first` to `last` of a scope."""

    scope: str
    first: int
    last: int
    version: int


class Generation(msgspec.Struct):
    """The state of a run when it left a generation; restored with that generation."""

    steps: dict[str, StepState]
    signals: dict[int, Signal]
    files: list[Saved]
    status: RunStatus
    reason: str
    cause: str
    attention_step: str
    paused: RunPaused | None
    pause: PauseRequested | None
    cancel: CancelRequested | None
    result: msgspec.Raw
    blob: str
    error: Failure | None
    failed_steps: tuple[str, ...]
    ended_at: int
    timers: list[Fired]
    loose: int


class RunState(msgspec.Struct):
    code: Code
    digest: str
    args: msgspec.Raw = NOTHING
    args_blob: str = ""
    parent: str = ""
    parent_step: str = ""
    status: RunStatus = "pending"
    stage: str = ""
    """The last one that the code has entered in this generation; empty before the first."""
    reason: str = ""
    cause: str = ""
    attention_step: str = ""
    owner: str = ""
    epoch: int = 0
    generation: int = 0
    stalls: int = 0
    """Claims since anything last moved: what counts a crash loop."""
    sleepers: int = 0
    waiters: int = 0
    """Open gates of this generation."""
    paused: RunPaused | None = None
    """The pause that holds until the run is resumed; None if it is paused because of a rewind or a fork."""
    pause: PauseRequested | None = None
    cancel: CancelRequested | None = None
    """Requests to its owner that are not done yet."""
    signals: dict[int, Signal] = {}
    """version → signal, in the order in which they came."""
    timers: list[Fired] = []
    """Timers of the code's own that fired, in their order."""
    loose: int = 0
    """The outcomes up to this version were delivered in an order that the log does not have: by an owner of
    an older holdfast, or before a failed step was tried again. `ALWAYS` while such an owner executes the
    run."""
    files: list[Saved] = []
    """The snapshots on the way to where the run is, in their order."""
    seen_at: int = 0
    """The last sign of life of an owner that died, until its changes of the files are recorded."""
    result: msgspec.Raw = NOTHING
    blob: str = ""
    error: Failure | None = None
    failed_steps: tuple[str, ...] = ()
    ended_at: int = 0
    """When it completed, failed or was cancelled; 0 if it has not ended."""
    task: str = ""
    """The task that it was started for; empty if none."""
    budget: str = ""
    """The budget that pays for its steps; empty for the default one."""
    created_at: int = 0
    begun_at: int = 0
    """When it was executed first."""
    updated_at: int = 0
    version: int = 0
    steps: dict[str, StepState] = {}
    measured: tuple[Measured, ...] = ()
    """The usage of all its steps, in every generation: a rewind refunds nothing."""
    past: dict[int, Generation] = {}
    """The generations that were put aside: any of them can be restored."""
    order: dict[tuple[str, int], str] = {}
    """(scope, ordinal) → key: which call the history has at each place."""

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def open_gates(self) -> list[StepState]:
        return [step for step in self.steps.values() if step.status == "waiting"]

    def in_doubt(self) -> list[StepState]:
        return [step for step in self.steps.values() if step.status == "in_doubt"]
