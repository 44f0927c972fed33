"""Checking histories against today's code, each run in a process for its code and its directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from holdfast import typed_values
from holdfast.errors import HoldfastError, StoreError
from holdfast.operations.replaying import IN_FLIGHT, Replay
from holdfast.serving.recorded_code import recorded_code

if TYPE_CHECKING:
    from holdfast.serving.workers import Workers
    from holdfast.store.port import Store


def replayable(store: Store) -> list[str]:
    """The runs that can still be resumed, the oldest first. A child is played with its parent."""
    rows = store.runs(status=IN_FLIGHT)
    there = {row.id for row in rows}
    return [row.id for row in reversed(rows) if row.parent not in there]


def replay(
    store: Store,
    workers: Workers,
    ids: Sequence[str],
    on_progress: Callable[[int, int, str], None] | None = None,
) -> list[Replay]:
    """Replay the runs one after the other, and close the workers. Raises `StoreError`; any other error is
    reported as a verdict."""
    found: list[Replay] = []
    with closing(workers):
        for number, run_id in enumerate(ids, 1):
            if on_progress is not None:
                on_progress(number, len(ids), run_id)
            code = recorded_code(store, run_id)
            try:
                found.append(typed_values.convert(workers.replay(run_id, code), Replay))
            except StoreError:
                raise
            except HoldfastError as error:
                found.append(Replay(run_id, code.name, "unloadable", why=str(error)))
    return found
