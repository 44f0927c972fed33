"""Steering runs from outside: decisions, signals, pause and cancel, from any process.

The owner of a run is asked in the log; a run without an owner is changed at once. Who owns a run is
looked at before and checked again in the write transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from holdfast.engine.outside.attempt import Attempt, command
from holdfast.engine.ownership.dead_owner import seen_alive_us
from holdfast.errors import GateError, Refused
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.identity import check_step_name
from holdfast.kernel.state import ENDED, HALTED, RunState
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

_POLL_S = 0.01
_WITH_PARENT = "its parent run was cancelled"


def decide_gate(
    engine: Engine,
    run_id: str,
    outcome: Literal["approved", "rejected"],
    gate: str,
    digest: str,
    by: str,
    comment: str,
) -> str:
    """Decide an approval; returns the gate's whole identity. `digest`, or its first characters, is that of
    what was seen. Raises `GateError` if it does not fit."""
    _refuse_stray(engine, run_id)
    decision = c.DecideGate(run_id, outcome, gate, digest, by, comment)
    decided = command(engine, run_id, lambda *_: decision)
    return next(event.key for event in decided if isinstance(event, e.GateDecided))


def send_signal(engine: Engine, run_id: str, name: str, value: Any, by: str) -> bool:
    """Give the run a signal; returns whether a `wait_for` took it. Otherwise it is kept for the next one."""
    raw, blob, blobs = engine.store_value(value, f"the value of signal {name}")
    _refuse_stray(engine, run_id)
    signal = c.SendSignal(run_id, check_step_name(name), raw, blob, by)
    sent = command(engine, run_id, lambda *_: signal, blobs)
    return any(isinstance(event, e.GateDecided) for event in sent)


def _refuse_stray(engine: Engine, run_id: str) -> None:
    """A decision is meant for the run that continues; nothing waits for one of this run."""
    if engine.store.strays([run_id]):
        row = engine.store.run(run_id)
        parent = row.parent if row is not None else ""
        raise GateError(
            f"run {run_id} is a child of a generation of run {parent} that a rewind has left; "
            f"{quoted(Way('show', parent))} has the runs that are, "
            f"{quoted(Way('undo'))} reverses the rewind"
        )


def pause(engine: Engine, run_id: str, reason: str, by: str, patience_s: float) -> str:
    """Let the run stop at its next step boundary; returns its status: `paused`, unless its owner has not
    come so far within `patience_s`."""
    command(
        engine,
        run_id,
        lambda state, live: c.PauseRun(run_id, reason, by, live, _seen_at(engine, run_id, state, live)),
    )
    return _wait(engine, run_id, ENDED | HALTED, patience_s)


def cancel(engine: Engine, run_id: str, reason: str, by: str, patience_s: float) -> str:
    """End the run, what runs in it, and its child runs; returns its status: `cancelled`, unless its owner
    has not come so far within `patience_s`.

    A run that no process executes ends with all such runs beneath it in one transaction: no child
    is left behind that waits for ever. A live owner sees to its children itself, before it ends the run.
    """
    while not _cancel_family(engine, run_id, reason, by):
        pass  # one of them got another owner in between
    deadline = time.monotonic() + patience_s
    status = _wait(engine, run_id, ENDED, patience_s)
    while status in ENDED and time.monotonic() < deadline and any(_open_beneath(engine, run_id)):
        time.sleep(_POLL_S)  # their owners were asked, too
        if _wait(engine, run_id, ENDED, 0.0) not in ENDED:
            break  # another process continues them all
    return status


def cancel_children(engine: Engine, run_id: str, reason: str, by: str) -> None:
    """End, or ask to end, what is left of the children of a run that is about to be cancelled."""
    for child in _open_beneath(engine, run_id):
        try:
            cancel(engine, child, reason or _WITH_PARENT, by, 0.0)
        except Refused:
            pass  # it has ended meanwhile


def _cancel_family(engine: Engine, run_id: str, reason: str, by: str) -> bool:
    """One try."""
    head = Attempt.of(engine, run_id, partial(_cancel_run, engine, run_id, reason, by))
    tried = {run_id: head}
    if not head.live:
        why = reason or _WITH_PARENT
        for child in _open_beneath(engine, run_id):
            tried[child] = Attempt.of(engine, child, partial(_cancel_run, engine, child, why, by))

    def decide_all(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        decisions = []
        for attempt, its in zip(tried.values(), recorded, strict=True):
            try:
                decisions.append(attempt.decide(its))
            except Refused:
                if attempt is head:
                    raise
                attempt.events = ()  # it has ended meanwhile
                decisions.append(NO_EVENTS)
        return decisions if is_done() else [NO_EVENTS] * len(decisions)

    def is_done() -> bool:
        return all(attempt.events is not None for attempt in tried.values())

    engine.store.command_all([Source(id, attempt.version) for id, attempt in tried.items()], decide_all)
    return is_done()


def _cancel_run(
    engine: Engine, run_id: str, reason: str, by: str, state: RunState, live: bool
) -> c.CancelRun:
    return c.CancelRun(run_id, reason, by, live, _seen_at(engine, run_id, state, live))


def _seen_at(engine: Engine, run_id: str, state: RunState, live: bool) -> int:
    """When the dead owner of a run that works on files was last seen: what it did to them until then, and
    nothing later, is the run's. That cannot be found out once the run no longer names its owner."""
    return 0 if live or not state.owner or not state.files else seen_alive_us(engine, run_id, state)


def _open_beneath(engine: Engine, run_id: str) -> Iterator[str]:
    """The descendants of a run that have not ended; those of generations that it left stay what they are."""
    children = engine.store.runs(parent=run_id)
    strays = set(engine.store.strays([child.id for child in children]))
    for child in children:
        if child.id in strays:
            continue
        if child.status not in ENDED:
            yield child.id
        yield from _open_beneath(engine, child.id)


def _wait(engine: Engine, run_id: str, wanted: frozenset[str], patience_s: float) -> str:
    """The run's status, once it is one of these; the one it has when patience ends."""
    deadline = time.monotonic() + patience_s
    while True:
        row = engine.store.run(run_id)
        status = row.status if row is not None else ""
        if status in wanted or time.monotonic() >= deadline:
            return status
        time.sleep(_POLL_S)
