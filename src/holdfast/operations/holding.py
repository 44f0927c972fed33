"""Whether somebody executes a run: what is done to it from outside waits until nobody does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.claim import command_locks, wait_for_commands
from holdfast.engine.missing import missing
from holdfast.engine.ownership import is_alive
from holdfast.errors import RunHeld
from holdfast.kernel.evolve import fold

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState


def load(engine: Engine, run_id: str) -> RunState:
    """The run's state now. Raises `RunNotFound` with the nearest ids."""
    state = fold(engine.store.history(run_id))
    if state is None:
        raise missing(engine.store, run_id)
    return state


def let_go(engine: Engine, run_id: str, state: RunState) -> str:
    """The id of the dead owner that the run still names, empty if it names none; returns when that owner's
    commands are dead too. A live owner is never robbed: `RunHeld`."""
    refuse_live(engine, run_id, state)
    wait_for_commands(command_locks(engine.home, run_id), run_id, state.epoch)
    return state.owner


def refuse_live(engine: Engine, run_id: str, state: RunState) -> None:
    if not state.owner or not is_alive(engine.home, state.owner):
        return
    # One of this very process that does not execute it has only not been able to release it.
    if run_id in engine.live or state.owner != engine.owner_id:
        row = engine.store.owner(state.owner)
        raise RunHeld(run_id, row.pid if row else 0, row.host if row else "?")
