"""Points of a run's history, as people name them: a checkpoint, a step, the moment before it, the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.kernel import commands as c
from holdfast.kernel.naming import find_step
from holdfast.kernel.state import RunState, StepState
from holdfast.operations.lineage import live

if TYPE_CHECKING:
    from holdfast.store.port import Store

BEFORE: Final = "before:"
START: Final = "start"


class Point(msgspec.Struct, frozen=True):
    """A moment of a run's live history, and what was recorded up to `version` has happened then.

    name    as operations record it: a step's key, `before:KEY`, or `start`
    step    the step that has just ended; None if it is the moment before one, or the start
    before  the key of the step that begins then; empty for a step, and for the start
    """

    name: str
    version: int
    step: StepState | None = None
    before: str = ""

    def rewind(self, run_id: str, dead: str, rerun_once: bool) -> c.RewindRun:
        """The command that goes back to it."""
        at = self.version if self.step is None else 0
        return c.RewindRun(run_id, self.name, dead=dead, rerun_once=rerun_once, at=at)


def resolve(store: Store, run_id: str, state: RunState, text: str) -> Point:
    """The point that `text` is: what `find` finds, `before:` such a step, or `start`. A step that has one of
    these as its name comes first. Raises what `find` raises."""
    names = {name for step in state.steps.values() for name in (step.name, step.key)}
    if text == START and text not in names:
        return Point(START, 1)
    if not text.startswith(BEFORE) or text in names:
        step = find(run_id, state, text)
        return Point(step.key, step.version, step)
    key = find(run_id, state, text.removeprefix(BEFORE)).key
    events = live(store.load(run_id), state.generation)
    began = next(one.version for one in events if getattr(one.event, "key", "") == key)
    return Point(BEFORE + key, began - 1, before=key)


def find(run_id: str, state: RunState, text: str) -> StepState:
    """The step that `text` is: a whole key, a checkpoint's name, or a step's name, where only one has it.

    Raises `StepNotFound` with the nearest names, `BadInput` if there are several.
    """
    return find_step(run_id, state.steps.values(), text, what="points")
