"""The estimate of what a model request may use, which is reserved before it is sent."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage
from pydantic_ai.settings import ModelSettings

from holdfast.agents.llm.conversation_digest import text_size
from holdfast.agents.llm.prices import Prices
from holdfast.kernel.amounts import Amounts

OUTPUT_TOKENS = 4096
"""Of an answer where the settings have no `max_tokens`."""
_BYTES_PER_TOKEN = 3
"""Fewer than a token of most texts has, so that the estimate is rather too high."""
_OVERHEAD_TOKENS = 1_000
"""Descriptions of tools, which are not a part of the messages."""


def estimated(
    prices: Prices, model: str, messages: Sequence[ModelMessage], settings: ModelSettings | None
) -> Amounts:
    """Tokens of the prompt and the longest answer, and their price if it is known."""
    given = text_size(messages) // _BYTES_PER_TOKEN + _OVERHEAD_TOKENS
    answer = (settings or {}).get("max_tokens", OUTPUT_TOKENS)
    return Amounts(usd=prices.usd(model, "", given, answer), tokens=given + answer)
