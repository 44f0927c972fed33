"""Steps by names that a person would say, in the place of their keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_NUMBER = re.compile(r"(?:#|\[)\d+\]?$")
_FIRST = re.compile(r"(?:#1|\[1\])$")


def short_key(key: str) -> str:
    """The key without numbers that are 1, and without a scope that is named like what is in it: `build` for
    `build[1]/build#1`, `ask#2` as it is."""
    return _joined(_FIRST.sub("", part) for part in key.split("/"))


def counted_names(keys: Iterable[str]) -> list[str]:
    """The steps by name, each name once, with how many have it: `weigh (2)` for the items of a list."""
    found = Counter(_joined(_NUMBER.sub("", part) for part in key.split("/")) for key in keys)
    return [name if count == 1 else f"{name} ({count:,})" for name, count in found.items()]


def _joined(parts: Iterable[str]) -> str:
    kept: list[str] = []
    for part in parts:
        if not kept or kept[-1] != part:
            kept.append(part)
    return "/".join(kept)
