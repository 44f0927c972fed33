"""The events of a run: past tense, immutable, the only truth.

An event is its type, its fields, and (kept beside it, in the log) the stream, the version in that
stream and the time. The type carries a version: `StepCompleted` is the first shape of that event,
`StepCompleted.2` would be the next. Types that this code does not know are kept as `Unknown`, so a
store that a newer holdfast wrote to can still be read.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from holdfast.errors import BadInput, not_text
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
Waits = Literal["", "waiting", "sleeping", "pending"]
GateKind = Literal["approval", "signal"]
GateOutcome = Literal["approved", "rejected", "unanswered", "received"]
Isolate = Literal["copy"]
FilesPlace = Literal["start", "before", "brought", "after", "taken_back", "stop"]

NOTHING: Final = msgspec.Raw(b"")
"""An absent value; `None` is a value like any other and is stored as `null`."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The root of all events."""


class Unknown(Event, frozen=True, gc=False):
    """An event of a type that this version does not know; kept, shown, skipped by `evolve`."""

    type: str
    payload: str


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One exception as data.

    `lost` names what could not be stored: "class", "args" or attributes. If there is any of it, the
    exception is rebuilt as a `StepError`. `inner` holds exceptions found in attributes (by name) and in
    arguments (by `[index]`); one that is the cause or the context as well is written only there.
    """

    type: str
    message: str = ""
    args: msgspec.Raw = NOTHING
    attributes: msgspec.Raw = NOTHING
    traceback: str = ""
    cause: Failure | None = None
    context: Failure | None = None
    suppressed: bool = False
    members: tuple[Failure, ...] = ()
    inner: dict[str, Failure | Literal["cause", "context"]] = {}
    lost: tuple[str, ...] = ()

    @property
    def type_name(self) -> str:
        """The class as Python writes it: `ValueError`, `package.module.ApiError`."""
        module, _, qualname = self.type.partition(":")
        return qualname if module in ("builtins", "__main__") else f"{module}.{qualname}"


class Code(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a workflow's code is: a function in a module, a function in a script, or one command.

    `directory` is what a module was imported from, empty for one that was installed into the interpreter.
    `root` is the root of its project, `mark` says which directory that was, and `home` is where the store was
    inside it, if it was: so the code is found again in a project that was moved or copied. `title` is what
    people see instead of `name`; the code is always found by its name.
    """

    name: str
    module: str = ""
    script: str = ""
    argv: tuple[str, ...] = ()
    cwd: str = ""
    interpreter: str = ""
    root: str = ""
    mark: str = ""
    home: str = ""
    directory: str = ""
    title: str = ""

    @property
    def place(self) -> str:
        """The path that must exist for the code to be found: its script, or the directory of its module."""
        return self.script or ("" if self.argv else self.directory) or self.cwd


class GitPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a git repository stood: `head` is a commit ("" before the first one), `branch` the ref that HEAD
    is at ("" if detached), `busy` what was in progress ("rebase", "merge", ...).

    `refs` (all refs and the stash) and `index` (the index file, "" if there was none) are contents of the
    workspace's content store: a repository can have thousands of refs, and an event names them all in 64
    characters. `index_time` is when the index file was written (nanoseconds): git judges by it whether the
    times inside can be trusted. `progress` is a content, too: the files in which git keeps what is in
    progress; "" if there are none, or if they were not recorded. Without `refs` there was no repository.
    `nested` is a content: where the HEADs of repositories inside the workspace were; "" if there were none.
    """

    refs: str
    head: str = ""
    branch: str = ""
    index: str = ""
    index_time: int = 0
    busy: str = ""
    progress: str = ""
    nested: str = ""

    @property
    def contents(self) -> tuple[str, ...]:
        """Contents that must be kept as long as the repository can be restored to this position."""
        return tuple(one for one in (self.refs, self.index, self.progress, self.nested) if one)


# The store's own stream


class StreamCreated(Event, frozen=True, gc=False):
    """A stream's first event was written in this same transaction."""

    stream: str
    kind: str


class StreamArchived(Event, frozen=True, gc=False):
    """A stream that had ended was removed in this same transaction. `version` and `hash` are its head: the
    number of its events, and what `file`, a copy of them, must add up to. Without a file it had been deleted,
    and no copy of it is kept."""

    stream: str
    version: int
    hash: str
    file: str = ""


class Lost(msgspec.Struct, frozen=True, array_like=True):
    """The versions `first` to `last` of a stream."""

    stream: str
    first: int
    last: int


class StoreRepaired(Event, frozen=True, gc=False):
    """The log was written anew from what its copies still held. `kept` is the directory, in the store's own,
    that has the files as they were; `lost` is what no copy had, and `values` are the large values (SHA-256)
    that are missing from here on. `before` is the incarnation that the store had: backups of that one are
    still copies of this log."""

    kept: str
    lost: tuple[Lost, ...] = ()
    values: tuple[str, ...] = ()
    before: str = ""


class StreamDeleted(Event, frozen=True, gc=False):
    """A stream was set aside in this same transaction, by `operation`: no reader sees it. `version` and
    `hash` are its head and `kind` is what it was. A `StreamRestored` brings it back, a `StreamArchived`
    without a file makes the deletion final."""

    stream: str
    kind: str
    version: int
    hash: str
    operation: str = ""


class StreamRestored(Event, frozen=True, gc=False):
    """A stream that was deleted is there again, as it was. `kind` is what it is."""

    stream: str
    kind: str
    operation: str = ""


# A run


class RunCreated(Event, frozen=True, gc=False):
    code: Code
    digest: str
    args: msgspec.Raw = NOTHING
    blob: str = ""
    parent: str = ""
    parent_step: str = ""
    task: str = ""
    """The task that the run was started for: the run's end moves it."""
    budget: str = ""
    """The budget that pays for its steps; empty for the default one."""


class RunClaimed(Event, frozen=True, gc=False):
    """An owner took the run; every earlier epoch is fenced off from here on."""

    owner: str
    epoch: int
    took_over: str = ""
    forced: bool = False
    seen_at: int = 0
    """The last sign of life of the one that it was taken over from, in microseconds; 0 if not known."""
    ordered: bool = False
    """This owner delivers outcomes to the code in the order of the log."""


class RunReleased(Event, frozen=True, gc=False):
    """Its driver let it go. `waits` says that a child run waits or sleeps, and it for that; or that it can be
    continued (`pending`), whatever else of it waits."""

    owner: str
    reason: str = ""
    waits: Waits = ""


class RunReopened(Event, frozen=True, gc=False):
    """A failed or cancelled run continues."""


class RunNeedsAttention(Event, frozen=True, gc=False):
    """A person must decide: `cause` is the error code, `step` the place, `reason` the sentence."""

    cause: str
    reason: str
    step: str = ""


class RunCompleted(Event, frozen=True, gc=False):
    result: msgspec.Raw = NOTHING
    blob: str = ""


class RunFailed(Event, frozen=True, gc=False):
    """`steps` are the steps whose errors ended the run: what `resume` tries again."""

    error: Failure
    steps: tuple[str, ...] = ()


class RunCancelled(Event, frozen=True, gc=False):
    """It was ended. `seen_at` is when its owner was last seen alive, if that was dead."""

    reason: str = ""
    by: str = ""
    seen_at: int = 0


class CancelRequested(Event, frozen=True, gc=False):
    """A person wants the run to end; its owner ends it as soon as it hears of that."""

    reason: str = ""
    by: str = ""


class PauseRequested(Event, frozen=True, gc=False):
    """A person wants the run to stop at its next step boundary."""

    reason: str = ""
    by: str = ""


class RunPaused(Event, frozen=True, gc=False):
    """No process continues it before a person resumes it. `seen_at` as in `RunCancelled`."""

    reason: str = ""
    by: str = ""
    seen_at: int = 0


class SignalReceived(Event, frozen=True, gc=False):
    """Kept until a `wait_for` of that name takes it."""

    name: str
    value: msgspec.Raw = NOTHING
    blob: str = ""
    by: str = ""


class Rewound(Event, frozen=True, gc=False):
    """A new generation opens; what its parent recorded after `version` no longer counts. The owner
    before is fenced off by `epoch`; `operation` is what it is a part of."""

    generation: int
    parent: int
    version: int
    epoch: int = 0
    operation: str = ""


class GenerationRestored(Event, frozen=True, gc=False):
    """A generation that was put aside is the live one again, as it was left; the one that was live is
    put aside."""

    generation: int
    epoch: int = 0
    operation: str = ""


class RunForked(Event, frozen=True, gc=False):
    """All that this run has recorded so far is a copy of what `origin` had recorded at `version`, before
    or up to its step `step`. It continues when a person resumes it."""

    origin: str
    step: str
    version: int
    by: str = ""
    ordered: bool = False
    """The order of the outcomes in the copy is the order in which the code of `origin` received them."""


# Its steps


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
    answer until `until` (microseconds, 0 for ever) its outcome is `unanswered`."""

    key: str
    ordinal: int
    kind: GateKind
    name: str
    digest: str = ""
    show: msgspec.Raw = NOTHING
    blob: str = ""
    until: int = 0
    generation: int = 0


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
    """So many commands are counted in the document and not named here."""
    until: int = 0
    snapshot: str = ""
    images: dict[str, str] = {}
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


# An operation


class OperationBegun(Event, frozen=True, gc=False):
    """An operation that can be undone: it goes back to the step `to`, or undoes the operation `undoes`.

    `kind` is any text: a kind that only a newer holdfast knows can be read and listed. `operation.begin` and
    `operation.refuse_unknown` are where kinds are checked."""

    kind: str
    run: str
    by: str = ""
    to: str = ""
    undoes: str = ""


class FilesPlanned(Event, frozen=True, gc=False):
    """The files beneath `root` go back to `to` in what was done until `left`; they are saved as `now`.
    `version` is the run's when that was planned; `point` is `to` without what others did since. With
    `died` the run's history does not have `left`: its owner did not live to say so. What matches `keep`
    stays."""

    root: str
    to: str
    left: str
    now: str
    version: int
    only: tuple[str, ...] = ()
    theirs: bool = False
    partial: bool = False
    point: str = ""
    died: bool = False
    mark: str = ""
    """Which directory the root is, wherever it is moved."""
    keep: tuple[str, ...] = ()


class FilesApplied(Event, frozen=True, gc=False):
    """The files were moved: they were `before` and are `after`. `rescued` is what others wrote then."""

    root: str
    before: str
    after: str
    rescued: str = ""
    mark: str = ""
    """Which directory the root is, wherever it is moved."""


class GitPlanned(Event, frozen=True, gc=False):
    """The repository of `root` goes back to `to` in what was done until `left`; it stands at `now`."""

    root: str
    to: GitPosition
    now: GitPosition
    left: GitPosition | None = None


class GitApplied(Event, frozen=True, gc=False):
    """The repository was moved: it stood at `before` and stands at `after`."""

    root: str
    before: GitPosition
    after: GitPosition


class StateApplied(Event, frozen=True, gc=False):
    """The run's state was moved, in this same transaction: its live generation was `left` and is `opened`."""

    left: int
    opened: int


class DeletedItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run or a task that was deleted, without any of its contents. `events` is how many it had, and
    `parent` the run that it is a child of."""

    kind: str
    id: str
    title: str = ""
    number: int = 0
    events: int = 0
    parent: str = ""


class ItemsDeleted(Event, frozen=True, gc=False):
    """These runs and tasks were deleted in this same transaction. `streams` are all streams that were set
    aside with them: their own, and those of earlier operations on them."""

    items: tuple[DeletedItem, ...]
    streams: tuple[str, ...]


class ItemsRestored(Event, frozen=True, gc=False):
    """The items that the operation `deletion` had deleted are restored in this same transaction."""

    deletion: str


class OperationDone(Event, frozen=True, gc=False):
    """Nothing of it is left to do."""


class OperationDropped(Event, frozen=True, gc=False):
    """It could not be done, and nothing of it is left."""

    reason: str = ""


class TaskMove(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A task was changed: its stream was at the version `before` and is at `after`; 0 before its creation."""

    id: str
    after: int
    before: int = 0


class TasksApplied(Event, frozen=True, gc=False):
    """These tasks were changed, in this same transaction."""

    moves: tuple[TaskMove, ...] = ()


class LinkMove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A link from `task` to `on`."""

    task: str
    on: str
    kind: str = "blocks"


class LinksApplied(Event, frozen=True, gc=False):
    """These links of tasks were added and removed, in this same transaction."""

    added: tuple[LinkMove, ...] = ()
    removed: tuple[LinkMove, ...] = ()


class MemoryApplied(Event, frozen=True, gc=False):
    """These memories were withdrawn and restored, in this same transaction. A new memory is one of the
    restored."""

    withdrawn: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()


TYPES: Final[dict[str, type[Event]]] = {
    cls.__name__: cls for cls in Event.__subclasses__() if cls is not Unknown
}
"""All events above. Those of the families are defined later: `all_types` has them, too."""

RUN_ENDS: Final = ("RunCompleted", "RunFailed", "RunCancelled")
"""Types of the events that end a run."""

FENCING: Final = (RunClaimed, Rewound, GenerationRestored)
"""Events with an epoch: from there on every earlier owner is refused."""

_encode = msgspec.json.Encoder().encode
_decoders: Final[dict[str, Callable[[str], Any]]] = {}
"""Each made when it is first needed: all of them cost 2 ms, and `holdfast list` decodes nothing. A process
with several threads calls `prepare` first: msgspec crashes when two threads make decoders of one class."""


def type_of(event: Event) -> str:
    """The name under which the event is stored."""
    return event.type if isinstance(event, Unknown) else type(event).__name__


def encode(event: Event) -> str:
    """The event's fields as JSON text. Raises `BadInput` for a name that is no text: a path or an argument
    with bytes that are not UTF-8."""
    try:
        return event.payload if isinstance(event, Unknown) else _encode(event).decode()
    except UnicodeEncodeError as error:
        raise BadInput(not_text(error.object)) from None


def blob_of(event: Event) -> str:
    """The large value that the event names; empty if none. An event of a newer version may name one too."""
    if isinstance(event, Unknown):
        fields = msgspec.json.decode(event.payload)
        return str(fields.get("blob") or "") if isinstance(fields, dict) else ""
    found: str = getattr(event, "blob", "")
    return found


def prepare() -> None:
    """Make all decoders."""
    for name, cls in TYPES.items():
        if name not in _decoders:
            _decoders[name] = msgspec.json.Decoder(cls).decode


def decode(type_name: str, payload: str) -> Event:
    """The inverse of `encode`; a type from a newer version becomes `Unknown`."""
    decoder = _decoders.get(type_name)
    if decoder is None:
        cls = TYPES.get(type_name)
        if cls is None:
            return _decode_other(type_name, payload)
        decoder = _decoders[type_name] = msgspec.json.Decoder(cls).decode
    event: Event = decoder(payload)
    return event


def _decode_other(type_name: str, payload: str) -> Event:
    """An event that is not a run's: of a family (`families.py`), or unknown."""
    from holdfast.kernel.families import DECODERS

    decoder = DECODERS.get(type_name)
    if decoder is None:
        return Unknown(type_name, payload)
    event: Event = decoder(payload)
    return event


def all_types() -> dict[str, type[Event]]:
    """Every type that this version knows: those of runs, and those of the families."""
    from holdfast.kernel import families

    return {**TYPES, **families.TYPES}
