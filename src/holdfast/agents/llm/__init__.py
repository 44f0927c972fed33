"""Agents of pydantic-ai whose model requests and tool calls are steps of a run.

    from holdfast.agents.llm import HoldfastDurability, approvals

    coder = Agent("openai-chat:gpt-5", name="coder", capabilities=[HoldfastDurability(), approvals()])

    @workflow
    async def work(goal: str) -> str:
        return (await coder.run(goal)).output

Needs the extra `llm`. Nothing else of holdfast imports this package, or pydantic-ai.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadInput

if TYPE_CHECKING:
    from holdfast.agents.llm.agent import LlmAgent
    from holdfast.agents.llm.durability import HoldfastDurability
    from holdfast.agents.llm.tool_approvals import approvals

__all__ = ["HoldfastDurability", "LlmAgent", "approvals"]

_HOMES = {"HoldfastDurability": "durability", "LlmAgent": "agent", "approvals": "tool_approvals"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import_module("pydantic_ai.durable_exec")
    except ImportError:
        raise BadInput("agents of kind llm need pydantic-ai: pip install 'holdfast[llm]'") from None
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
