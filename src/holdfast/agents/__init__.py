"""Agents: who does a job (`work`, backends, configuration), and the tools that they use.

from holdfast import workflow
from holdfast.agents import Job, work

@workflow
async def fix(goal: str) -> str:
    outcome = await work.aio("claude", Job(goal=goal, prompt=f"Fix this: {goal}"))
    return outcome.text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.agents.backends.command_agent import CommandAgent as CommandAgent
    from holdfast.agents.backends.script_agent import ScriptAgent as ScriptAgent
    from holdfast.agents.protocol import Agent as Agent
    from holdfast.agents.protocol import Job as Job
    from holdfast.agents.protocol import Outcome as Outcome
    from holdfast.agents.working import work as work

_HOME = {
    "Agent": "protocol", "CommandAgent": "backends.command_agent", "Job": "protocol", "Outcome": "protocol",
    "ScriptAgent": "backends.script_agent", "work": "working",
}  # fmt: skip
__all__ = ["Agent", "CommandAgent", "Job", "Outcome", "ScriptAgent", "work"]


def __getattr__(name: str) -> Any:
    """Imported when it is used: a program that needs only a tool or the handlers does not load the rest."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
