"""The decisions: `decide(state, command) -> events`.

Pure: it reads the state, never changes it, and emits only what `evolve` accepts. A command that
does not fit raises the error that says what to do; nothing is half done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from holdfast.errors import GateError, Refused, RunExists, RunHeld, RunNotFound, StepNotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel import generations
from holdfast.kernel.identity import branch_name, matches
from holdfast.kernel.state import GATES, OVER, UNDONE, RunState, StepState
from holdfast.ways import Way, quoted

E = TypeVar("E", bound=e.Event)


def decide(state: RunState | None, command: c.Command) -> Sequence[e.Event]:
    """The events that `command` brings about, none if it changes nothing."""
    if state is None:
        if isinstance(command, c.CreateRun):
            return [_copied(e.RunCreated, command)]
        raise RunNotFound(getattr(command, "run_id", ""))
    return _DECIDE[type(command)](state, command)


def _copied(event: type[E], command: c.Command, **more: Any) -> E:
    """The event with the fields that it shares with the command, and with `more`."""
    return event(**{name: getattr(command, name) for name in _shared(event, type(command))}, **more)


@cache
def _shared(event: type[e.Event], command: type[c.Command]) -> Sequence[str]:
    return [name for name in event.__struct_fields__ if name in command.__struct_fields__]


def _create(state: RunState, command: c.CreateRun) -> Sequence[e.Event]:
    if state.code.name != command.code.name:
        raise RunExists(command.run_id, f"another workflow ({state.code.name}, not {command.code.name})")
    if state.digest != command.digest and state.digest not in command.older:
        raise RunExists(command.run_id, "other arguments")
    return []


def _claim(state: RunState, command: c.ClaimRun) -> Sequence[e.Event]:
    if state.ended:
        raise Refused(f"run {command.run_id} has ended ({state.status}); there is nothing to execute")
    if state.owner and state.owner not in (command.dead, command.owner) and not command.force:
        raise RunHeld(command.run_id, 0, state.owner)
    if state.cancel is not None:  # its owner died, or could not write, before it had done that
        return _cancelled(state, state.cancel.reason, state.cancel.by, command.seen_at)
    if state.owner == command.owner:
        return []
    return [
        e.RunClaimed(
            command.owner, state.epoch + 1, state.owner, command.force, command.seen_at, ordered=True
        )
    ]


def _release(state: RunState, command: c.ReleaseRun) -> Sequence[e.Event]:
    if state.owner != command.owner:
        return []
    return [e.RunReleased(command.owner, command.reason, command.waits)]


def _reopen(state: RunState, command: c.ReopenRun) -> Sequence[e.Event]:
    if state.status not in UNDONE:
        return []
    # An error that came out of a child run names a step of that run.
    failed = [state.steps[key] for key in state.failed_steps if key in state.steps]
    again = [step.key for step in failed if step.status == "failed"]
    if state.status == "cancelled":  # its child runs ended with it, and continue it
        again += [step.key for step in state.steps.values() if step.child and step.status == "running"]
    return [*(e.StepReopened(key, state.generation) for key in again), e.RunReopened()]


def _owned(state: RunState) -> None:
    if not state.owner:
        raise Refused("the run has no owner, so nothing can be executed in it")


def _start_step(state: RunState, command: c.StartStep) -> Sequence[e.Event]:
    _owned(state)
    step = state.steps.get(command.key)
    attempt = 1
    if step is not None:
        if step.status not in ("running", "retrying", "reopened"):
            raise Refused(f"step {command.key} is {step.status}; it cannot start again")
        attempt = step.attempt + 1
    return (_copied(e.StepStarted, command, attempt=attempt, generation=state.generation),)


def _run_step(state: RunState, command: c.RunStep) -> Sequence[e.Event]:
    if not state.owner:  # without a call for each step
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


def _measure(state: RunState, command: c.MeasureStep) -> Sequence[e.Event]:
    """Allowed in every status of the step: its usage has happened."""
    _owned(state)
    step = state.steps.get(command.key)
    if step is None or not 0 < command.attempt <= step.attempt:
        raise Refused(f"attempt {command.attempt} of step {command.key} has not started")
    return [e.StepMeasured(command.key, command.attempt, command.measures, state.generation)]


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
    return [*before, _copied(e.StepSettled, command, generation=state.generation)]


def _capture_output(state: RunState, command: c.CaptureOutput) -> Sequence[e.Event]:
    attempt = command.attempt or _running(state, command.key).attempt
    return [e.OutputCaptured(command.key, attempt, command.source, command.text, state.generation)]


def _live(state: RunState) -> None:
    _owned(state)
    if state.ended:
        raise Refused(f"the run has ended ({state.status})")


def _attend(state: RunState, command: c.AttendRun) -> Sequence[e.Event]:
    _live(state)
    return [e.RunNeedsAttention(command.cause, command.reason, command.step)]


def _lose_history(state: RunState, command: c.LoseHistory) -> Sequence[e.Event]:
    """A run of a repaired store has no owner. One that had ended stays as it is."""
    if state.ended:
        return []
    cut_off = _cut_off(state, "was under way where its history is cut off")
    step = command.step or (cut_off[0].key if cut_off else "")
    return [*cut_off, e.RunNeedsAttention("history_lost", command.reason, step)]


def _complete_run(state: RunState, command: c.CompleteRun) -> Sequence[e.Event]:
    _live(state)
    return [e.RunCompleted(command.result, command.blob)]


def _fail_run(state: RunState, command: c.FailRun) -> Sequence[e.Event]:
    _live(state)
    return [e.RunFailed(command.error, command.steps)]


def _cancel_run(state: RunState, command: c.CancelRun) -> Sequence[e.Event]:
    _not_ended(state, command.run_id, "cancel")
    if state.owner and command.live:
        return [] if state.cancel else [e.CancelRequested(command.reason, command.by)]
    return _cancelled(state, command.reason, command.by, command.seen_at)


def _cancelled(state: RunState, reason: str, by: str, seen_at: int) -> Sequence[e.Event]:
    cut_off = _cut_off(state, "was cut off when the run was cancelled")
    return [*cut_off, e.RunCancelled(reason, by, seen_at)]


def _cut_off(state: RunState, why: str) -> list[e.StepInDoubt]:
    """A doubt for each `once` step that was under way."""
    return [
        e.StepInDoubt(step.key, why, state.generation)
        for step in state.steps.values()
        if step.effect == "once" and step.status == "running"
    ]


def _pause_run(state: RunState, command: c.PauseRun) -> Sequence[e.Event]:
    _not_ended(state, command.run_id, "pause")
    if state.status == "paused":
        return []
    if state.owner and command.live:
        return [] if state.pause else [e.PauseRequested(command.reason, command.by)]
    return [_copied(e.RunPaused, command)]


def _not_ended(state: RunState, run_id: str, what: str) -> None:
    if state.ended:
        raise Refused(f"run {run_id} has ended ({state.status}); there is nothing to {what}")


# Gates and signals

_WAITS = GATES | {"sleep"}


_RECORDED_ONCE: Final[dict[type[e.Event], str]] = {
    e.CheckpointTaken: "checkpoint {} is recorded already",
    e.Emitted: "emission {} is recorded already",
    e.EvidenceWritten: "milestone {} is recorded already",
    e.GateOpened: "gate {} was opened before",
    e.OutcomeReported: "outcome {} is recorded already",
    e.PatchSeen: "patch {} is recorded already",
    e.SleepStarted: "sleep {} has begun already",
    e.StageEntered: "stage {} is recorded already",
    e.ValueRecorded: "value {} is recorded already",
}
_NEED_OWNER: Final = (
    e.CheckpointTaken, e.EvidenceWritten, e.FilesSaved, e.GateOpened, e.OutcomeDelivered, e.SleepStarted,
    e.TimerFired,
)  # fmt: skip


def _record(state: RunState, command: c.Record) -> Sequence[e.Event]:
    event: Any = msgspec.structs.replace(command.event, generation=state.generation)
    if isinstance(event, _NEED_OWNER):
        _owned(state)
    if (refusal := _RECORDED_ONCE.get(type(event))) and event.key in state.steps:
        raise Refused(refusal.format(event.key))
    if isinstance(event, e.SleepEnded):
        step = state.steps.get(event.key)
        if step is None or step.status != "sleeping":
            raise Refused(f"sleep {event.key} is not under way")
    if isinstance(event, e.OutcomeDelivered):
        gate = state.steps.get(event.key)
        if gate is None or gate.kind not in GATES or gate.status not in OVER:
            raise Refused(f"{event.key} is no gate that has an outcome")
    if isinstance(event, e.GateOpened) and event.kind == "signal":
        for version, signal in state.signals.items():
            if signal.name == event.name and not signal.taken_by:
                return [event, _received(state, event.key, signal.value, signal.blob, version)]
    return [event]


def _received(state: RunState, key: str, value: msgspec.Raw, blob: str, version: int) -> e.GateDecided:
    return e.GateDecided(key, "received", value=value, blob=blob, signal=version, generation=state.generation)


def _decide_gate(state: RunState, command: c.DecideGate) -> Sequence[e.Event]:
    _not_ended_at_gate(state, command.run_id)
    gate = _the_gate(state, command)
    if gate.status == "abandoned":
        raise GateError(f"gate {gate.key} of run {command.run_id} was given up: the run continued without it")
    if gate.status != "waiting":
        raise GateError(
            f"gate {gate.key} of run {command.run_id} was decided before: {gate.outcome}"
            + (f" by {gate.by}" if gate.by else "")
        )
    if command.digest and not gate.digest.startswith(command.digest):
        raise GateError(
            f"gate {gate.key} of run {command.run_id} shows something else than what you have seen "
            f"({gate.digest[:6]}, not {command.digest[:6]}); look again: "
            f"{quoted(Way('show', command.run_id))}"
        )
    return [
        e.GateDecided(gate.key, command.outcome, command.by, command.comment, generation=state.generation)
    ]


def _not_ended_at_gate(state: RunState, run_id: str) -> None:
    if state.ended:
        raise GateError(f"run {run_id} has ended ({state.status}); there is nothing to decide")


def _the_gate(state: RunState, command: c.DecideGate) -> StepState:
    """The approval that is meant; an error that names what there is, if that is not clear."""
    gates = [step for step in state.steps.values() if step.kind == "approval"]
    waiting = [gate for gate in gates if gate.status == "waiting"]
    if command.gate:
        named = [
            gate
            for gate in gates
            if command.gate in (gate.name, branch_name(gate.key)) or matches(gate.key, command.gate)
        ]
        found = [gate for gate in named if gate.status == "waiting"] or named[-1:]
    else:
        found = waiting or gates[-1:]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{gate.key}@{gate.digest[:6]}" for gate in waiting)
    if not waiting:
        raise GateError(f"run {command.run_id} has no open gate")
    if not found:
        raise GateError(f"run {command.run_id} has no gate {command.gate!r}; open: {names}")
    raise GateError(f"run {command.run_id} has several open gates, say which: {names}")


def _expire_gate(state: RunState, command: c.ExpireGate) -> Sequence[e.Event]:
    gate = state.steps.get(command.key)
    if gate is None or gate.status != "waiting" or not gate.due_at or command.now < gate.due_at:
        return []
    return [e.GateDecided(command.key, "unanswered", generation=state.generation)]


def _abandon_wait(state: RunState, command: c.AbandonWait) -> Sequence[e.Event]:
    _owned(state)
    wait = state.steps.get(command.key)
    if wait is None or (wait.kind not in _WAITS and wait.status not in ("retrying", "abandoned")):
        raise Refused(f"{command.key} is no gate, no sleep and no step that is to be tried again")
    if wait.status == "abandoned":
        return []
    abandoned = e.WaitAbandoned(command.key, state.generation)
    for version, signal in state.signals.items():
        if signal.taken_by == command.key and (heir := _waits_for(state, signal.name)) is not None:
            return [abandoned, _received(state, heir.key, signal.value, signal.blob, version)]
    return [abandoned]


def _waits_for(state: RunState, signal: str) -> StepState | None:
    """The open gate that gets the next signal of this name."""
    gates = (gate for gate in state.open_gates() if gate.kind == "signal" and gate.name == signal)
    return next(gates, None)


def _send_signal(state: RunState, command: c.SendSignal) -> Sequence[e.Event]:
    _not_ended(state, command.run_id, "signal")
    received = e.SignalReceived(command.name, command.value, command.blob, command.by)
    gate = _waits_for(state, command.name)
    if gate is None:
        return [received]
    return [received, _received(state, gate.key, command.value, command.blob, state.version + 1)]


def _verify_evidence(state: RunState, command: c.VerifyEvidence) -> Sequence[e.Event]:
    """Allowed for any owner, and also when the run has ended."""
    milestone = state.steps.get(command.key)
    if milestone is None or milestone.kind != "checkpoint":
        raise StepNotFound(command.run_id, command.key)
    return [_copied(e.EvidenceVerified, command, generation=state.generation)]


_DECIDE: Final[dict[type[c.Command], Callable[[RunState, Any], Sequence[e.Event]]]] = {
    c.CreateRun: _create,
    c.ClaimRun: _claim,
    c.ReleaseRun: _release,
    c.ReopenRun: _reopen,
    c.StartStep: _start_step,
    c.CompleteStep: _complete_step,
    c.RunStep: _run_step,
    c.FailAttempt: _fail_attempt,
    c.MeasureStep: _measure,
    c.DoubtStep: _doubt,
    c.SettleStep: _settle,
    c.CaptureOutput: _capture_output,
    c.AttendRun: _attend,
    c.LoseHistory: _lose_history,
    c.CompleteRun: _complete_run,
    c.FailRun: _fail_run,
    c.CancelRun: _cancel_run,
    c.PauseRun: _pause_run,
    c.RewindRun: generations.decide_rewind,
    c.RestoreGeneration: generations.decide_restore,
    c.Record: _record,
    c.DecideGate: _decide_gate,
    c.ExpireGate: _expire_gate,
    c.AbandonWait: _abandon_wait,
    c.SendSignal: _send_signal,
    c.VerifyEvidence: _verify_evidence,
}
