"""One call of a step: what it promises, its identity, and what performing it asks of a driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.execution import step_output
from holdfast.engine.execution.arguments import UNCHANGEABLE
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.scope import NEVER, Deadline, InsideStep
from holdfast.engine.execution.step_options import ONCE, Retry
from holdfast.errors import BadInput
from holdfast.kernel import commands as c
from holdfast.kernel.events import Effect, Isolate, StepKind
from holdfast.kernel.state import StepState
from holdfast.store.port import Append, NewEvent

if TYPE_CHECKING:
    from holdfast.engine.execution.arguments import Digested, OwnArguments, Signature
    from holdfast.engine.execution.meter import Meter
    from holdfast.engine.execution.output_buffer import OutputBuffer
    from holdfast.engine.execution.reserving import Paying, Reserve
    from holdfast.engine.files.workspace_step import Guard

_NO_KWARGS: dict[str, Any] = {}


class Spec:
    """The options of a step, the same for every call."""

    __slots__ = (
        "body",
        "child",
        "effect",
        "in_root",
        "intent_first",
        "is_async",
        "isolate",
        "kind",
        "name",
        "no_evidence",
        "older",
        "recalled",
        "reserve",
        "retry",
        "secret",
        "signature",
        "straight",
        "timeout",
        "verify",
        "writes",
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
        writes: Sequence[str] = (),
        isolate: Isolate | None = None,
        older: Callable[[], Iterable[str]] | None = None,
        recalled: Callable[[Any], Any] | None = None,
        reserve: Reserve | None = None,
        no_evidence: bool = False,
        touches_files: bool = True,
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
        self.writes = tuple(writes)
        self.isolate = isolate
        self.in_root = touches_files and isolate != "copy"
        """Whether its body may change files of the workspace: not if it works in a copy."""
        self.no_evidence = no_evidence
        self.reserve = reserve
        """The most that an attempt may use, reserved before its intent; None if it costs nothing."""
        self.intent_first = intent_first or effect != "idempotent" or reserve is not None
        self.straight = timeout is None and not self.intent_first
        self.signature: Signature | None = None
        """The parameters of the step's function; set at the first call."""
        self.older = older
        """For a child run: gives the digests that the call may have had in older versions."""
        self.recalled = recalled
        """Converts the recorded value for the code, where a person may have supplied it."""


class Call(InsideStep):
    """One call of a step, its identity fixed. While its body runs, it is the scope there.

    An attempt may be in the log before its result (`take`): always for `once` steps and for retries, and if
    the body takes long. Otherwise it is recorded as a part of the result. Whichever append goes first records
    the attempt.
    """

    __slots__ = (
        "args",
        "at",
        "budget",
        "deadline",
        "digested",
        "guard",
        "kwargs",
        "limited",
        "meter",
        "ordinal",
        "output",
        "output_closed",
        "overdue",
        "since",
        "spec",
        "taken",
    )

    def __init__(
        self,
        execution: Execution,
        spec: Spec,
        key: str,
        ordinal: int,
        digested: Digested,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] = _NO_KWARGS,
        deadline: Deadline = NEVER,
        budget: Paying | None = None,
    ) -> None:
        self.execution = execution
        self.spec = spec
        self.budget = budget
        """The budget that pays, where the scope has one of its own."""
        self.limited = False
        """Whether a limit of money or tokens holds for what its attempt has reserved."""
        self.key = key
        self.ordinal = ordinal
        self.digested = digested
        self.args = args
        self.kwargs = kwargs
        self.deadline = deadline
        self.attempt = 1
        self.at = 0
        """When the attempt began, by the wall clock, and `since`, by the monotonic one."""
        self.since = 0.0
        self.taken = True
        """Whether the log has the attempt, or will have it by another append."""
        self.overdue: Any = None
        """The thread of an attempt that took too long and has not returned yet."""
        self.guard: Guard | None = None
        """The guard of the files of a `workspace` step that is running."""
        self.output: OutputBuffer | None = None
        """The output of the body; None until it prints something."""
        self.output_closed = False
        """Whether its body has ended: what is printed after that is not kept."""
        self.meter: Meter | None = None
        """The measures of the body; None until it measures something."""

    def begin(self) -> None:
        """Begin an attempt. The flusher watches it already, so a scan of the files that begins now sees
        it."""
        engine = self.execution.engine
        if engine.options.capture_output:
            step_output.wrap()
        clock = engine.clock
        self.at = clock.now_us()
        self.since = clock.monotonic()
        self.taken = False
        if self.spec.in_root:
            self.execution.begun = object()

    def watch(self) -> None:
        """Let the flusher record its beginning if it takes long. Without a thread for that the run stops."""
        flusher = self.execution.engine.flusher
        try:
            flusher.watch(self)
        except RuntimeError as error:  # no thread is left, or the interpreter ends
            flusher.unwatch(self)
            raise self.execution.interrupt(f"no thread for its steps: {error}") from None

    def end(self) -> None:
        """The body has ended: the flusher no longer writes its beginning, and its output is written to the
        log, before the outcome."""
        self.execution.engine.flusher.unwatch(self)
        self.output_closed = True
        if self.output is not None:
            step_output.close(self)

    @property
    def in_root(self) -> bool:
        return self.spec.in_root

    def take(self) -> Sequence[NewEvent]:
        """The events that record the beginning of the attempt; none if it is recorded already. The caller
        holds `execution.taking`."""
        if self.taken:
            return ()
        self.taken = True
        spec, digested = self.spec, self.digested
        return self.execution.record(
            c.StartStep(
                self.key, spec.name, digested.digest, self.ordinal, spec.effect, spec.kind,
                digested.args, digested.preview, digested.size, spec.child, spec.no_evidence,
            ),
            self.at,
        )  # fmt: skip

    def flush(self, done: Callable[[Append], None]) -> None:
        """Record the beginning of the attempt, unless the log has it. Does not wait for the disk."""
        run = self.execution
        with run.taking:
            events = self.take() if run.state.owner else ()
            if events:
                run.engine.store.append_soon(run.make_append(events, durable=False), done)

    def measured(self) -> Sequence[c.Command]:
        """Measures that the log does not have yet; the caller records them now."""
        return () if self.meter is None else self.meter.take()

    def flush_measured(self) -> None:
        """Write the measures without an outcome: the run stops, or the outcome of this body is not
        recorded."""
        if self.meter is not None:
            self.meter.flush()

    def own(self) -> Call | OwnArguments:
        """The arguments for the body: copies of those that it could change."""
        for arg in self.args:
            if type(arg) not in UNCHANGEABLE:
                break
        else:
            if not self.kwargs:
                return self
        return self if self.spec.signature is None else self.spec.signature.own(self.args, self.kwargs)

    def warn_of_changes(self) -> None:
        """Do nothing: none of the arguments can be changed."""

    def older_digests(self) -> Iterable[str]:
        """Those that this call may have had before, see `arguments`."""
        spec = self.spec
        if spec.signature is not None:
            return spec.signature.older(self.args, self.kwargs)
        return () if spec.older is None else spec.older()

    def recall(self) -> StepState | None:
        """The recorded step of this call; a call that does not match it stops the run."""
        if not self.ordinal and self.execution.keyed.get(self.key, self) is not self:
            raise self.twice()  # the other one's value may not be on the disk yet
        spec = self.spec
        return self.execution.recall(
            self.key,
            spec.name,
            self.ordinal,
            self.digested.digest,
            spec.kind,
            self.older_digests,
            self.named_arguments,
        )

    def value_of(self, past: StepState) -> Any:
        """The value that the code receives of the recorded step."""
        value = self.execution.value_of(past)
        return value if self.spec.recalled is None else self.spec.recalled(value)

    def named_arguments(self) -> bytes:
        """The arguments by name, as JSON; empty if they are large."""
        return bytes(self.digested.args)

    def twice(self) -> BadInput:
        return BadInput(f"step {self.key} is called twice at once: give each call a key of its own")

    def is_straight(self) -> bool:
        """Whether this new call needs nothing before its body, and only one commit after it."""
        return self.ordinal > 0 and self.spec.straight and not self.deadline


# What performing it asks for


class Outcome(NamedTuple):
    value: Any = None
    error: BaseException | None = None


class Pause(NamedTuple):
    """Wait until the wall time `until_us`, but at most `most_s` seconds, because the clock may be set back
    meanwhile. If `until_us` is None, wait `most_s` seconds."""

    until_us: int | None
    most_s: float


class Body(NamedTuple):
    """Run the step's function, or `hook` instead of it; `timeout_s` limits it."""

    hook: Callable[..., Any] | None
    timeout_s: float | None


class InStore(NamedTuple):
    """Do work that waits for the disk, outside the event loop if there is one. The answer is its outcome."""

    work: Callable[[], Any]


Request = Append | Pause | Body | InStore
RUN = Body(None, None)
