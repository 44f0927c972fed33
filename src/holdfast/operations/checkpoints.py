"""Checkpoints: the named points of a run's live history, to which it can be rewound."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.clock import instant
from holdfast.kernel.evolve import fold

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Store


class CheckpointInfo(msgspec.Struct, frozen=True):
    """A checkpoint as `hf.checkpoints()` gives it; `data` is JSON data, redacted."""

    name: str
    key: str
    at: datetime
    data: dict[str, Any]


def checkpoints(store: Store, redactor: Redactor, run_id: str) -> list[CheckpointInfo]:
    """The checkpoints of the run's live history, in the order in which they were taken."""
    state = fold(store.history(run_id))
    taken = [step for step in state.steps.values() if step.kind == "checkpoint"] if state else []
    return [
        CheckpointInfo(
            step.name, step.key, instant(step.ended_at), _data(store, redactor, step.result, step.blob)
        )
        for step in sorted(taken, key=lambda step: step.version)
    ]


def _data(store: Store, redactor: Redactor, inline: msgspec.Raw, blob: str) -> dict[str, Any]:
    raw = store.blob(blob) if blob else bytes(inline)
    data: dict[str, Any] = redactor.redact_value(msgspec.json.decode(raw)) if raw else {}
    return data
