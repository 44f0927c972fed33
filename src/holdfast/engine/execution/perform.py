"""The rule of a step, without I/O.

`perform` is a generator. It yields what it needs, an `Append` to be committed, a `Body` to be run, a `Pause`
to wait, and gets the answer sent back; the drivers (`thread_driver`, `task_driver`) do these things. It ends
with an `Outcome`. A call whose recorded value the driver finds by itself (`Execution.recall`), and a new step
that succeeds at once, never get here: the drivers take these straight.

    recall ──completed──▶ the recorded value        (or the recorded error)
       │
       ▼ new, cut off, or due again
    intent ─▶ Body ─▶ record ─▶ value               idempotent: the intent rides with the record
                  └──▶ record ─▶ Pause ─▶ intent …   a failure that Retry wants again

A step that costs reserves before its intent, and settles with its record (`reserving`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.execution import step_output
from holdfast.engine.execution.call import RUN, Body, Call, Outcome, Pause, Request
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.reserving import Held, reserve, settled
from holdfast.engine.execution.step_options import seconds
from holdfast.errors import InDoubt, NotStorable, StepTimeout
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.events import Failure
from holdfast.kernel.failure import as_recorded, mark_step, rebuild
from holdfast.kernel.state import StepState
from holdfast.store.port import Append, NewEvent

if TYPE_CHECKING:
    from holdfast.engine.execution.delivery import Turn

NOT_DONE: Any = object()
"""A `verify` hook returns this, as `holdfast.NOT_DONE`, if the step did not happen and must run."""


class Failed(NamedTuple):
    """How an attempt failed."""

    failure: Failure
    deserves_retry: bool


class Attempted(NamedTuple):
    """How an attempt ended: `failed` is None if it succeeded, which is recorded then. `began` goes before the
    record of a failure, and `held` is what it has reserved."""

    outcome: Outcome
    failed: Failed | None = None
    began: Sequence[NewEvent] = ()
    held: Held | None = None
    ran: bool = True
    """Whether its body was begun."""


def perform(
    call: Call, past: StepState | None, tried: Outcome | None = None
) -> Generator[Request, Outcome | None, Outcome]:
    """The outcome of a call without a recorded one; `tried` is the outcome of a first attempt that the driver
    has made itself."""
    if call.ordinal:
        return (yield from _perform(call, past, tried))
    # Only a key of the user's own choice can be called twice at once.
    keyed = call.execution.keyed
    if keyed.setdefault(call.key, call) is not call:
        return Outcome(None, call.twice())
    try:
        return (yield from _perform(call, call.recall(), None))
    finally:
        keyed.pop(call.key, None)


def _perform(
    call: Call, past: StepState | None, tried: Outcome | None
) -> Generator[Request, Outcome | None, Outcome]:
    run = call.execution
    if past is not None:
        known = yield from _take_up(call, past)
        if known is not None:
            return known
    failures = past.failures if past is not None else 0
    while True:
        if run.control is not None and tried is None:
            raise run.control
        try:
            attempted = yield from _attempt(call, past is None and not failures, tried)
            outcome, failed, began, held, ran = attempted
            tried = None
            if failed is None:
                return outcome
            failures += 1
            retry_at = _next_try(call, failures) if failed.deserves_retry else 0
            if retry_at and call.spec.effect == "once":
                # It failed, but it may have happened: only its verify hook can tell.
                not_done = c.FailAttempt(call.key, failed.failure, retry_at)
                known = yield from _resolve_doubt(call, f"failed ({outcome.error!r})", not_done, held)
                if known is not None:
                    return known
            else:
                ends = "" if retry_at else call.key
                failure = c.FailAttempt(call.key, failed.failure, retry_at)
                entry = run.append_of([*call.measured(), failure], before=began, ends=ends)
                late = isinstance(outcome.error, StepTimeout)
                yield entry if held is None else settled(call, held, entry, begun=ran, cut_off=late)
                if not retry_at:
                    return outcome
        finally:
            if call.guard is not None:
                call.guard.close()
        yield _until_due(run.state.steps[call.key])


def _take_up(call: Call, past: StepState) -> Generator[Request, Outcome | None, Outcome | None]:
    """Continue where the history stops: None means that the step is to be started (again)."""
    if past.status == "completed":
        if not past.secret:
            return Outcome(call.value_of(past))
        again = yield _body(call)
        call.flush_measured()
        return again
    if past.status == "failed":
        assert past.error is not None
        error = rebuild(past.error)
        mark_step(error, call.key)
        return Outcome(None, error)
    if past.status == "retrying":
        yield _until_due(past)
    elif past.status == "in_doubt" or (past.status == "running" and past.effect == "once"):
        return (yield from _resolve_doubt(call, past.why or "was cut off when its process died"))
    return None


def _attempt(call: Call, new: bool, outcome: Outcome | None) -> Generator[Request, Outcome | None, Attempted]:
    """One attempt, recorded if it succeeds."""
    run = call.execution
    spec = call.spec
    held: Held | None = None
    late = False
    ran = True
    if outcome is None:
        in_time = not call.deadline or call.deadline.left_s(run.engine.clock) > 0
        if spec.effect == "workspace" and in_time:
            yield from run.engine.files.enter(call)
        if spec.reserve is not None and in_time:
            outcome, held = yield from reserve(call)
            if outcome is not None:
                call.begin()
                ran = False
    if outcome is None:
        call.watch()
        try:
            with run.taking:
                call.begin()
                late = bool(call.deadline) and not call.deadline.left_s(run.engine.clock)
                events = call.take() if not late and (spec.intent_first or not new) else ()
            if events:
                call.attempt = run.state.steps[call.key].attempt
                # With a reservation it waits for the disk, for both: what was begun is charged.
                yield run.make_append(events, durable=spec.effect != "idempotent" or held is not None)
                if call.guard is not None:
                    call.guard.begun()
                if run.control is not None and run.control.at_once:
                    raise run.control
            if not late:
                step_output.open_for(call)
                outcome = yield _body(call)
        finally:
            call.end()
        if late:
            outcome, ran = Outcome(None, StepTimeout(call.key, 0, "deadline")), False
        else:
            if call.guard is not None and outcome is not None:
                outcome = yield from run.engine.files.leave(call, outcome)
    assert outcome is not None
    if outcome.error is None:
        try:
            done = completion(call, outcome.value)
            yield done if held is None else settled(call, held, done)
            return Attempted(outcome)
        except NotStorable as error:
            if spec.effect == "once":
                call.flush_measured()
                raise run.stop(doubt(call, f"was done, but its result was lost ({error})")) from None
            outcome = Outcome(None, error)
    failed, outcome = _failed(call, outcome, began=ran)
    with run.taking:
        began = call.take()
    return Attempted(outcome, failed, began, held, ran)


def completion(call: Call, value: Any, turn: Turn | None = None) -> Append:
    """The append that records the result, and with it the attempt if the log does not have that yet.
    `turn` is the one that the caller waits for already, if it does."""
    run, spec, key = call.execution, call.spec, call.key
    result, blob = e.NOTHING, ""
    blobs: Sequence[tuple[str, bytes]] = ()
    if not spec.secret:
        result, blob, blobs = run.engine.store_value(value, f"the result of step {key}")
    began: Sequence[NewEvent] = ()
    with run.taking:
        if call.meter is not None:  # measures can be recorded only of a step that the log has
            began = call.take()
        known, call.taken = call.taken, True
    command: c.Command
    if known:
        command = c.CompleteStep(key, result, blob, spec.secret)
    else:
        of = call.digested
        command = c.RunStep(
            e.StepRan(
                key, spec.name, call.at, of.digest, call.ordinal, of.args, of.preview, of.size,
                result, blob, run.state.generation, spec.secret,
            )
        )  # fmt: skip
    at = run.engine.clock.now_us()
    events = run.record(command, at) if call.meter is None else _with_measured(call, command, began, at)
    return run.make_append(events, blobs=blobs, ends=key, turn=turn)


def _with_measured(call: Call, command: c.Command, began: Sequence[NewEvent], at: int) -> Sequence[NewEvent]:
    """Record the measures of the attempt before its result, and its beginning before both."""
    record = call.execution.record
    return [*began, *(event for one in (*call.measured(), command) for event in record(one, at))]


def _failed(call: Call, outcome: Outcome, *, began: bool) -> tuple[Failed, Outcome]:
    """How the attempt failed, and the outcome to raise: the same class now and in every replay."""
    run = call.execution
    error = outcome.error
    assert error is not None
    if isinstance(error, Control):
        call.flush_measured()
        raise run.stop(error)
    cut_off = isinstance(error, StepTimeout) or not isinstance(error, Exception)
    if call.spec.effect == "once" and began and cut_off:
        why = "took too long" if isinstance(error, StepTimeout) else "was cancelled while it ran"
        call.flush_measured()
        raise run.stop(doubt(call, why))
    if not isinstance(error, Exception):
        # Not a failure of the step: it runs again when the run continues. Nothing after it is recorded.
        call.flush_measured()
        run.interrupted(error)
        raise error
    deserves_retry = _deserves_retry(call, error)
    failure, error = as_recorded(error, run.engine.redactor)
    mark_step(error, call.key)
    return Failed(failure, deserves_retry), Outcome(None, error)


def _deserves_retry(call: Call, error: Exception) -> bool:
    """Whether to retry, by the original error: the recorded one may have less. A filter that raises means
    no."""
    retry = call.spec.retry
    if retry.attempts == 1 or isinstance(error, NotStorable):
        return False
    try:
        return retry.wants(error)
    except Exception as wrong:
        error.add_note(f"not tried again: Retry(on=...) of step {call.spec.name} raised {wrong!r}")
        return False


def _next_try(call: Call, failures: int) -> int:
    """When the next attempt is due, in microseconds; 0 if there is none."""
    retry = call.spec.retry
    if failures >= retry.attempts:
        return 0
    clock = call.execution.engine.clock
    delay = retry.delay(failures, clock.random())
    due = clock.now_us() + int(delay * 1e6)
    first = call.execution.state.steps[call.key].first_started_at
    if retry.total is not None and due > first + int(seconds(retry.total) * 1e6):
        return 0
    if call.deadline and delay >= call.deadline.left_s(clock):
        return 0
    return max(due, 1)


def _until_due(step: StepState) -> Pause:
    """Until the next attempt of a step that has failed."""
    return Pause(step.due_at, max(0, step.due_at - step.ended_at) / 1e6)


def _body(call: Call) -> Body:
    timeout = call.spec.timeout
    if call.deadline and call.spec.kind == "step":
        # A child run and a command keep the deadline themselves, and end in order.
        left = call.deadline.left_s(call.execution.engine.clock)
        timeout = left if timeout is None else min(timeout, left)
    return RUN if timeout is None else Body(None, timeout)


# Doubt


def doubt(call: Call, why: str) -> Control:
    """The signal that stops the run; `why` may quote an error, and is redacted."""
    run = call.execution
    why = run.engine.redactor.redact(why)
    error = InDoubt(run.id, call.key, why)
    return Control(
        error,
        [
            c.DoubtStep(run.id, call.key, why, call.spec.verify is not None),
            c.AttendRun("in_doubt", error.reason, call.key),
        ],
    )


def _resolve_doubt(
    call: Call, why: str, not_done: c.Command | None = None, held: Held | None = None
) -> Generator[Request, Outcome | None, Outcome | None]:
    """Ask the `verify` hook whether the step happened; without an answer the run stops. `not_done` is the
    command to record if it did not; without one, the step is settled for a retry. `held` is the reservation
    of the attempt."""
    run = call.execution
    why = run.engine.redactor.redact(why)
    call.flush_measured()
    if call.spec.verify is None:
        raise run.stop(doubt(call, why))
    call.attempt = run.state.steps[call.key].attempt
    step_output.open_for(call)
    try:
        answer = yield Body(call.spec.verify, None)
    finally:
        step_output.close(call)
    call.flush_measured()
    assert answer is not None
    if answer.error is not None:
        raise run.stop(doubt(call, f"{why}, and its verify hook failed ({answer.error!r})"))
    resolved: list[c.Command] = []
    if run.state.steps[call.key].status == "running":
        resolved.append(c.DoubtStep(run.id, call.key, why, True))
    if answer.value is NOT_DONE:
        again = [*resolved, c.SettleStep(run.id, call.key, "retry", "verify")]
        entry = run.append_of(again if not_done is None else [not_done])
        yield entry if held is None else settled(call, held, entry)
        return None
    result, blob, blobs = run.engine.store_value(answer.value, f"the result of verify for step {call.key}")
    settle = c.SettleStep(run.id, call.key, "done", "verify", result, blob)
    entry = run.append_of([*resolved, settle], blobs=blobs, ends=call.key)
    yield entry if held is None else settled(call, held, entry)
    return answer
