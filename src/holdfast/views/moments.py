"""Moments of the log, as people name them: a time, or `RUN:POINT`, a checkpoint or a step of a run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.clock import microseconds
from holdfast.errors import BadInput
from holdfast.kernel.evolve import fold
from holdfast.kernel.naming import find_step

if TYPE_CHECKING:
    from holdfast.store.port import Entry, Store
    from holdfast.views.reader import Reader

Happened = Callable[["Entry"], bool]
"""Whether an event was in the log by a moment."""


def by_moment(reader: Reader, store: Store, at: str | datetime) -> Happened:
    """Raises `BadInput` for what is neither a time nor a point, `RunNotFound`, `StepNotFound`."""
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            return _by_point(reader, store, str(at))
    until = microseconds(at if at.tzinfo else at.astimezone())
    return lambda entry: entry.at <= until


def _by_point(reader: Reader, store: Store, text: str) -> Happened:
    """By the place in the log: clocks may differ."""
    run, colon, point = text.partition(":")
    if not colon or not run or not point:
        raise BadInput(f"{text!r} is no moment; give a time such as 2026-07-01T12:00, or RUN:CHECKPOINT")
    run_id = reader.find(run)
    state = fold(store.load(run_id))
    step = find_step(run_id, state.steps.values() if state else (), point, what="points")
    position = next(one.position for one in store.entries(run_id, after=step.version - 1))
    return lambda entry: entry.position <= position
