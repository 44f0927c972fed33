"""How many there are, in words that fit the number."""

from __future__ import annotations


def counted(count: int, noun: str, nouns: str = "") -> str:
    """`1 step`, `2 steps`, `1,000 steps`; `nouns` is for those that do not end so."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def unit_for(amount: object, unit: str) -> str:
    """The unit of an amount: `step` for 1, else `steps`."""
    return unit.removesuffix("s") if str(amount) == "1" else unit
