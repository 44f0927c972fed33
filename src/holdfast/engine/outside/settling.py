"""`settle`: a person says what became of a step in doubt, from any process."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from holdfast.engine.outside.unknown_run import missing
from holdfast.engine.ownership.unreleased import is_held
from holdfast.errors import BadInput, RunHeld, StepError, StepNotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import evolve, fold
from holdfast.kernel.failure import capture
from holdfast.kernel.identity import matches
from holdfast.kernel.state import RunState
from holdfast.store.port import NO_EVENTS, Decision, Recorded, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

Outcome = Literal["done", "retry", "fail"]
_OPEN = ("in_doubt", "running")


def settle(engine: Engine, run_id: str, step: str, outcome: Outcome, value: Any, why: str, by: str) -> str:
    """Record the outcome; returns the step's whole identity. The run goes on with `resume`."""
    while True:
        state = fold(engine.store.history(run_id))
        if state is None:
            raise missing(engine.store, run_id)
        key = find_step(run_id, state, step)
        held = is_held(engine, run_id, state.owner, state.epoch)
        if held and state.steps[key].status in _OPEN:
            row = engine.store.owner(state.owner)
            raise RunHeld(run_id, row.pid if row else 0, row.host if row else "?")
        result, blob, blobs = e.NOTHING, "", ()  # type: tuple[Any, str, Sequence[tuple[str, bytes]]]
        error = None
        if outcome == "done":
            result, blob, blobs = engine.store_value(value, f"the value for step {key}")
        elif outcome == "fail":
            error = capture(StepError("Settled", why or "settled as failed"), engine.redactor)
        command = c.SettleStep(run_id, key, outcome, by, result, blob, error, abandoned=not held)
        attempt = _Attempt(engine, state, command, blobs)
        engine.store.command(run_id, attempt.decide, after=state.version)
        if attempt.settled:
            return key


class _Attempt:
    """One try to settle, decided inside the write transaction. `settled` stays False if the run got
    another owner in between: then its liveness must be looked at first."""

    def __init__(
        self, engine: Engine, state: RunState, command: c.SettleStep, blobs: Sequence[tuple[str, bytes]]
    ) -> None:
        self._engine = engine
        self._state = state
        self._held_by = (state.owner, state.epoch)
        self._command = command
        self._blobs = blobs
        self.settled = False

    def decide(self, recorded: Sequence[Recorded]) -> Decision:
        now = fold(recorded, self._state)
        assert now is not None
        if now.owner and (now.owner, now.epoch) != self._held_by:
            return NO_EVENTS
        at = self._engine.clock.now_us()
        events = decide(now, self._command)
        for event in events:
            evolve(now, event, now.version + 1, at)
        self.settled = True
        return Decision("run", [new_event(ev, at) for ev in events], None, self._blobs)


def find_step(run_id: str, state: RunState, text: str) -> str:
    """The identity that `text` is; a bare name is enough where only one step in doubt has it."""
    if text in state.steps:
        return text
    named = [step for step in state.steps.values() if matches(step.key, text)]
    open_ones = [step for step in named if step.status in _OPEN] or named
    if len(open_ones) == 1:
        return open_ones[0].key
    if open_ones:
        raise BadInput(
            f"{text!r} is {len(open_ones)} steps: {', '.join(s.key for s in open_ones[:8])}; name one"
        )
    raise StepNotFound(run_id, text, get_close_matches(text, list(state.steps), n=3, cutoff=0.4))
