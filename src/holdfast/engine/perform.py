"""What happens when a step is called: the whole rule, once, without I/O.

`perform` is a generator. It yields what it needs, an `Append` to be committed, `BODY` to run the
step's function, a `Pause` to wait, and gets the answer sent back; the two drivers (`drive`, `aio`)
do these things in their own colour. It ends with an `Outcome`.

    recall ──completed──▶ the recorded value        (or the recorded error)
       │
       ▼ new, cut off, or due again
    intent ─▶ BODY ─▶ record ─▶ value               idempotent: the intent rides with the record
                  └──▶ record ─▶ Pause ─▶ intent …   a failure that Retry wants again
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.control import Control
from holdfast.engine.execution import Execution, Intent
from holdfast.engine.policy import ONCE, Retry, seconds
from holdfast.errors import BadInput, InDoubt, NotStorable, StepTimeout
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.events import Effect, StepKind
from holdfast.kernel.failure import STEP_MARK, Failure, capture, rebuild, round_trips
from holdfast.kernel.state import StepState
from holdfast.store.port import Append, NewEvent

if TYPE_CHECKING:
    from holdfast.engine.arguments import Digested

_NO_KWARGS: dict[str, Any] = {}

NOT_DONE: Any = object()
"""What a `verify` hook returns, as `holdfast.NOT_DONE`, to say: it did not happen, run it."""


class Spec:
    """What a step promises, whoever calls it."""

    __slots__ = (
        "body",
        "child",
        "effect",
        "intent_first",
        "is_async",
        "kind",
        "name",
        "retry",
        "secret",
        "timeout",
        "verify",
    )

    def __init__(
        self,
        name: str,
        body: Callable[..., Any],
        *,
        kind: StepKind = "step",
        effect: Effect = "idempotent",
        retry: Retry = ONCE,
        timeout: float | None = None,
        verify: Callable[..., Any] | None = None,
        secret: bool = False,
        child: str = "",
        intent_first: bool = False,
        is_async: bool = False,
    ) -> None:
        self.name = name
        self.body = body
        self.is_async = is_async
        self.kind = kind
        self.effect = effect
        self.retry = retry
        self.timeout = timeout
        self.verify = verify
        self.secret = secret
        self.child = child
        self.intent_first = intent_first or effect == "once"


class Call:
    """One call of a step, its identity fixed."""

    __slots__ = (
        "args", "attempt", "deadline", "digested", "execution", "key", "kwargs", "ordinal", "overdue", "spec",
    )  # fmt: skip

    def __init__(
        self,
        execution: Execution,
        spec: Spec,
        key: str,
        ordinal: int,
        digested: Digested,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] = _NO_KWARGS,
        deadline: float = 0.0,
    ) -> None:
        self.execution = execution
        self.spec = spec
        self.key = key
        self.ordinal = ordinal
        self.digested = digested
        self.args = args
        self.kwargs = kwargs
        self.deadline = deadline
        self.attempt = 1
        self.overdue: Any = None
        """The thread of an attempt that took too long and has not returned yet."""

    def recall(self) -> StepState | None:
        """What the history has of it; a call that does not match it stops the run."""
        spec = self.spec
        return self.execution.recall(self.key, spec.name, self.ordinal, self.digested.digest, spec.kind)


class Outcome(NamedTuple):
    value: Any = None
    error: BaseException | None = None


class Pause(NamedTuple):
    """Wait until this wall time."""

    until_us: int


class Body(NamedTuple):
    """Run the step's function, or `hook` instead of it; `timeout_s` limits it."""

    hook: Callable[..., Any] | None
    timeout_s: float | None


Request = Append | Pause | Body
_RUN = Body(None, None)


def perform(call: Call, past: StepState | None) -> Generator[Request, Outcome | None, Outcome]:
    """The outcome of a call that the history does not answer."""
    if call.ordinal:
        return (yield from _perform(call, past))
    # Only a key of the user's own choice can be called twice at once.
    keyed = call.execution.keyed
    if keyed.setdefault(call.key, call) is not call:
        return Outcome(
            None, BadInput(f"step {call.key} is called twice at once: give each call a key of its own")
        )
    try:
        return (yield from _perform(call, call.recall()))
    finally:
        del keyed[call.key]


def _perform(call: Call, past: StepState | None) -> Generator[Request, Outcome | None, Outcome]:
    run = call.execution
    if past is not None:
        known = yield from _take_up(call, past)
        if known is not None:
            return known
    failures = past.failures if past is not None else 0
    while True:
        if run.control is not None:
            raise run.control
        outcome, failed = yield from _attempt(call)
        if failed is None:
            return outcome
        failures += 1
        retry_at = _next_try(call, outcome.error, failures)
        if retry_at and call.spec.effect == "once":
            # It failed, but it may have happened: only its verify hook can tell.
            known = yield from _resolve_doubt(call, f"failed ({outcome.error!r})")
            if known is not None:
                return known
            yield Pause(retry_at)
            continue
        yield run.entry([c.FailAttempt(call.key, failed, retry_at)])
        if not retry_at:
            return outcome
        yield Pause(retry_at)


def _take_up(call: Call, past: StepState) -> Generator[Request, Outcome | None, Outcome | None]:
    """Go on where the history stops: None means that the step is to be started (again)."""
    if past.status == "completed":
        if not past.secret:
            return Outcome(call.execution.value_of(past))
        return (yield _body(call))
    if past.status == "failed":
        assert past.error is not None
        error = rebuild(past.error)
        mark_step(error, call.key)
        return Outcome(None, error)
    if past.status == "retrying":
        yield Pause(past.due_at)
    elif past.status == "in_doubt" or (past.status == "running" and past.effect == "once"):
        return (yield from _resolve_doubt(call, past.why or "was cut off when its process died"))
    return None


def _attempt(call: Call) -> Generator[Request, Outcome | None, tuple[Outcome, Any]]:
    """One attempt, recorded if it succeeds; (outcome, failure to record or None)."""
    run = call.execution
    spec = call.spec
    engine = run.engine
    at = engine.clock.now_us()
    digested = call.digested
    started = run.record(
        c.StartStep(
            call.key, spec.name, digested.digest, call.ordinal, spec.effect, spec.kind,
            digested.args, digested.preview, digested.size, spec.child,
        ),
        at,
    )[0]  # fmt: skip
    assert type(started) is e.StepStarted
    call.attempt = started.attempt
    intent = Intent(run, NewEvent("StepStarted", at, e.encode(started)), engine.clock.monotonic())
    late = call.deadline and at >= call.deadline
    if late:
        outcome: Outcome | None = Outcome(None, StepTimeout(call.key, 0, "deadline"))
    else:
        if spec.intent_first or started.attempt > 1:
            intent.taken = True
            yield run.append((intent.event,), durable=spec.effect == "once")
        engine.flusher.watch(intent)
        try:
            outcome = yield _body(call)
        finally:
            engine.flusher.unwatch(intent)
    assert outcome is not None
    if outcome.error is None:
        try:
            yield _completion(call, started, intent, outcome.value)
            return outcome, None
        except NotStorable as error:
            if spec.effect == "once":
                raise run.stop(doubt(call, f"was done, but its result was lost ({error})")) from None
            outcome = Outcome(None, error)
    failure, outcome = _failed(call, outcome, began=not late)
    if not intent.taken:
        yield intent.flush()
    return outcome, failure


def _completion(call: Call, started: e.StepStarted, intent: Intent, value: Any) -> Append:
    """The append that records the result, with the intent in front if it is not in the log yet."""
    run = call.execution
    result, blob = e.NOTHING, ""
    blobs: Sequence[tuple[str, bytes]] = ()
    if not call.spec.secret:
        result, blob, blobs = run.engine.store_value(value, f"the result of step {call.key}")
    at = run.engine.clock.now_us()
    completed = run.record(c.CompleteStep(call.key, result, blob, call.spec.secret), at)[0]
    event = NewEvent("StepCompleted", at, e.encode(completed))

    def seal(append: Append) -> None:
        if intent.taken:
            append.events = (event,)
            append.step = None
        intent.taken = True
        run.seal(append)

    step = started if not blobs else None
    return run.append((intent.event, event), blobs=blobs, step=step, seal=seal)


def _failed(call: Call, outcome: Outcome, *, began: bool) -> tuple[Any, Outcome]:
    """The failure to record and the outcome to raise: the same class now and in every replay."""
    run = call.execution
    error = outcome.error
    assert error is not None
    if isinstance(error, Control):
        raise run.stop(error)
    cut_off = isinstance(error, StepTimeout) or not isinstance(error, Exception)
    if call.spec.effect == "once" and began and cut_off:
        why = "took too long" if isinstance(error, StepTimeout) else "was cancelled while it ran"
        raise run.stop(doubt(call, why))
    if not isinstance(error, Exception):
        # Not a failure of the step: it runs again when the run goes on. Nothing after it is recorded.
        run.interrupted(error)
        raise error
    failure, error = as_recorded(error, run.engine.redactor.redact)
    mark_step(error, call.key)
    return failure, Outcome(None, error)


def as_recorded(error: BaseException, redact: Callable[[str], str]) -> tuple[Failure, BaseException]:
    """The error as data, and the object to raise now: the original if replay will raise its equal,
    otherwise the one that replay will raise, with the original's traceback."""
    failure = capture(error, redact)
    if round_trips(error, failure):
        return failure, error
    return failure, rebuild(failure).with_traceback(error.__traceback__)


def _next_try(call: Call, error: BaseException | None, failures: int) -> int:
    """When the next attempt is due, in microseconds; 0 if there is none."""
    retry = call.spec.retry
    assert error is not None
    if failures >= retry.attempts or isinstance(error, NotStorable) or not retry.wants(error):
        return 0
    clock = call.execution.engine.clock
    due = clock.now_us() + int(retry.delay(failures, clock.random()) * 1e6)
    first = call.execution.state.steps[call.key].first_started_at
    if retry.total is not None and due > first + int(seconds(retry.total) * 1e6):
        return 0
    if call.deadline and due >= call.deadline:
        return 0
    return max(due, 1)


def _body(call: Call) -> Body:
    timeout = call.spec.timeout
    if call.deadline and call.spec.kind == "step":
        # A child run and a command keep the deadline themselves, and end in order.
        left = max(0.0, (call.deadline - call.execution.engine.clock.now_us()) / 1e6)
        timeout = left if timeout is None else min(timeout, left)
    return _RUN if timeout is None else Body(None, timeout)


# Doubt


def doubt(call: Call, why: str) -> Control:
    run = call.execution
    error = InDoubt(run.id, call.key, why)
    return Control(
        error,
        [
            c.DoubtStep(run.id, call.key, why, call.spec.verify is not None),
            c.AttendRun("in_doubt", error.reason, call.key),
        ],
    )


def _resolve_doubt(call: Call, why: str) -> Generator[Request, Outcome | None, Outcome | None]:
    """Ask the `verify` hook what became of the step; without an answer the run stops."""
    run = call.execution
    if call.spec.verify is None:
        raise run.stop(doubt(call, why))
    answer = yield Body(call.spec.verify, None)
    assert answer is not None
    if answer.error is not None:
        raise run.stop(doubt(call, f"{why}, and its verify hook failed ({answer.error!r})"))
    settled: list[c.Command] = []
    if run.state.steps[call.key].status == "running":
        settled.append(c.DoubtStep(run.id, call.key, why, True))
    if answer.value is NOT_DONE:
        yield run.entry([*settled, c.SettleStep(run.id, call.key, "retry", "verify")])
        return None
    result, blob, blobs = run.engine.store_value(answer.value, f"the result of verify for step {call.key}")
    settle = c.SettleStep(run.id, call.key, "done", "verify", result, blob)
    yield run.entry([*settled, settle], blobs=blobs)
    return answer


# Which step an error came from: a failed run remembers it, so that `resume` can try it again.


def mark_step(error: BaseException, key: str) -> None:
    try:
        setattr(error, STEP_MARK, key)
    except AttributeError:
        pass


def steps_behind(error: BaseException | None) -> tuple[str, ...]:
    """The steps whose errors these are: the error itself, a group's members, or what it arose from."""
    while error is not None:
        key = getattr(error, STEP_MARK, None)
        if isinstance(key, str):
            return (key,)
        if isinstance(error, BaseExceptionGroup):
            return tuple(dict.fromkeys(key for one in error.exceptions for key in steps_behind(one)))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return ()
