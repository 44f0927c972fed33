"""Gates: `approval` waits for a person's decision, `wait_for` for a signal.

A gate is a record in the log. Any process can decide it, also while the run is not executed; the first
decision is the only one. An approval is bound to the digest of what it shows: who decides can say which
content they have seen, and another one is refused. A gate whose time is over is unanswered, never denied.

    decision = approval("send", show=draft)
    if decision.outcome == "approved": ...

    payment = wait_for("paid", timeout=3600)

In async code a gate whose task is cancelled is given up: that is recorded, and nothing comes to it any more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Coroutine, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from holdfast.clock import instant
from holdfast.engine.execution import thread_driver
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.parking import Wait
from holdfast.engine.execution.scope import Scope, current, refuse_in_async, require_thread
from holdfast.engine.execution.step_options import Seconds, seconds
from holdfast.errors import BadInput, StepTimeout, WrongColour
from holdfast.kernel import codec
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.events import NOTHING, GateKind
from holdfast.kernel.identity import check_step_name, check_text
from holdfast.kernel.state import StepState

if TYPE_CHECKING:
    from asyncio import CancelledError

    from holdfast.engine.execution.task_delivery import TaskDelivery


class Decision(msgspec.Struct, frozen=True):
    """How an approval came out: `unanswered` if its time was over first."""

    outcome: Literal["approved", "rejected", "unanswered"]
    by: str
    comment: str
    at: datetime


class Automatic(NamedTuple):
    """A decision that no person makes: it is recorded with the gate. `by` says what made it, such as
    `policy:docs`."""

    outcome: Literal["approved", "rejected"]
    by: str
    comment: str = ""


class Approval:
    """Call it in a `def` workflow; in an async one, `await approval.aio(...)`."""

    def __call__(
        self, title: str, *, show: object = None, timeout: Seconds | None = None, name: str | None = None
    ) -> Decision:
        """Wait until a person approves or rejects what is shown. `name` is what the gate is called in the log
        and by `approve`; without it, its title. Give one if the title has values in it: they may be secret,
        and a key is not redacted."""
        return _decision(_pass(_approval(title, show, timeout, _plain_scope("approval"), name)))

    def aio(
        self, title: str, *, show: object = None, timeout: Seconds | None = None, name: str | None = None
    ) -> Coroutine[Any, Any, Decision]:
        """The same for async workflows."""
        gate = _approval(title, show, timeout, _scope("approval"), name)
        return gate.run.unawaited.expect("approval", repr(title), self._decide(gate))

    def decided(
        self, title: str, automatic: Automatic, *, show: object = None, name: str | None = None
    ) -> Coroutine[Any, Any, Decision]:
        """A gate that is opened and decided in one commit, for async workflows: no person can decide it, and
        the log has it as it has any other."""
        gate = _approval(title, show, None, _scope("approval"), name)._replace(automatic=automatic)
        return gate.run.unawaited.expect("approval", repr(title), self._decide(gate))

    @staticmethod
    async def _decide(gate: _Gate) -> Decision:
        from holdfast.engine.execution.task_driver import abandonable

        return _decision(await abandonable(gate.run, gate.key, partial(_pass_async, gate)))


class WaitFor:
    """Call it in a `def` workflow; in an async one, `await wait_for.aio(...)`."""

    def __call__(self, name: str, *, timeout: Seconds | None = None) -> Any:
        """The value of the next signal of that name; one that came before is kept. Raises `StepTimeout`
        when none came in time."""
        gate = _signal(name, timeout, _plain_scope("wait_for"))
        return _value(gate, _pass(gate))

    def aio(self, name: str, *, timeout: Seconds | None = None) -> Coroutine[Any, Any, Any]:
        """The same for async workflows."""
        gate = _signal(name, timeout, _scope("wait_for"))
        return gate.run.unawaited.expect("wait_for", repr(name), self._receive(gate))

    @staticmethod
    async def _receive(gate: _Gate) -> Any:
        from holdfast.engine.execution.task_driver import abandonable

        return await abandonable(gate.run, gate.key, partial(_value_async, gate))


class _Gate(NamedTuple):
    """One call, its identity fixed."""

    run: Execution
    kind: GateKind
    key: str
    ordinal: int
    name: str
    deadline: float
    timeout_s: float | None
    digest: str
    past: StepState | None
    value: list[Any]
    """A large value, once it is read."""
    show: msgspec.Raw = NOTHING
    blob: str = ""
    blobs: Sequence[tuple[str, bytes]] = ()
    automatic: Automatic | None = None


def _approval(
    title: str, show: object, timeout: Seconds | None, scope: Scope, name: str | None = None
) -> _Gate:
    if not check_text(title, "approval(title)").strip():
        raise BadInput("approval(title): say in a few words what is to be decided")
    run = scope.execution
    key = scope.counters.key(_name_of(title) if name is None else check_step_name(name))
    shown, blob, blobs = run.engine.store_value(show, f"what approval {title!r} shows")
    digest = hashlib.sha256(codec.encode([title, show])).hexdigest()
    past = run.recall(
        key,
        title,
        scope.counters.ordinal,
        digest,
        "approval",
        lambda: _older_digests(title, show),
        lambda: b"" if blob else _named_arguments(title, bytes(shown)),
    )
    return _Gate(
        run, "approval", key, scope.counters.ordinal, title, scope.deadline, _limit(timeout), digest, past,
        [], shown, blob, blobs,
    )  # fmt: skip


def _named_arguments(title: str, show: bytes) -> bytes:
    from holdfast.engine.execution.changed_arguments import shown

    return shown(title, show)


def _older_digests(title: str, show: object) -> Iterator[str]:
    for data in codec.older_encodings([title, show]):
        yield hashlib.sha256(data).hexdigest()


def _signal(name: str, timeout: Seconds | None, scope: Scope) -> _Gate:
    run = scope.execution
    key = scope.counters.key(check_step_name(name))
    past = run.recall(key, name, scope.counters.ordinal, "", "signal")
    return _Gate(
        run, "signal", key, scope.counters.ordinal, name, scope.deadline, _limit(timeout), "", past, []
    )  # fmt: skip


def _name_of(title: str) -> str:
    """The part of a title that belongs to the gate's identity."""
    return re.sub(r"[\s/@#\[\]\x00-\x1f\x7f]+", "-", title.strip())[:100]


def _limit(timeout: Seconds | None) -> float | None:
    if timeout is None:
        return None
    limit = seconds(timeout)
    if not 0 < limit < 1e10:
        raise BadInput(f"timeout={limit:g}: more than 0 seconds, and over within this millennium")
    return limit


def _scope(what: str) -> Scope:
    scope = current.get()
    if type(scope) is not Scope:
        raise WrongColour(
            f"{what}() waits for an answer from outside, so it can only be called in a workflow's run"
        )
    require_thread(scope, f"{what}()")
    return scope


def _plain_scope(what: str) -> Scope:
    scope = _scope(what)
    refuse_in_async(scope.execution, what)
    return scope


# Passing a gate


def _pass(gate: _Gate) -> StepState:
    """Open the gate if it is new, wait until it is decided, and give how."""
    run, threads = gate.run, gate.run.threads_delivery
    assert threads is not None
    if gate.past is not None:
        run.refuse_given_up(gate.key)
    if threads.is_recorded(gate.key):
        thread_driver.replayed(run, gate.key)
        run.deliver_gate(gate.key)
        return run.state.steps[gate.key]
    thread_driver.barrier(run, gate.key, gate.name, "" if gate.past else gate.digest)
    with threads.aside() as turn:
        if gate.past is None:
            _open(gate)
        step = run.state.steps[gate.key]
        while run.inbox.is_open(gate.key):  # the clock that it waits by may be set back when its time is over
            run.waiting.wait(_wait(gate, step))
            if step.status == "waiting":
                _expire(gate)
        if not run.deliver_gate(gate.key, turn) and turn is not None:
            threads.place(turn)
    return step


async def _pass_async(gate: _Gate) -> StepState:
    from holdfast.engine.execution.task_driver import in_store

    run, delivery = gate.run, gate.run.tasks_delivery
    assert delivery is not None
    if gate.past is not None and gate.past.status == "abandoned":
        await run.give_up_again(gate.key)
    if delivery.is_recorded(gate.key):
        return await _recorded(gate, delivery)
    cancelled = await delivery.barrier(gate.key) if delivery.guarded else None
    if gate.past is None:
        await in_store(run, partial(_open, gate))
    if cancelled is not None:
        raise cancelled
    step = run.state.steps[gate.key]
    while run.inbox.is_open(gate.key):
        await run.waiting.wait_async(_wait(gate, step))
        run.refuse_after_end(gate.key)
        if step.status == "waiting":
            await in_store(run, partial(_expire, gate))
    held = await _read_ahead(gate, step)
    run.refuse_after_end(gate.key)
    if not step.delivered:
        held = await delivery.noted(c.Record(e.OutcomeDelivered(gate.key)), gate.key) or held
    if held is not None:
        raise held
    return step


async def _recorded(gate: _Gate, delivery: TaskDelivery) -> StepState:
    """The history has what came of the gate."""
    run, step = gate.run, gate.run.state.steps[gate.key]
    turn = delivery.hold(gate.key)
    cancelled = await _read_ahead(gate, step)
    turn.acknowledge()
    cancelled = await delivery.received(turn) or cancelled
    run.refuse_after_end(gate.key)
    run.deliver_gate(gate.key)
    if cancelled is not None:
        raise cancelled
    return step


async def _read_ahead(gate: _Gate, step: StepState) -> CancelledError | None:
    """A large value of a signal is read before it is delivered: the code must not be at rest meanwhile.
    Returns a cancel that came."""
    if gate.kind != "signal" or not step.blob or step.outcome == "unanswered":
        return None
    from holdfast.engine.execution.task_driver import shielded

    value, cancelled = await shielded(gate.run, partial(gate.run.value_of, step))
    gate.value.append(value)
    return cancelled


def _open(gate: _Gate) -> None:
    now = gate.run.engine.clock.now_us()
    ends = [] if gate.timeout_s is None else [now + int(gate.timeout_s * 1e6)]
    ends += [int(gate.deadline)] if gate.deadline else []
    opened = c.Record(
        e.GateOpened(
            gate.key,
            gate.ordinal,
            gate.kind,
            gate.name,
            gate.digest,
            gate.show,
            gate.blob,
            min(ends, default=0),
            automatic=gate.automatic is not None,
        )
    )
    commands: list[c.Command] = [opened]
    if gate.automatic is not None:
        outcome, by, comment = gate.automatic
        commands.append(c.DecideGate(gate.run.id, outcome, gate.key, gate.digest, by, comment))
    gate.run.transact(lambda: commands, gate.blobs)


def _wait(gate: _Gate, step: StepState) -> Wait:
    return Wait(step.due_at, lambda: not gate.run.inbox.is_open(gate.key))


def _expire(gate: _Gate) -> None:
    """Its time is over. A decision that came before this is in the log counts all the same."""
    gate.run.transact(lambda: [c.ExpireGate(gate.key, gate.run.engine.clock.now_us())])


def _decision(step: StepState) -> Decision:
    outcome: Any = step.outcome
    return Decision(outcome, step.by, step.comment, instant(step.ended_at))


def _value(gate: _Gate, step: StepState) -> Any:
    if step.outcome == "unanswered":
        waited = (step.ended_at - step.first_started_at) / 1e6
        raise StepTimeout(gate.key, gate.timeout_s if gate.timeout_s is not None else waited)
    return gate.run.value_of(step)


async def _value_async(gate: _Gate) -> Any:
    passed = await _pass_async(gate)
    return gate.value[0] if gate.value else _value(gate, passed)


approval = Approval()
wait_for = WaitFor()
