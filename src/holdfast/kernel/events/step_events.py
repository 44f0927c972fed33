"""Events inside a run: its steps, timers, gates, checkpoints, files, evidence and output."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

from holdfast.kernel.events.event import NOTHING, Event, Failure, GitPosition
from holdfast.kernel.measures import Measured

Effect = Literal["idempotent", "once", "workspace"]
StepKind = Literal[
    "step",
    "command",
    "child",
    "sleep",
    "value",
    "approval",
    "signal",
    "checkpoint",
    "emit",
    "patch",
    "stage",
    "outcome",
]


GateKind = Literal["approval", "signal"]
GateOutcome = Literal["approved", "rejected", "unanswered", "received"]
Isolate = Literal["copy"]
FilesPlace = Literal["start", "before", "brought", "after", "taken_back", "stop"]


class StepStarted(Event, frozen=True, gc=False):
    """The intent: an attempt begins. `ordinal` is its place among the calls of its scope."""

    key: str
    name: str
    digest: str = ""
    ordinal: int = 0
    attempt: int = 1
    effect: Effect = "idempotent"
    kind: StepKind = "step"
    generation: int = 0
    args: msgspec.Raw = NOTHING
    preview: str = ""
    size: int = 0
    child: str = ""
    no_evidence: bool = False
    """Of a command: its output is the words of an agent, on which no evidence rests."""


class StepCompleted(Event, frozen=True, gc=False):
    key: str
    result: msgspec.Raw = NOTHING
    blob: str = ""
    attempt: int = 1
    generation: int = 0
    secret: bool = False


class StepRan(Event, frozen=True, gc=False):
    """An idempotent step that began and ended between two commits: what `StepStarted` and
    `StepCompleted` say, as one. Most steps are this one event."""

    key: str
    name: str
    started_at: int
    digest: str = ""
    ordinal: int = 0
    args: msgspec.Raw = NOTHING
    preview: str = ""
    size: int = 0
    result: msgspec.Raw = NOTHING
    blob: str = ""
    generation: int = 0
    secret: bool = False


class StepAttemptFailed(Event, frozen=True, gc=False):
    """An attempt failed and another follows at `retry_at` (microseconds)."""

    key: str
    attempt: int
    error: Failure
    retry_at: int
    generation: int = 0


class StepFailed(Event, frozen=True, gc=False):
    key: str
    error: Failure
    attempt: int = 1
    generation: int = 0


class StepMeasured(Event, frozen=True, gc=False):
    """The usage of an attempt of a step since the last such event of it, one item for each model. It is
    committed with the outcome of the attempt, or earlier by itself if the attempt takes long."""

    key: str
    attempt: int
    measures: tuple[Measured, ...]
    generation: int = 0


class StepReopened(Event, frozen=True, gc=False):
    """The failed step will be tried again: same generation, same idempotency key."""

    key: str
    generation: int = 0


class StepInDoubt(Event, frozen=True, gc=False):
    """A `once` step was cut off after its intent: it may or may not have happened."""

    key: str
    why: str
    generation: int = 0
    verifiable: bool = False


class StepSettled(Event, frozen=True, gc=False):
    """A person or a `verify` hook said what became of a step in doubt."""

    key: str
    outcome: Literal["done", "retry", "fail"]
    by: str = ""
    generation: int = 0
    result: msgspec.Raw = NOTHING
    blob: str = ""
    error: Failure | None = None


class SleepStarted(Event, frozen=True, gc=False):
    key: str
    ordinal: int
    until: int
    generation: int = 0


class SleepEnded(Event, frozen=True, gc=False):
    key: str
    generation: int = 0


class ValueRecorded(Event, frozen=True, gc=False):
    """The value of `now()`, `random()` or `uuid()`, which every replay returns again."""

    key: str
    ordinal: int
    value: msgspec.Raw
    generation: int = 0


class GateOpened(Event, frozen=True, gc=False):
    """The run waits: for a decision on what is shown, whose digest this is, or for a signal. Without an
    answer until `until` (microseconds, 0 for ever) its outcome is `unanswered`. An `automatic` one does
    not wait: its decision is in the same commit."""

    key: str
    ordinal: int
    kind: GateKind
    name: str
    digest: str = ""
    show: msgspec.Raw = NOTHING
    blob: str = ""
    until: int = 0
    generation: int = 0
    automatic: bool = False


class GateDecided(Event, frozen=True, gc=False):
    """The first decision, and the only one. `signal` is the version of the signal that gave the value."""

    key: str
    outcome: GateOutcome
    by: str = ""
    comment: str = ""
    value: msgspec.Raw = NOTHING
    blob: str = ""
    signal: int = 0
    generation: int = 0


class CheckpointTaken(Event, frozen=True, gc=False):
    """A point with a name, to which the run can be rewound."""

    key: str
    ordinal: int
    name: str
    data: msgspec.Raw = NOTHING
    blob: str = ""
    generation: int = 0
    snapshot: str = ""
    root: str = ""
    git: GitPosition | None = None
    mark: str = ""


class FilesSaved(Event, frozen=True, gc=False):
    """A snapshot of the files beneath `root`. What lies between a snapshot and the `start` after it was
    changed by others, all other differences by the run. `key` is the step that it was taken for."""

    snapshot: str
    place: FilesPlace
    root: str
    key: str = ""
    generation: int = 0
    instead_of: str = ""
    """Of what was rolled back: the snapshot just before that, how many paths it was, and which were kept."""
    changes: int = 0
    kept: tuple[str, ...] = ()
    git: GitPosition | None = None
    mark: str = ""
    """Which directory the root is, wherever it is moved."""
    rescued: str = ""
    """A snapshot of what others wrote while files were restored for this one."""
    refs: tuple[str, ...] = ()
    """The refs that were rolled back with the files of an attempt; old tips are under `tips`."""
    tips: str = ""
    isolated: bool = False
    """Of a step that works in a copy: it changes nothing in the root until its changes are brought there."""


class FilesForgotten(Event, frozen=True, gc=False):
    """The snapshots that this run names so far are not kept any more: it has ended, and there was no room."""


class Emitted(Event, frozen=True, gc=False):
    """Progress or a piece of a stream, for watchers: by the workflow (`key`, `ordinal`), or by an
    attempt of a step."""

    name: str
    value: msgspec.Raw
    key: str = ""
    ordinal: int = 0
    step: str = ""
    attempt: int = 0
    generation: int = 0


class PatchSeen(Event, frozen=True, gc=False):
    """`patched("id")` was reached by a run that had not passed its place before: the new code counts."""

    key: str
    id: str
    generation: int = 0


class StageEntered(Event, frozen=True, gc=False):
    """`stage("name")`: from here on the run is in the stage `name`, beside its status."""

    key: str
    ordinal: int
    name: str
    generation: int = 0


class OutcomeReported(Event, frozen=True, gc=False):
    """How the work ended for which `chosen` had been chosen: by a router (`family`), one candidate; by a
    chooser of skills, several skills or none. `error` names the exception if the work raised one. `usd` is
    the cost, None if it is not known."""

    key: str
    ordinal: int
    family: str
    kind: str
    chosen: tuple[str, ...]
    ok: bool
    usd: Decimal | None = None
    error: str = ""
    generation: int = 0


class ObservedCommand(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A command that an evidence document rests on: its step, in the log of `run`."""

    run: str
    key: str
    attempt: int = 1


class EvidenceWritten(Event, frozen=True, gc=False):
    """The evidence of a milestone: a Markdown document that was written from the log. The checkpoint of the
    same key follows in the same append, so there is one document for each milestone.

    `digest` is the SHA-256 of the document, and `blob` the large value that holds it: a list of all evidence
    reads no document. `level` is `observed` if it rests on commands, else `asserted`. `until` is the version
    of the log up to which it was written: the next document begins there."""

    key: str
    milestone: str
    digest: str
    blob: str
    level: str = "asserted"
    commands: tuple[ObservedCommand, ...] = ()
    left_out: int = 0
    """How many commands are counted in the document and not named here."""
    until: int = 0
    snapshot: str = ""
    images: dict[str, str] = msgspec.field(default_factory=dict)
    """The images that it names, path → SHA-256: the snapshot has them."""
    generation: int = 0


class CommandChecked(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The outcome of a command in a verification: `equal`, `different`, `superseded` or `skipped`."""

    run: str
    key: str
    outcome: str
    why: str = ""


class EvidenceVerified(Event, frozen=True, gc=False):
    """The commands of an evidence document were run again. `outcome` is `equal` (all of them, and nothing
    differed), `different` or `incomplete` (nothing differed, and some could not be run). It counts for the
    evidence with this key and digest. `files` says which files they ran on: `now` or `milestone`."""

    key: str
    digest: str
    outcome: str
    files: str = "now"
    by: str = ""
    checks: tuple[CommandChecked, ...] = ()
    generation: int = 0


class OutputCaptured(Event, frozen=True, gc=False):
    """A piece of the output of a command or a step, redacted; `source` is `stdout`, `stderr`, or `log` for
    what a step logged."""

    key: str
    attempt: int
    source: str
    text: str
    generation: int = 0


class OutcomeDelivered(Event, frozen=True, gc=False):
    """The code of the run received the outcome of a gate here: that others decided it, or that the code gave
    it up. The event that holds the outcome was appended earlier, by another process or thread."""

    key: str
    generation: int = 0


class TimerFired(Event, frozen=True, gc=False):
    """Timers of the workflow's own code (`asyncio.sleep`, `asyncio.timeout`) fired here, one after the other:
    those of the scope `scope` that it set as its number `first` to `last`."""

    scope: str
    first: int
    last: int
    generation: int = 0


class WaitAbandoned(Event, frozen=True, gc=False):
    """The code gave up a gate, a sleep or the next attempt of a step, also one that was over and not
    delivered yet: its task was cancelled. Nothing comes to it any more; in a replay it waits until it is
    cancelled again. A signal that it had taken is free."""

    key: str
    generation: int = 0
