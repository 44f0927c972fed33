"""Fold events into state: `evolve(state, event, version, at) -> state`.

It never refuses what `decide` emits, and it never looks at a clock: `at` is the event's own time,
in microseconds. Events of a type it does not know leave the state as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.kernel import events as e
from holdfast.kernel import generations
from holdfast.kernel.identity import scope_of
from holdfast.kernel.measures import added
from holdfast.kernel.state import ALWAYS, OPEN, Fired, RunState, RunStatus, Saved, Signal, StepState


class Impossible(Exception):
    """An event that cannot follow this state: the log is damaged, or `decide` is wrong."""


def evolve(state: RunState | None, event: e.Event, version: int, at: int) -> RunState:
    """The state after `event`. Changes `state` in place and returns it."""
    if state is None:
        if type(event) is not e.RunCreated:
            raise Impossible(f"version {version} is {e.type_of(event)}, but a run begins with RunCreated")
        state = RunState(
            event.code, event.digest, event.args, event.blob, event.parent, event.parent_step, created_at=at
        )
        state.task, state.budget = event.task, event.budget
    else:
        apply = _APPLY.get(type(event))
        if apply is not None:
            apply(state, event, version, at)
        elif type(event) is e.RunCreated:
            raise Impossible(f"version {version} creates a run that exists")
    state.version = version
    state.updated_at = at
    return state


def fold(recorded: Iterable[tuple[e.Event, int, int]], state: RunState | None = None) -> RunState | None:
    """`evolve` over many (event, version, at)."""
    for event, version, at in recorded:
        state = evolve(state, event, version, at)
    return state


def _step(state: RunState, key: str, version: int) -> StepState:
    step = state.steps.get(key)
    if step is None:
        raise Impossible(f"version {version} speaks of step {key}, which never started")
    return step


def _claimed(state: RunState, event: e.RunClaimed, version: int, at: int) -> None:
    state.owner, state.epoch = event.owner, event.epoch
    state.begun_at = state.begun_at or at
    if not event.ordered:
        state.loose = ALWAYS
    elif state.loose == ALWAYS:
        state.loose = version
    state.status = _going(state)
    state.reason = state.cause = state.attention_step = ""
    state.stalls += 1
    state.pause = state.paused = None
    state.seen_at = state.seen_at or event.seen_at


def _going(state: RunState) -> RunStatus:
    """The status of a run that nothing but its own gates and sleeps holds up."""
    if state.waiters:
        return "waiting"
    if state.sleepers:
        return "sleeping"
    return "running" if state.owner else "pending"


def _released(state: RunState, event: e.RunReleased, version: int, at: int) -> None:
    state.owner = ""
    if event.waits and (state.status in ("pending", "running") or event.waits == "pending"):
        state.status = event.waits
    # A driver that releases a run has not crashed: this does not count towards a crash loop.
    state.stalls = 0


def _reopened(state: RunState, event: e.RunReopened, version: int, at: int) -> None:
    state.status, state.error, state.failed_steps, state.cancel = "running", None, (), None
    state.ended_at = 0
    state.loose = max(state.loose, version)  # what the code did because of the failure is in the history, too


def _needs_attention(state: RunState, event: e.RunNeedsAttention, version: int, at: int) -> None:
    state.status, state.cause, state.reason = "needs_attention", event.cause, event.reason
    state.attention_step = event.step


def _completed(state: RunState, event: e.RunCompleted, version: int, at: int) -> None:
    state.status, state.result, state.blob, state.owner = "completed", event.result, event.blob, ""
    state.ended_at = at


def _failed(state: RunState, event: e.RunFailed, version: int, at: int) -> None:
    state.status, state.error, state.failed_steps, state.owner = "failed", event.error, event.steps, ""
    state.ended_at = at


def _cancelled(state: RunState, event: e.RunCancelled, version: int, at: int) -> None:
    state.status, state.reason, state.owner = "cancelled", event.reason, ""
    state.ended_at = at
    state.cancel = None
    state.seen_at = state.seen_at or event.seen_at


def _cancel_requested(state: RunState, event: e.CancelRequested, version: int, at: int) -> None:
    state.cancel = event


def _pause_requested(state: RunState, event: e.PauseRequested, version: int, at: int) -> None:
    state.pause = event


def _paused(state: RunState, event: e.RunPaused, version: int, at: int) -> None:
    state.status, state.reason, state.owner, state.pause = "paused", event.reason, "", None
    state.paused = event
    state.seen_at = state.seen_at or event.seen_at


def _signal_received(state: RunState, event: e.SignalReceived, version: int, at: int) -> None:
    state.signals[version] = Signal(event.name, event.value, event.blob)


def _rewound(state: RunState, event: e.Rewound, version: int, at: int) -> None:
    generations.rewind(state, event)


def _generation_restored(state: RunState, event: e.GenerationRestored, version: int, at: int) -> None:
    if event.generation not in state.past:
        raise Impossible(f"version {version} restores generation {event.generation}, which was never left")
    generations.restore(state, event)


def _forked(state: RunState, event: e.RunForked, version: int, at: int) -> None:
    state.status, state.reason, state.paused = "paused", f"forked from {event.origin}", None
    if not event.ordered:
        state.loose = version


def _step_started(state: RunState, event: e.StepStarted, version: int, at: int) -> None:
    step = state.steps.get(event.key)
    if step is None:
        state.steps[event.key] = StepState(
            event.key,
            event.name,
            "running",
            event.digest,
            event.ordinal,
            event.attempt,
            0,
            event.effect,
            event.kind,
            started_at=at,
            first_started_at=at,
            child=event.child,
            version=version,
            generation=event.generation,
        )
        if event.ordinal:
            state.order[scope_of(event.key), event.ordinal] = event.key
    else:
        step.status, step.attempt, step.started_at, step.version = "running", event.attempt, at, version
        step.error, step.due_at, step.ended_at = None, 0, 0


def _step_completed(state: RunState, event: e.StepCompleted, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.status, step.result, step.blob, step.ended_at = "completed", event.result, event.blob, at
    step.secret, step.version, step.error = event.secret, version, None
    state.stalls = 0


def _step_ran(state: RunState, event: e.StepRan, version: int, at: int) -> None:
    key = event.key
    state.steps[key] = StepState(
        key,
        event.name,
        "completed",
        event.digest,
        event.ordinal,
        result=event.result,
        blob=event.blob,
        secret=event.secret,
        started_at=event.started_at,
        first_started_at=event.started_at,
        ended_at=at,
        version=version,
        generation=event.generation,
    )
    if event.ordinal:
        state.order[scope_of(key), event.ordinal] = key
    state.stalls = 0


def _attempt_failed(state: RunState, event: e.StepAttemptFailed, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.status, step.error, step.due_at, step.ended_at = "retrying", event.error, event.retry_at, at
    step.failures += 1
    step.version = version
    state.stalls = 0


def _step_failed(state: RunState, event: e.StepFailed, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.status, step.error, step.ended_at, step.version = "failed", event.error, at, version
    step.failures += 1
    state.stalls = 0


def _step_measured(state: RunState, event: e.StepMeasured, version: int, at: int) -> None:
    step = state.steps.get(event.key)
    if step is not None:  # a thread that outlives its body may be faster than the step's own record
        step.measured = added(step.measured, event.measures)
    state.measured = added(state.measured, event.measures)


def _step_reopened(state: RunState, event: e.StepReopened, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.status, step.failures, step.error, step.version = "reopened", 0, None, version


def _in_doubt(state: RunState, event: e.StepInDoubt, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.status, step.why, step.verifiable, step.version = "in_doubt", event.why, event.verifiable, version


def _settled(state: RunState, event: e.StepSettled, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.why, step.verifiable, step.version = "", False, version
    if event.outcome == "done":
        step.status, step.result, step.blob, step.ended_at = "completed", event.result, event.blob, at
    elif event.outcome == "fail":
        step.status, step.error, step.ended_at = "failed", event.error, at
    else:
        step.status = "reopened"
    if state.status == "needs_attention" and state.cause == "in_doubt" and not state.in_doubt():
        state.status = "running"
        state.reason = state.cause = state.attention_step = ""


def _sleep_started(state: RunState, event: e.SleepStarted, version: int, at: int) -> None:
    state.steps[event.key] = StepState(
        event.key,
        "sleep",
        "sleeping",
        ordinal=event.ordinal,
        kind="sleep",
        started_at=at,
        first_started_at=at,
        due_at=event.until,
        version=version,
    )
    state.order[scope_of(event.key), event.ordinal] = event.key
    state.sleepers += 1
    state.status, state.stalls = _going(state), 0


def _sleep_ended(state: RunState, event: e.SleepEnded, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.status, step.ended_at, step.version = "completed", at, version
    state.stalls = 0
    state.sleepers -= 1
    if state.status in OPEN:
        state.status = _going(state)


def _gate_opened(state: RunState, event: e.GateOpened, version: int, at: int) -> None:
    state.steps[event.key] = StepState(
        event.key,
        event.name,
        "waiting",
        event.digest,
        event.ordinal,
        kind=event.kind,
        result=event.show,
        blob=event.blob,
        started_at=at,
        first_started_at=at,
        due_at=event.until,
        version=version,
    )
    if event.ordinal:
        state.order[scope_of(event.key), event.ordinal] = event.key
    state.waiters += 1
    state.status, state.stalls = _going(state), 0


def _gate_decided(state: RunState, event: e.GateDecided, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.status, step.ended_at, step.version, step.due_at = "completed", at, version, 0
    step.outcome, step.by, step.comment = event.outcome, event.by, event.comment
    step.result, step.blob = event.value, event.blob
    if event.signal in state.signals:
        state.signals[event.signal].taken_by = event.key
    state.waiters -= 1
    state.stalls = 0
    if state.status in OPEN:
        # No process executes it: it can be continued, whatever else of it waits.
        state.status = _going(state) if state.owner else "pending"


def _wait_abandoned(state: RunState, event: e.WaitAbandoned, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    state.sleepers -= step.status == "sleeping"
    state.waiters -= step.status == "waiting"
    for signal in state.signals.values():
        if signal.taken_by == event.key:
            signal.taken_by = ""
    step.status, step.ended_at, step.version, step.due_at = "abandoned", at, version, 0
    step.delivered = 0  # what was delivered before was not what the code has seen
    state.stalls = 0
    if state.status in OPEN:
        state.status = _going(state)


def _outcome_delivered(state: RunState, event: e.OutcomeDelivered, version: int, at: int) -> None:
    _step(state, event.key, version).delivered = version


def _timer_fired(state: RunState, event: e.TimerFired, version: int, at: int) -> None:
    first = event.first
    before = state.timers[-1] if state.timers else None
    if before is not None and (before.scope, before.last + 1, before.version) == (
        event.scope,
        first,
        version,
    ):
        state.timers.pop()  # in an owner's memory, where the version stands still
        first = before.first
    state.timers.append(Fired(event.scope, first, event.last, version))


def _checkpoint_taken(state: RunState, event: e.CheckpointTaken, version: int, at: int) -> None:
    _done_at_once(state, event.key, event.name, event.ordinal, "checkpoint", version, at)
    state.steps[event.key].result, state.steps[event.key].blob = event.data, event.blob
    if event.snapshot:
        state.files.append(
            Saved(version, event.snapshot, event.root, "checkpoint", event.key, event.git, event.mark)
        )


def _files_saved(state: RunState, event: e.FilesSaved, version: int, at: int) -> None:
    state.files.append(
        Saved(
            version, event.snapshot, event.root, event.place, event.key, event.git, event.mark, event.isolated
        )
    )
    if event.place == "start":
        state.seen_at = 0


def _files_forgotten(state: RunState, event: e.FilesForgotten, version: int, at: int) -> None:
    state.files = []
    for generation in state.past.values():
        generation.files = []


def _emitted(state: RunState, event: e.Emitted, version: int, at: int) -> None:
    if event.key:
        _done_at_once(state, event.key, event.name, event.ordinal, "emit", version, at)


def _patch_seen(state: RunState, event: e.PatchSeen, version: int, at: int) -> None:
    _done_at_once(state, event.key, event.id, 0, "patch", version, at)


def _stage_entered(state: RunState, event: e.StageEntered, version: int, at: int) -> None:
    _done_at_once(state, event.key, event.name, event.ordinal, "stage", version, at)
    state.stage = event.name


def _outcome_reported(state: RunState, event: e.OutcomeReported, version: int, at: int) -> None:
    _done_at_once(state, event.key, event.kind, event.ordinal, "outcome", version, at)
    state.steps[event.key].outcome = "ok" if event.ok else "not ok"


def _done_at_once(
    state: RunState, key: str, name: str, ordinal: int, kind: e.StepKind, version: int, at: int
) -> None:
    state.steps[key] = StepState(
        key,
        name,
        "completed",
        ordinal=ordinal,
        kind=kind,
        started_at=at,
        first_started_at=at,
        ended_at=at,
        version=version,
    )
    if ordinal:
        state.order[scope_of(key), ordinal] = key


def _value_recorded(state: RunState, event: e.ValueRecorded, version: int, at: int) -> None:
    _done_at_once(state, event.key, event.key, event.ordinal, "value", version, at)
    state.steps[event.key].result = event.value


_APPLY: Final[dict[type[e.Event], Callable[[RunState, Any, int, int], None]]] = {
    e.RunClaimed: _claimed,
    e.RunReleased: _released,
    e.RunReopened: _reopened,
    e.RunNeedsAttention: _needs_attention,
    e.RunCompleted: _completed,
    e.RunFailed: _failed,
    e.RunCancelled: _cancelled,
    e.CancelRequested: _cancel_requested,
    e.PauseRequested: _pause_requested,
    e.RunPaused: _paused,
    e.SignalReceived: _signal_received,
    e.Rewound: _rewound,
    e.GenerationRestored: _generation_restored,
    e.RunForked: _forked,
    e.StepStarted: _step_started,
    e.StepCompleted: _step_completed,
    e.StepRan: _step_ran,
    e.StepAttemptFailed: _attempt_failed,
    e.StepFailed: _step_failed,
    e.StepMeasured: _step_measured,
    e.StepReopened: _step_reopened,
    e.StepInDoubt: _in_doubt,
    e.StepSettled: _settled,
    e.SleepStarted: _sleep_started,
    e.SleepEnded: _sleep_ended,
    e.ValueRecorded: _value_recorded,
    e.GateOpened: _gate_opened,
    e.GateDecided: _gate_decided,
    e.WaitAbandoned: _wait_abandoned,
    e.OutcomeDelivered: _outcome_delivered,
    e.TimerFired: _timer_fired,
    e.CheckpointTaken: _checkpoint_taken,
    e.FilesSaved: _files_saved,
    e.FilesForgotten: _files_forgotten,
    e.Emitted: _emitted,
    e.PatchSeen: _patch_seen,
    e.StageEntered: _stage_entered,
    e.OutcomeReported: _outcome_reported,
}
