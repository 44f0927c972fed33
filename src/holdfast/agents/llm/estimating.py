"""The most that a model request may use, which is reserved before it is sent.

A token of text is at least one byte, whatever the model, so the bytes of a prompt are never fewer than its
tokens. What an earlier answer of the same model has counted is taken as counted: then only what was said
since is taken by its bytes. The length of the answer is known because it is sent along (`max_tokens`) where a
limit holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from holdfast.agents.llm.conversation_digest import text_size
from holdfast.agents.llm.prices import Prices
from holdfast.kernel.amounts import Amounts

OUTPUT_TOKENS = 4096
"""Of an answer where the settings have no `max_tokens`. Every model accepts so many."""
_FRAME_TOKENS = 1_000
"""Tokens that a provider adds to the messages: roles, separators, its own words on tools."""


class Asked(NamedTuple):
    """A model request, before it is sent."""

    messages: Sequence[ModelMessage]
    settings: ModelSettings | None
    parameters: ModelRequestParameters


def estimated(prices: Prices, model: str, asked: Asked) -> Amounts:
    """Tokens of the prompt and the longest answer, and their price if it is known."""
    given = _prompt_tokens(model, asked)
    answer = answer_tokens(asked.settings)
    return Amounts(usd=prices.usd(model, "", given, answer), tokens=given + answer)


def answer_tokens(settings: Mapping[str, Any] | None) -> int:
    """The longest answer that the settings allow. Thinking that has a budget of its own counts in it."""
    given = settings or {}
    thinking = given.get("anthropic_thinking") or {}
    return int(given.get("max_tokens") or OUTPUT_TOKENS + thinking.get("budget_tokens", 0))


def _prompt_tokens(model: str, asked: Asked) -> int:
    messages = asked.messages
    for place in range(len(messages) - 1, -1, -1):
        answer = messages[place]
        if isinstance(answer, ModelResponse) and answer.usage.input_tokens and _is_by(model, answer):
            counted = answer.usage.input_tokens + answer.usage.output_tokens
            return counted + text_size(messages[place + 1 :]) + _FRAME_TOKENS
    return text_size(messages) + _tools_size(asked.parameters) + _FRAME_TOKENS


def _is_by(model: str, answer: ModelResponse) -> bool:
    """A provider may answer with the full name of a model that was asked for by a short one."""
    return (answer.model_name or "").startswith(model.rpartition(":")[2])


def _tools_size(parameters: ModelRequestParameters) -> int:
    """The bytes of the descriptions of tools."""
    tools = [*parameters.function_tools, *parameters.output_tools]
    described = [[one.name, one.description, one.parameters_json_schema] for one in tools]
    return len(json.dumps(described, default=str, ensure_ascii=False).encode("utf-8", "replace"))
