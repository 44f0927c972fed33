"""What follows from a command in a state: `decide(state, command) -> events`.

Pure: it reads the state, never changes it, and emits only what `evolve` accepts. A command that
does not fit raises the error that tells the caller what to do; nothing is half done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.errors import Refused, RunExists, RunHeld, RunNotFound, StepNotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.state import RunState, StepState


def decide(state: RunState | None, command: c.Command) -> Sequence[e.Event]:
    """The events that `command` brings about, none if it changes nothing."""
    if state is None:
        if isinstance(command, c.CreateRun):
            return [
                e.RunCreated(
                    command.code,
                    command.digest,
                    command.args,
                    command.blob,
                    command.parent,
                    command.parent_step,
                )
            ]
        raise RunNotFound(getattr(command, "run_id", ""))
    return _DECIDE[type(command)](state, command)


def _create(state: RunState, command: c.CreateRun) -> Sequence[e.Event]:
    if state.code.name != command.code.name:
        raise RunExists(command.run_id, f"another workflow ({state.code.name}, not {command.code.name})")
    if state.digest != command.digest:
        raise RunExists(command.run_id, "other arguments")
    return []


def _claim(state: RunState, command: c.ClaimRun) -> Sequence[e.Event]:
    if state.status in ("completed", "failed", "cancelled"):
        raise Refused(f"run {command.run_id} has ended ({state.status}); there is nothing to execute")
    if state.owner and state.owner not in (command.dead, command.owner) and not command.force:
        raise RunHeld(command.run_id, 0, state.owner)
    if state.owner == command.owner:
        return []
    return [e.RunClaimed(command.owner, state.epoch + 1, state.owner, command.force)]


def _release(state: RunState, command: c.ReleaseRun) -> Sequence[e.Event]:
    if state.owner != command.owner:
        return []
    return [e.RunReleased(command.owner, command.reason)]


def _reopen(state: RunState, command: c.ReopenRun) -> Sequence[e.Event]:
    if state.status not in ("failed", "cancelled"):
        return []
    # An error that came out of a child run names a step of that run.
    failed = [state.steps[key] for key in state.failed_steps if key in state.steps]
    again = [step.key for step in failed if step.status == "failed"]
    return [*(e.StepReopened(key, state.generation) for key in again), e.RunReopened()]


def _owned(state: RunState) -> None:
    if not state.owner:
        raise Refused("the run has no owner, so nothing can be executed in it")


def _start_step(state: RunState, command: c.StartStep) -> Sequence[e.Event]:
    _owned(state)
    step = state.steps.get(command.key)
    attempt = 1
    if step is not None:
        if step.status in ("completed", "failed", "in_doubt", "sleeping"):
            raise Refused(f"step {command.key} is {step.status}; it cannot start again")
        attempt = step.attempt + 1
    return (
        e.StepStarted(
            command.key,
            command.name,
            command.digest,
            command.ordinal,
            attempt,
            command.effect,
            command.kind,
            state.generation,
            command.args,
            command.preview,
            command.size,
            command.child,
        ),
    )


def _run_step(state: RunState, command: c.RunStep) -> Sequence[e.Event]:
    _owned(state)
    ran = command.ran
    if ran.key in state.steps:
        raise Refused(f"step {ran.key} is {state.steps[ran.key].status}; it is not a new one")
    if ran.generation != state.generation:
        raise Refused(f"step {ran.key} is of generation {ran.generation}, not {state.generation}")
    return (ran,)


def _running(state: RunState, key: str) -> StepState:
    step = state.steps.get(key)
    if step is None:
        raise Refused(f"step {key} has not started")
    if step.status != "running":
        raise Refused(f"step {key} is {step.status}, not running")
    return step


def _complete_step(state: RunState, command: c.CompleteStep) -> Sequence[e.Event]:
    step = _running(state, command.key)
    return (
        e.StepCompleted(
            command.key, command.result, command.blob, step.attempt, state.generation, command.secret
        ),
    )


def _fail_attempt(state: RunState, command: c.FailAttempt) -> Sequence[e.Event]:
    step = _running(state, command.key)
    if command.retry_at:
        return [
            e.StepAttemptFailed(command.key, step.attempt, command.error, command.retry_at, state.generation)
        ]
    return [e.StepFailed(command.key, command.error, step.attempt, state.generation)]


def _doubt(state: RunState, command: c.DoubtStep) -> Sequence[e.Event]:
    step = state.steps.get(command.key)
    if step is None:
        raise StepNotFound(command.run_id, command.key)
    if step.status == "in_doubt":
        return []
    _running(state, command.key)
    return [e.StepInDoubt(command.key, command.why, state.generation, command.verifiable)]


def _settle(state: RunState, command: c.SettleStep) -> Sequence[e.Event]:
    step = state.steps.get(command.key)
    if step is None:
        raise StepNotFound(command.run_id, command.key)
    before: list[e.Event] = []
    if step.status == "running" and step.effect == "once" and command.abandoned:
        before = [e.StepInDoubt(command.key, "was cut off when its process died", state.generation)]
    elif step.status != "in_doubt":
        raise Refused(f"step {command.key} of run {command.run_id} is {step.status}, not in doubt")
    return [
        *before,
        e.StepSettled(
            command.key,
            command.outcome,
            command.by,
            state.generation,
            command.result,
            command.blob,
            command.error,
        ),
    ]


def _start_sleep(state: RunState, command: c.StartSleep) -> Sequence[e.Event]:
    _owned(state)
    if command.key in state.steps:
        raise Refused(f"sleep {command.key} has begun already")
    return [e.SleepStarted(command.key, command.ordinal, command.until, state.generation)]


def _end_sleep(state: RunState, command: c.EndSleep) -> Sequence[e.Event]:
    step = state.steps.get(command.key)
    if step is None or step.status != "sleeping":
        raise Refused(f"sleep {command.key} is not going on")
    return [e.SleepEnded(command.key, state.generation)]


def _record_value(state: RunState, command: c.RecordValue) -> Sequence[e.Event]:
    if command.key in state.steps:
        raise Refused(f"value {command.key} is recorded already")
    return [e.ValueRecorded(command.key, command.ordinal, command.value, state.generation)]


def _capture_output(state: RunState, command: c.CaptureOutput) -> Sequence[e.Event]:
    step = _running(state, command.key)
    return [e.OutputCaptured(command.key, step.attempt, command.source, command.text, state.generation)]


def _live(state: RunState) -> None:
    _owned(state)
    if state.ended:
        raise Refused(f"the run has ended ({state.status})")


def _attend(state: RunState, command: c.AttendRun) -> Sequence[e.Event]:
    _live(state)
    return [e.RunNeedsAttention(command.cause, command.reason, command.step)]


def _complete_run(state: RunState, command: c.CompleteRun) -> Sequence[e.Event]:
    _live(state)
    return [e.RunCompleted(command.result, command.blob)]


def _fail_run(state: RunState, command: c.FailRun) -> Sequence[e.Event]:
    _live(state)
    return [e.RunFailed(command.error, command.steps)]


def _cancel_run(state: RunState, command: c.CancelRun) -> Sequence[e.Event]:
    if state.ended:
        raise Refused(f"the run has ended ({state.status})")
    return [e.RunCancelled(command.reason)]


_DECIDE: Final[dict[type[c.Command], Callable[[RunState, Any], Sequence[e.Event]]]] = {
    c.CreateRun: _create,
    c.ClaimRun: _claim,
    c.ReleaseRun: _release,
    c.ReopenRun: _reopen,
    c.StartStep: _start_step,
    c.CompleteStep: _complete_step,
    c.RunStep: _run_step,
    c.FailAttempt: _fail_attempt,
    c.DoubtStep: _doubt,
    c.SettleStep: _settle,
    c.StartSleep: _start_sleep,
    c.EndSleep: _end_sleep,
    c.RecordValue: _record_value,
    c.CaptureOutput: _capture_output,
    c.AttendRun: _attend,
    c.CompleteRun: _complete_run,
    c.FailRun: _fail_run,
    c.CancelRun: _cancel_run,
}
