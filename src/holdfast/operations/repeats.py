"""What would happen a second time if steps ran again: in themselves, and in the child runs that they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.kernel.evolve import fold
from holdfast.kernel.generations import done_once
from holdfast.operations.holding import refuse_live

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import StepState
    from holdfast.store.port import Store


def once_steps(store: Store, steps: Iterable[StepState]) -> list[str]:
    """The `once` steps among these that happened, or may have, and those of the child runs that they are."""
    steps = list(steps)
    own = [step.key for step in done_once(steps)]
    return [*own, *(f"{key} of {child}" for child, key in _in_children(store, steps))]


def _in_children(store: Store, steps: Iterable[StepState]) -> Iterator[tuple[str, str]]:
    for child, inside in children(store, steps):
        yield from ((child, step.key) for step in done_once(inside))


def children(store: Store, steps: Iterable[StepState]) -> Iterator[tuple[str, list[StepState]]]:
    """The child runs that these steps are, and theirs, to any depth, each with its steps."""
    for step in steps:
        state = fold(store.history(step.child)) if step.child else None
        if state is not None:
            inside = list(state.steps.values())
            yield step.child, inside
            yield from children(store, inside)


def refuse_live_children(engine: Engine, steps: Iterable[StepState]) -> None:
    """A child run that somebody executes by itself would go on in a history that no longer counts."""
    for child, _ in children(engine.store, steps):
        state = fold(engine.store.history(child))
        if state is not None:
            refuse_live(engine, child, state)
