"""Durations in plans: seconds as a number, or `90s`, `10m`, `1h30m`, `2d`."""

from __future__ import annotations

import re

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern}\s*)+")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: object) -> float | None:
    """The duration in seconds; None for what is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if 0 <= value < 1e10 else None
    if not isinstance(value, str) or not _WHOLE.fullmatch(value.strip()):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
