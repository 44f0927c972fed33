"""`settle`: a person says what became of a step in doubt, from any process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from holdfast.engine.outside.attempt import Blobs, command
from holdfast.engine.outside.unknown_run import missing
from holdfast.engine.ownership.owners import held_by
from holdfast.errors import StepError
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.kernel.failure import capture
from holdfast.kernel.naming import find_step
from holdfast.kernel.state import RunState, StepState

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

Outcome = Literal["done", "retry", "fail"]
_OPEN = ("in_doubt", "running")


def settle(
    engine: Engine,
    run_id: str,
    step: str,
    outcome: Outcome,
    value: Any,
    why: str,
    by: str,
    command_result: Callable[[str, object, Callable[[str], str]], object],
) -> str:
    """Record the outcome; returns the step's whole identity. The run continues with `resume`.
    `command_result` makes the result of a command of the value, or raises `BadInput`."""
    result, blob = e.NOTHING, ""
    blobs: Blobs = ()
    error = None
    if outcome == "done":
        state = fold(engine.store.history(run_id))
        if state is None:
            raise missing(engine.store, run_id)
        known = _find(run_id, state, step)
        step = known.key
        if known.kind == "command":
            value = command_result(step, value, engine.redactor.redact)
        result, blob, blobs = engine.store_value(value, f"the value for step {step}")
    elif outcome == "fail":
        error = capture(StepError("Settled", why or "settled as failed"), engine.redactor)

    def make(state: RunState, live: bool) -> c.SettleStep:
        found = _find(run_id, state, step)
        if live and found.status in _OPEN:
            raise held_by(engine.store, run_id, state.owner)
        return c.SettleStep(run_id, found.key, outcome, by, result, blob, error, abandoned=not live)

    settled = command(engine, run_id, make, blobs)
    return next(event.key for event in settled if isinstance(event, e.StepSettled))


def _find(run_id: str, state: RunState, step: str) -> StepState:
    return find_step(run_id, state.steps.values(), step, prefer=lambda one: one.status in _OPEN)
