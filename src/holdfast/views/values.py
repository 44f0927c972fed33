"""Recorded values as text."""

from __future__ import annotations

from holdfast.kernel.encoded import layout


def python_text(data: str, room: int) -> str:
    """Tagged JSON close to how Python writes the value, indented where it is longer than `room`."""
    return layout(data.encode(), room)
