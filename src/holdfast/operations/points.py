"""Points of a run's history, as a person names them: a checkpoint, or a step."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from holdfast.errors import BadInput, StepNotFound
from holdfast.kernel.identity import matches
from holdfast.kernel.state import RunState, StepState

UNSEEN: Final = frozenset({"value", "emit", "patch"})
"""Kinds that are recorded among the steps and are none to a reader."""
_MOST = 8


def find(run_id: str, state: RunState, text: str) -> StepState:
    """The step that `text` is: a whole key, a checkpoint's name, or a step's name, where only one has it.

    Raises `StepNotFound` with the nearest names, `BadInput` if there are several.
    """
    if text in state.steps:
        return state.steps[text]
    seen = [step for step in state.steps.values() if step.kind not in UNSEEN]
    found = [step for step in seen if step.kind == "checkpoint" and step.name == text]
    found = found or [step for step in seen if matches(step.key, text)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(step.key for step in found[:_MOST]) + (", ..." if len(found) > _MOST else "")
        raise BadInput(f"{text!r} is {len(found)} points of run {run_id}: {listed}; name one")
    names = dict.fromkeys(name for step in seen for name in (step.name, step.key))
    nearest = get_close_matches(text, names, n=3, cutoff=0.4)
    raise StepNotFound(run_id, text, nearest or [step.key for step in seen[-3:]])
