"""Effects that would be repeated if steps ran again: their own, and those of their child runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import OnceAgain
from holdfast.kernel.evolve import fold
from holdfast.kernel.generations import again, done_once
from holdfast.operations.holding import Dead, let_go, refuse_live

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState, StepState
    from holdfast.store.port import Store


def once_steps(store: Store, steps: Iterable[StepState]) -> list[str]:
    """The `once` steps among these that happened, or may have, and those of the child runs that they are, in
    whatever generation; each once."""
    steps = list(steps)
    found = [step.key for step in done_once(steps)]
    for child, state in _children(store, steps):
        found += [f"{step.key} of {child}" for step in done_once(again(state, {}))]
    return list(dict.fromkeys(found))


def refuse_again(run_id: str, once: Sequence[str], rerun_once: bool) -> None:
    """Raises `OnceAgain` if these `once` steps would run again and the caller did not allow it."""
    if once and not rerun_once:
        raise OnceAgain(run_id, once)


def let_go_family(engine: Engine, run_id: str, state: RunState, steps: Iterable[StepState]) -> Dead:
    """As `let_go`, for the run and for the child runs that these steps are: one that a process executes by
    itself would continue in a history that no longer counts."""
    dead = let_go(engine, run_id, state)
    for child, its in _children(engine.store, steps):
        refuse_live(engine, child, its)
    return dead


def children_of(store: Store, steps: Iterable[StepState]) -> set[str]:
    """The ids of the child runs that these steps are, and of theirs, to any depth."""
    return {child for child, _ in _children(store, steps)}


def _children(store: Store, steps: Iterable[StepState]) -> Iterator[tuple[str, RunState]]:
    """The child runs that these steps are, and theirs, to any depth."""
    for child in dict.fromkeys(step.child for step in steps if step.child):
        state = fold(store.history(child))
        if state is not None:
            yield child, state
            yield from _children(store, again(state, {}))
