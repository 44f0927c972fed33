"""The price of a model request in US dollars.

Prices of your own come first (`prices=` of an agent): USD for a million tokens. Then those of genai-prices,
if it is installed. A model that neither knows has no price: its tokens are counted, and its cost is
reported as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from holdfast.errors import BadInput

MILLION = Decimal(1_000_000)


class Price(NamedTuple):
    """USD for a million tokens."""

    input: Decimal
    output: Decimal

    def of(self, input_tokens: int, output_tokens: int) -> Decimal:
        return (self.input * input_tokens + self.output * output_tokens) / MILLION


class Prices:
    """Prices by the name of the model, or by `provider:name`. `own` are (input, output) in USD for a
    million tokens, as texts or numbers: `{"my-model": ("0.5", "1.5")}`."""

    def __init__(
        self, own: Mapping[str, tuple[str | float | Decimal, str | float | Decimal]] | None = None
    ) -> None:
        self._own = {name: _price(name, pair) for name, pair in (own or {}).items()}

    def usd(
        self, model: str, provider: str, input_tokens: int, output_tokens: int, **cached: int
    ) -> Decimal | None:
        """The price of one request; None if it is not known. `cached` are `cache_read_tokens` and
        `cache_write_tokens`, which are a part of the input; prices of your own do not tell them apart."""
        own = self._own.get(f"{provider}:{model}") or self._own.get(model)
        if own is not None:
            return own.of(input_tokens, output_tokens)
        try:
            from genai_prices import Usage, calc_price
        except ImportError:
            return None
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, **cached)
        try:
            return calc_price(usage, model, provider_id=provider or None).total_price
        except LookupError:
            return None


def _price(name: str, pair: object) -> Price:
    try:
        given = [Decimal(str(one)) for one in pair]  # type: ignore[attr-defined]
        price = Price(*given)
    except (TypeError, InvalidOperation):
        price = None
    if price is None or not all(one.is_finite() and one >= 0 for one in price):
        raise BadInput(f"prices: {name} has {pair!r}; give (input, output) in USD for a million tokens")
    return price
