"""Fold events into state: `evolve(state, event, version, at) -> state`.

It never refuses what `decide` emits, and it never looks at a clock: `at` is the event's own time,
in microseconds. Events of a type it does not know leave the state as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from holdfast.kernel import events as e
from holdfast.kernel.identity import scope_of
from holdfast.kernel.state import RunState, StepState


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
    if state.status != "sleeping":
        state.status = "running"
    state.reason = state.cause = state.attention_step = ""
    state.stalls += 1


def _released(state: RunState, event: e.RunReleased, version: int, at: int) -> None:
    state.owner = ""
    # A release is a driver that lived to say so: not what a crash loop looks like.
    state.stalls = 0


def _reopened(state: RunState, event: e.RunReopened, version: int, at: int) -> None:
    state.status, state.error, state.failed_steps = "running", None, ()


def _needs_attention(state: RunState, event: e.RunNeedsAttention, version: int, at: int) -> None:
    state.status, state.cause, state.reason = "needs_attention", event.cause, event.reason
    state.attention_step = event.step


def _completed(state: RunState, event: e.RunCompleted, version: int, at: int) -> None:
    state.status, state.result, state.blob, state.owner = "completed", event.result, event.blob, ""


def _failed(state: RunState, event: e.RunFailed, version: int, at: int) -> None:
    state.status, state.error, state.failed_steps, state.owner = "failed", event.error, event.steps, ""


def _cancelled(state: RunState, event: e.RunCancelled, version: int, at: int) -> None:
    state.status, state.reason, state.owner = "cancelled", event.reason, ""


def _rewound(state: RunState, event: e.Rewound, version: int, at: int) -> None:
    state.past[state.generation] = state.steps
    state.generation = event.generation
    # Copies: what goes on in this generation must not change what the one before recorded.
    state.steps = {
        key: msgspec.structs.replace(step)
        for key, step in state.past.get(event.parent, {}).items()
        if step.version <= event.version
    }
    state.order = {(scope_of(key), step.ordinal): key for key, step in state.steps.items() if step.ordinal}
    state.sleepers = sum(step.status == "sleeping" for step in state.steps.values())
    state.status, state.reason, state.owner = "paused", "rewound", ""
    state.result, state.blob, state.error, state.failed_steps = e.NOTHING, "", None, ()


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
    state.status, state.stalls = "sleeping", 0
    state.sleepers += 1


def _sleep_ended(state: RunState, event: e.SleepEnded, version: int, at: int) -> None:
    step = _step(state, event.key, version)
    step.status, step.ended_at, step.version = "completed", at, version
    state.stalls = 0
    state.sleepers -= 1
    if state.status == "sleeping" and not state.sleepers:
        state.status = "running"


def _value_recorded(state: RunState, event: e.ValueRecorded, version: int, at: int) -> None:
    state.steps[event.key] = StepState(
        event.key,
        event.key,
        "completed",
        ordinal=event.ordinal,
        kind="value",
        result=event.value,
        started_at=at,
        first_started_at=at,
        ended_at=at,
        version=version,
    )
    state.order[scope_of(event.key), event.ordinal] = event.key


_APPLY: Final[dict[type[e.Event], Callable[[RunState, Any, int, int], None]]] = {
    e.RunClaimed: _claimed,
    e.RunReleased: _released,
    e.RunReopened: _reopened,
    e.RunNeedsAttention: _needs_attention,
    e.RunCompleted: _completed,
    e.RunFailed: _failed,
    e.RunCancelled: _cancelled,
    e.Rewound: _rewound,
    e.StepStarted: _step_started,
    e.StepCompleted: _step_completed,
    e.StepRan: _step_ran,
    e.StepAttemptFailed: _attempt_failed,
    e.StepFailed: _step_failed,
    e.StepReopened: _step_reopened,
    e.StepInDoubt: _in_doubt,
    e.StepSettled: _settled,
    e.SleepStarted: _sleep_started,
    e.SleepEnded: _sleep_ended,
    e.ValueRecorded: _value_recorded,
}
