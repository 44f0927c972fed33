"""Columns of a list that give way to its text where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Sequence

LEAST = 16
"""The columns that a text needs to be recognized."""


def left_out(room: int, widths: Sequence[int], least: int = LEAST) -> int:
    """How many of the columns, the first ones, are left out, so that at least `least` remain for the text;
    all of them if that is not enough. `room` is what remains beside all columns."""
    count = 0
    while room < least and count < len(widths):
        room += widths[count]
        count += 1
    return count
