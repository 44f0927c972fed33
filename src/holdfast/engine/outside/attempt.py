"""A command to a run from outside: who owns the run is looked at first, and checked in the write transaction.

If the run got another owner in between, the whole look is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.engine.outside.unknown_run import missing
from holdfast.engine.ownership.unreleased import is_held
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import fold
from holdfast.kernel.state import RunState
from holdfast.store.port import NO_EVENTS, Decision, Recorded, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

Blobs = Sequence[tuple[str, bytes]]
Make = Callable[[RunState, bool], c.Command]
"""Makes the command from the run's state and whether a live process executes it."""


def command(engine: Engine, run_id: str, make: Make, blobs: Blobs = ()) -> Sequence[e.Event]:
    """Append what the command brings about; returns these events. Raises `RunNotFound`, `RunArchived`, and
    what `make` and `decide` raise."""
    while True:
        attempt = Attempt.of(engine, run_id, make, blobs)
        engine.store.command(run_id, attempt.decide, after=attempt.version)
        if attempt.events is not None:
            return attempt.events


class Attempt:
    """One try, decided inside the write transaction. `events` stays None if the run got another owner in
    between: then its liveness must be looked at first."""

    def __init__(self, engine: Engine, state: RunState, live: bool, command: c.Command, blobs: Blobs) -> None:
        self._engine = engine
        self._state = state
        self._held_by = (state.owner, state.epoch)
        self._command = command
        self._blobs = blobs
        self.live = live
        self.version = state.version
        self.events: Sequence[e.Event] | None = None

    @classmethod
    def of(cls, engine: Engine, run_id: str, make: Make, blobs: Blobs = ()) -> Attempt:
        state = fold(engine.store.history(run_id))
        if state is None:
            raise missing(engine.store, run_id)
        live = is_held(engine, run_id, state.owner, state.epoch)
        return cls(engine, state, live, make(state, live), blobs)

    def decide(self, recorded: Sequence[Recorded]) -> Decision:
        now = fold(recorded, self._state)
        assert now is not None
        if (now.owner, now.epoch) != self._held_by:
            return NO_EVENTS
        at = self._engine.clock.now_us()
        self.events = decide(now, self._command)
        return Decision("run", [new_event(event, at) for event in self.events], None, self._blobs)
