"""Whether a process executes a run: an operation from outside waits until none does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.outside.unknown_run import missing
from holdfast.engine.ownership.dead_owner import last_seen_us, seen_alive_us
from holdfast.engine.ownership.owners import held_by, is_alive
from holdfast.engine.ownership.unreleased import is_held
from holdfast.kernel.evolve import fold
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState


def load(engine: Engine, run_id: str) -> RunState:
    """The run's state now. Raises `RunNotFound` with the nearest ids."""
    state = fold(engine.store.history(run_id))
    if state is None:
        raise missing(engine.store, run_id)
    return state


class Dead(NamedTuple):
    """The dead owner that a run still names, empty if it names none, and when it was last seen alive; 0 if
    nothing is to be found out about that."""

    owner: str = ""
    seen_at: int = 0


def let_go(engine: Engine, run_id: str, state: RunState) -> Dead:
    """Returns when the commands of a dead owner are dead too. Raises `RunHeld` if the owner is alive."""
    refuse_live(engine, run_id, state)
    seen_at = seen_alive_us(engine, run_id, state)
    return Dead(state.owner, state.seen_at or seen_at)


def look(engine: Engine, state: RunState) -> Dead:
    """The same without waiting, for who changes nothing; a live owner is let be."""
    if state.owner and is_alive(engine.home, state.owner):
        return Dead()
    return Dead(state.owner, state.seen_at or last_seen_us(engine, state.owner, 0))


def refuse_live(engine: Engine, run_id: str, state: RunState) -> None:
    if is_held(engine, run_id, state.owner, state.epoch):
        way = f"{quoted(Way('pause', run_id))} stops it at its next step, or wait for its end"
        raise held_by(engine.store, run_id, state.owner, way)
