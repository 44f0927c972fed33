"""`rewind`: go back to a point of a run's history. What was recorded after it will run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.engine.ownership import bury
from holdfast.errors import OnceAgain
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.generations import again, following, up_to
from holdfast.operations import journal, points
from holdfast.operations.holding import let_go, load
from holdfast.operations.repeats import once_steps, refuse_live_children

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState, StepState

_GATES = ("approval", "signal")


class Rewind(msgspec.Struct, frozen=True):
    """What a rewind did, or would do.

    to          the step that it goes back to, and keeps
    generation  the one that it opens
    again       the steps after that point: they run again if the run still comes to them
    decisions   the gates among them that were decided: they wait again
    once        the `once` steps that were done after it, or may have been, and would run again: in whatever
                generation, those of child runs too
    children    the child runs that no longer count
    operation   what `undo` takes back; empty in a dry run
    """

    run_id: str
    to: str
    generation: int
    again: tuple[str, ...]
    decisions: tuple[str, ...]
    once: tuple[str, ...]
    children: tuple[str, ...]
    operation: str = ""


def rewind(
    engine: Engine, run_id: str, to: str, *, by: str, rerun_once: bool = False, dry_run: bool = False
) -> Rewind:
    """Go back to the checkpoint or step `to`; the run is paused after.

    Raises `RunHeld` if somebody executes the run, `OnceAgain` if `once` steps would run again and
    `rerun_once` does not say that they may, `StepNotFound` with the nearest names.
    """
    while True:
        state = load(engine, run_id)
        point = points.find(run_id, state, to)
        plan = _plan(engine, run_id, state, point)
        if dry_run:
            return plan.rewind
        dead = let_go(engine, run_id, state)
        refuse_live_children(engine, plan.steps)
        if plan.rewind.once and not rerun_once:
            raise OnceAgain(run_id, plan.rewind.once)
        begun = e.OperationBegun("rewind", run_id, by, point.key)
        command = c.RewindRun(run_id, point.key, dead=dead, rerun_once=rerun_once)
        operation = journal.perform(engine, begun, state, command)
        if operation is not None:
            if dead:
                bury(engine.home, engine.store, dead)
            return msgspec.structs.replace(plan.rewind, operation=operation)


class _Plan(NamedTuple):
    rewind: Rewind
    steps: list[StepState]


def _plan(engine: Engine, run_id: str, state: RunState, point: StepState) -> _Plan:
    kept = up_to(state.steps, point.version)
    left = [step for step in state.steps.values() if step.key not in kept]
    steps = [step for step in left if step.kind not in points.UNSEEN]
    rewind = Rewind(
        run_id=run_id,
        to=point.key,
        generation=following(state),
        again=tuple(step.key for step in steps),
        decisions=tuple(step.key for step in steps if step.kind in _GATES and step.status == "completed"),
        once=tuple(once_steps(engine.store, again(state, kept))),
        children=tuple(step.child for step in steps if step.child),
    )
    return _Plan(rewind, steps)
