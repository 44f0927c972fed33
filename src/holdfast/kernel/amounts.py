"""Amounts of money, tokens, seconds and steps: what a budget allows, a step reserves, and an attempt used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import BadInput

NONE: Final = "none"
"""Given in place of an amount or a parent, it removes the limit or the parent."""
UNITS: Final = ("usd", "tokens", "seconds", "steps")
EXACT: Final = Context(prec=100)
"""A program may have set its own to fewer digits."""

_MOST: Final = 10**15
_MOST_DIGITS: Final = 30
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,189}")


class Amounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Amounts of the four units; None where nothing is said. Exact: money and seconds are `Decimal`s.

    usd      text, `Decimal` or a whole number, never a float
    tokens   of models, input and output together
    seconds  that an attempt takes
    steps    attempts of steps; a reservation that does not name them needs one
    budget   of a reservation: the budget that pays; empty for the one of the scope or of the run
    """

    usd: Decimal | None = None
    tokens: int | None = None
    seconds: Decimal | None = None
    steps: int | None = None
    budget: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            usd: Decimal | str | int | None = None,
            tokens: int | None = None,
            seconds: Decimal | str | float | None = None,
            steps: int | None = None,
            budget: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        put = msgspec.structs.force_setattr
        if isinstance(self.usd, float):
            raise BadInput(f"usd={self.usd!r}: text or a Decimal, '0.05', because floats are not exact")
        put(self, "usd", _decimal("usd", self.usd))
        put(self, "tokens", _whole("tokens", self.tokens))
        put(self, "seconds", _decimal("seconds", self.seconds))
        put(self, "steps", _whole("steps", self.steps))
        if self.budget:
            check_name(self.budget)

    def of(self, unit: str) -> Decimal | int | None:
        """The amount of this unit."""
        amount: Decimal | int | None = getattr(self, unit)
        return amount

    def plus(self, other: Amounts) -> Amounts:
        """The sum; what only one of them names is as it names it."""
        return self._each(other, 1)

    def minus(self, other: Amounts) -> Amounts:
        """The difference, and 0 where it would be negative."""
        return self._each(other, -1)

    def _each(self, other: Amounts, sign: int) -> Amounts:
        both = {unit: _added(self.of(unit), other.of(unit), sign) for unit in UNITS}
        return Amounts(**both, budget=self.budget)  # type: ignore[arg-type]

    def texts(self) -> dict[str, str | int | None]:
        """For JSON: money and seconds as text."""
        return {unit: shown(amount) for unit, amount in self.items()}

    def items(self) -> Iterable[tuple[str, Decimal | int | None]]:
        return [(unit, self.of(unit)) for unit in UNITS]


def shown(amount: Decimal | int | None) -> str | int | None:
    """An amount without an exponent."""
    return f"{amount:f}" if isinstance(amount, Decimal) else amount


def _added(a: Decimal | int | None, b: Decimal | int | None, sign: int) -> Decimal | int | None:
    if a is None or b is None:
        return a if b is None else b if sign > 0 else None
    if isinstance(a, int) and isinstance(b, int):
        return max(0, a + sign * b)
    return max(Decimal(0), EXACT.add(Decimal(a), Decimal(b) if sign > 0 else EXACT.minus(Decimal(b))))


def _decimal(unit: str, given: object) -> Decimal | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (Decimal, str, int, float)):
        raise BadInput(f"{unit}={given!r}: a number, not less than 0")
    try:
        amount = Decimal(repr(given) if isinstance(given, float) else given)
    except InvalidOperation:
        raise BadInput(f"{unit}={given!r}: a number such as 0.05, not less than 0") from None
    if not amount.is_finite() or not 0 <= amount <= _MOST:
        raise BadInput(f"{unit}={given}: not less than 0, at most {_MOST:,}")
    exponent = amount.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > _MOST_DIGITS:
        raise BadInput(f"{unit}={given}: at most {_MOST_DIGITS} digits after the point")
    return Decimal(f"{amount:f}") if amount else Decimal(0)


def _whole(unit: str, given: object) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= _MOST:
        raise BadInput(f"{unit}={given!r}: a whole number, not less than 0, at most {_MOST:,}")
    return given


def check_name(name: object) -> str:
    """The name itself if a budget can have it. Raises `BadInput`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == NONE:
        raise BadInput(f"{name!r} cannot be a budget's name: 1 to 190 of A-Z a-z 0-9 . _ : -, and not {NONE}")
    return name


NOTHING: Final = Amounts()
ZERO: Final = Amounts(0, 0, 0, 0)
