"""The code that a run names in its first event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.outside.unknown_run import missing
from holdfast.kernel.events import RunCreated

if TYPE_CHECKING:
    from holdfast.kernel.events import Code
    from holdfast.store.port import Store


def recorded_code(store: Store, run_id: str) -> Code:
    """Reads one event, however long the history is. Raises `RunNotFound` with the nearest ids."""
    for event, _, _ in store.history(run_id):
        assert type(event) is RunCreated, "a run begins with its creation"
        return event.code
    raise missing(store, run_id)
