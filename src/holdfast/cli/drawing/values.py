"""Recorded values as people read them. `--json` gives the same values as tagged JSON."""

from __future__ import annotations

from typing import Any

from holdfast.cli.drawing.terminal import json_text

_ROOM = 80
_UNLIMITED = 1 << 62


def data_text(value: Any, room: int = _UNLIMITED) -> str:
    """JSON, but what JSON lacks close to how Python writes it; indented where it is longer than `room`."""
    text = json_text(value)
    if _is_tagged(text):
        return _as_python(text, room)
    return text if len(text) <= room else json_text(value, indent=2)


def compact_text(value: Any) -> str:
    """Text as it is, data on one line."""
    return value if isinstance(value, str) else data_text(value)


def shown_text(value: Any) -> str:
    """The content of a gate: text as it is, nothing for None, JSON always indented."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    text = json_text(value)
    return _as_python(text, _ROOM) if _is_tagged(text) else json_text(value, indent=2)


def _is_tagged(text: str) -> bool:
    """Whether it may hold what JSON lacks."""
    return '"$' in text


def _as_python(text: str, room: int) -> str:
    from holdfast.views.values import python_text

    return python_text(text, room)
