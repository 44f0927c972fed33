"""Checkpoints: the named points of a run's live history, to which it can be rewound."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.clock import instant
from holdfast.json_view import View
from holdfast.kernel.evolve import fold

if TYPE_CHECKING:
    from holdfast.kernel.state import StepState
    from holdfast.redaction import Redactor
    from holdfast.store.port import Store


class CheckpointInfo(View, frozen=True):
    """A checkpoint as `hf.checkpoints()` gives it; `data` is JSON data, redacted.

    generation  in which it was taken
    live        whether it is on the way to where the run is: only then can the run be rewound to it
    """

    name: str
    key: str
    at: datetime
    data: dict[str, Any]
    generation: int = 0
    live: bool = True

    JSON: ClassVar = {
        "name": "as the code calls it",
        "key": "what `rewind --to` takes",
        "at": "when it was taken",
        "data": "what it was taken with",
        "generation": "in which it was taken",
        "live": "false for one of a generation that was left",
    }


def checkpoints(
    store: Store, redactor: Redactor, run_id: str, *, every: bool = False
) -> list[CheckpointInfo]:
    """The checkpoints of the run's live history, in the order in which they were taken; `every` one, also of
    the generations that were left."""
    state = fold(store.history(run_id))
    if state is None:
        return []
    generations = {**{n: left.steps for n, left in state.past.items()}, state.generation: state.steps}
    live = {step.version for step in _taken(state.steps)}
    found: dict[int, tuple[StepState, int]] = {}
    for generation, steps in sorted(generations.items()):
        for step in _taken(steps):
            if every or step.version in live:
                # What a generation took over from its parent is the same event.
                found.setdefault(step.version, (step, generation))
    return [
        CheckpointInfo(
            step.name,
            step.key,
            instant(step.ended_at),
            _data(store, redactor, step.result, step.blob),
            generation,
            version in live,
        )
        for version, (step, generation) in sorted(found.items())
    ]


def _taken(steps: Mapping[str, StepState]) -> list[StepState]:
    return [step for step in steps.values() if step.kind == "checkpoint"]


def _data(store: Store, redactor: Redactor, inline: msgspec.Raw, blob: str) -> dict[str, Any]:
    raw = store.blob(blob) if blob else bytes(inline)
    data: dict[str, Any] = redactor.redact_value(msgspec.json.decode(raw)) if raw else {}
    return data
