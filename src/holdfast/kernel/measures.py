"""Measures of steps: tokens, money, and whatever else a program counts. Sums are exact."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from typing import Any, Final

import msgspec

_EXACT: Final = Context(prec=100)
"""A program may have set its own to fewer digits."""


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """Usage of one model, or of none (`model` is empty). `usd` is None if no price was given; `units`
    are the program's own, by name."""

    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal | None = None
    units: dict[str, int | Decimal] = {}

    def plus(self, other: Measured) -> Measured:
        """The sum of two of one model."""
        units = dict(self.units)
        for name, amount in other.units.items():
            units[name] = _sum(units[name], amount) if name in units else amount
        usd = (
            self.usd
            if other.usd is None
            else other.usd
            if self.usd is None
            else _EXACT.add(self.usd, other.usd)
        )
        return Measured(
            self.model,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            usd,
            units,
        )


def added(sums: Iterable[Measured], more: Iterable[Measured]) -> tuple[Measured, ...]:
    """Both together, one for each model, in the order in which the models first came."""
    found: dict[str, Measured] = {}
    for part in (sums, more):
        for one in part:
            known = found.get(one.model)
            found[one.model] = one if known is None else known.plus(one)
    return tuple(found.values())


def as_data(sums: Iterable[Measured]) -> list[dict[str, Any]]:
    """For JSON: all fields, amounts that are no whole numbers as text."""
    return [
        {
            "model": one.model or None,
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "usd": None if one.usd is None else f"{one.usd:f}",
            "units": {
                name: amount if isinstance(amount, int) else f"{amount:f}"
                for name, amount in one.units.items()
            },
        }
        for one in sums
    ]


def _sum(a: int | Decimal, b: int | Decimal) -> int | Decimal:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return _EXACT.add(Decimal(a), Decimal(b))
