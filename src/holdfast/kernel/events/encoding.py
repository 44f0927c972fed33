"""Events as the log stores them: a type name and JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast import typed_values
from holdfast.errors import BadInput, not_text
from holdfast.kernel.events import operation_events, run_events, step_events, store_events
from holdfast.kernel.events.event import Event, Unknown

TYPES: Final[dict[str, type[Event]]] = {
    name: cls
    for room in (store_events, run_events, step_events, operation_events)
    for name, cls in vars(room).items()
    if isinstance(cls, type) and issubclass(cls, Event) and cls is not Event
}
"""Types of the events of runs, operations and the store itself. `all_types` has those of the families too."""

_encode = msgspec.json.Encoder().encode
_decoders: Final[dict[str, Callable[[str], Any]]] = {}
"""Each made when it is first needed: all of them cost 2 ms, and `holdfast list` needs one."""


def type_of(event: Event) -> str:
    """The name under which the event is stored."""
    return event.type if isinstance(event, Unknown) else type(event).__name__


def encode(event: Event) -> str:
    """The event's fields as JSON text. Raises `BadInput` for a name that is no text: a path or an argument
    with bytes that are not UTF-8."""
    try:
        return event.payload if isinstance(event, Unknown) else _encode(event).decode()
    except UnicodeEncodeError as error:
        raise BadInput(not_text(error.object)) from None


def blob_of(event: Event) -> str:
    """The large value that the event names; empty if none. An event of a newer version may name one too."""
    if isinstance(event, Unknown):
        fields = msgspec.json.decode(event.payload)
        return str(fields.get("blob") or "") if isinstance(fields, dict) else ""
    found: str = getattr(event, "blob", "")
    return found


def decode(type_name: str, payload: str) -> Event:
    """The inverse of `encode`; a type from a newer version becomes `Unknown`."""
    decoder = _decoders.get(type_name)
    if decoder is None:
        cls = TYPES.get(type_name)
        if cls is None:
            return _decode_other(type_name, payload)
        decoder = _decoders[type_name] = typed_values.decoder(cls)
    event: Event = decoder(payload)
    return event


def _decode_other(type_name: str, payload: str) -> Event:
    """An event that is not a run's: of a family (`families.py`), or unknown."""
    from holdfast.kernel.families import DECODERS

    decoder = DECODERS.get(type_name)
    if decoder is None:
        return Unknown(type_name, payload)
    event: Event = decoder(payload)
    return event


def all_types() -> dict[str, type[Event]]:
    """Every type that this version knows: those of runs, and those of the families."""
    from holdfast.kernel import families

    return {**TYPES, **families.TYPES}
