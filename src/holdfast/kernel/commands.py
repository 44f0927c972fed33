"""Commands to a run: imperative, with the time and the ids inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from holdfast.kernel import events as e
from holdfast.kernel.measures import Measured

CodeEvent = (
    e.CheckpointTaken | e.Emitted | e.EvidenceWritten | e.FilesSaved | e.GateOpened | e.OutcomeDelivered
    | e.OutcomeReported | e.PatchSeen | e.SleepEnded | e.SleepStarted | e.StageEntered | e.TimerFired
    | e.ValueRecorded
)  # fmt: skip


class Command(msgspec.Struct, frozen=True, gc=False):
    """The root of all commands."""


class CreateRun(Command, frozen=True, gc=False):
    run_id: str
    code: e.Code
    digest: str
    args: msgspec.Raw = e.NOTHING
    blob: str = ""
    parent: str = ""
    parent_step: str = ""
    older: tuple[str, ...] = ()
    """Digests that the same arguments may have had before."""
    task: str = ""
    budget: str = ""


class ClaimRun(Command, frozen=True, gc=False):
    """Take the run. `dead` is the owner found dead, last seen alive at `seen_at`; `force` goes past a live
    one."""

    run_id: str
    owner: str
    dead: str = ""
    force: bool = False
    seen_at: int = 0


class ReleaseRun(Command, frozen=True, gc=False):
    run_id: str
    owner: str
    reason: str = ""
    waits: e.Waits = ""


class ReopenRun(Command, frozen=True, gc=False):
    """Let a failed or cancelled run continue: the steps that ended it are tried again."""

    run_id: str


class StartStep(Command, frozen=True, gc=False):
    key: str
    name: str
    digest: str = ""
    ordinal: int = 0
    effect: e.Effect = "idempotent"
    kind: e.StepKind = "step"
    args: msgspec.Raw = e.NOTHING
    preview: str = ""
    size: int = 0
    child: str = ""
    no_evidence: bool = False


class CompleteStep(Command, frozen=True, gc=False):
    key: str
    result: msgspec.Raw = e.NOTHING
    blob: str = ""
    secret: bool = False


class RunStep(Command, frozen=True, gc=False):
    """`StartStep` and `CompleteStep` at once, for the first attempt of an idempotent step."""

    ran: e.StepRan


class FailAttempt(Command, frozen=True, gc=False):
    """The attempt failed; with `retry_at` another follows, without it the step has failed."""

    key: str
    error: e.Failure
    retry_at: int = 0


class MeasureStep(Command, frozen=True, gc=False):
    """An attempt of the step has used this."""

    key: str
    attempt: int
    measures: tuple[Measured, ...]


class DoubtStep(Command, frozen=True, gc=False):
    run_id: str
    key: str
    why: str
    verifiable: bool = False


class SettleStep(Command, frozen=True, gc=False):
    """`abandoned`: the run's owner is known to be dead, so a running `once` step is in doubt."""

    run_id: str
    key: str
    outcome: Literal["done", "retry", "fail"]
    by: str = ""
    result: msgspec.Raw = e.NOTHING
    blob: str = ""
    error: e.Failure | None = None
    abandoned: bool = False


class CaptureOutput(Command, frozen=True, gc=False):
    """`attempt` is 0 for the one that runs, as the log has it; a fast step may not be there yet."""

    key: str
    source: str
    text: str
    attempt: int = 0


class AttendRun(Command, frozen=True, gc=False):
    """Stop the run until a person has looked."""

    cause: str
    reason: str
    step: str = ""


class LoseHistory(Command, frozen=True, gc=False):
    """The end of the run's history was lost; `reason` says which part of it, and what may have been in it."""

    reason: str
    step: str = ""


class CompleteRun(Command, frozen=True, gc=False):
    result: msgspec.Raw = e.NOTHING
    blob: str = ""


class FailRun(Command, frozen=True, gc=False):
    error: e.Failure
    steps: tuple[str, ...] = ()


class CancelRun(Command, frozen=True, gc=False):
    """End the run. If a live owner executes it (`live`), it is asked to; a dead one was last seen alive at
    `seen_at`."""

    run_id: str
    reason: str = ""
    by: str = ""
    live: bool = False
    seen_at: int = 0


class PauseRun(Command, frozen=True, gc=False):
    """Let the run stop where it is. `live` and `seen_at` as in `CancelRun`, `budget` and `short` as in the
    event."""

    run_id: str
    reason: str = ""
    by: str = ""
    live: bool = False
    seen_at: int = 0
    budget: str = ""
    short: Mapping[str, str | int | None] = {}


class RewindRun(Command, frozen=True, gc=False):
    """Go back to where the step `to` had ended, or to the version `at`, in a new generation. `dead` is the
    owner found dead; `rerun_once` lets `once` steps that were done after that point run again."""

    run_id: str
    to: str
    operation: str = ""
    dead: str = ""
    rerun_once: bool = False
    at: int = 0


class RestoreGeneration(Command, frozen=True, gc=False):
    """Make a generation that was put aside the live one again, if `leaving` is still the live one."""

    run_id: str
    generation: int
    leaving: int
    operation: str = ""
    dead: str = ""
    rerun_once: bool = False


class Record(Command, frozen=True, gc=False):
    """Write this event of the run's own code, if it is allowed now; the live generation is filled in."""

    event: CodeEvent


class DecideGate(Command, frozen=True, gc=False):
    """Approve or reject. `gate` is a key, a title, or empty for the only open one; `digest` is what the
    one who decides has seen, or a beginning of it."""

    run_id: str
    outcome: e.GateOutcome
    gate: str = ""
    digest: str = ""
    by: str = ""
    comment: str = ""


class ExpireGate(Command, frozen=True, gc=False):
    """Its time is over at `now`: its outcome is `unanswered`, if it was not decided meanwhile."""

    key: str
    now: int


class AbandonWait(Command, frozen=True, gc=False):
    """The code no longer waits for the gate or the sleep."""

    key: str


class SendSignal(Command, frozen=True, gc=False):
    run_id: str
    name: str
    value: msgspec.Raw = e.NOTHING
    blob: str = ""
    by: str = ""


class VerifyEvidence(Command, frozen=True, gc=False):
    """Record how a verification of the evidence of the milestone `key` ended."""

    run_id: str
    key: str
    digest: str
    outcome: str
    files: str = "now"
    by: str = ""
    checks: tuple[e.CommandChecked, ...] = ()
