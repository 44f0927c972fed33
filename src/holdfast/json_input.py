"""JSON that people and other programs wrote. Its depth is bounded: every later reader can decode it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.errors import BadInput

MAX_LEVELS: Final = 190
"""The levels of a value from outside."""
WRAPPED_LEVELS: Final = 200
"""The levels with what holdfast puts around such a value: arguments, an event, a line of a file. The codec
stores as many."""
_SHOWN: Final = 16


def read_json(data: bytes | str, levels: int = MAX_LEVELS) -> Any:
    """The value. Raises `BadInput` if it is nested deeper, `msgspec.DecodeError` if it is no JSON."""
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise _too_deep(data, levels) from None
    if _brackets(data) > levels and is_deeper(value, levels):
        raise _too_deep(data, levels)
    return value


def is_deeper(value: Any, levels: int = MAX_LEVELS) -> bool:
    """Whether lists and dicts are nested deeper than so many levels, or contain themselves."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [one for one in layer if isinstance(one, dict | list)]
        if not layer:
            return False
        inner = [part for one in layer for part in (one.values() if isinstance(one, dict) else one)]
        layer = list({id(part): part for part in inner}.values())
    return True


def _brackets(data: bytes | str) -> int:
    """At least as many as there are levels; most JSON has few, and need not be walked through."""
    if isinstance(data, str):
        return data.count("[") + data.count("{")
    return data.count(b"[") + data.count(b"{")


def _too_deep(data: bytes | str, levels: int) -> BadInput:
    text = data if isinstance(data, str) else data[: 4 * _SHOWN].decode("utf-8", "replace")
    return BadInput(f"the JSON that begins with {text[:_SHOWN]!r} is nested deeper than {levels} levels")
