"""The events that are not a run's, by family. Imported when the first of them is read or written: commands
that look at runs only do not load them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast import typed_values
from holdfast.kernel import budget, links, memory, session, task
from holdfast.kernel.events import Event

TYPES: Final[dict[str, type[Event]]] = {
    cls.__name__: cls
    for cls in (*task.EVENTS, *links.EVENTS, *session.EVENTS, *memory.EVENTS, *budget.EVENTS)
}
DECODERS: Final[dict[str, Callable[[str], Any]]] = {
    name: typed_values.decoder(cls) for name, cls in TYPES.items()
}
