"""`approvals`: tools that require approval wait at a gate, bound to the arguments of the call.

    @coder.tool_plain(requires_approval=True)
    def delete(path: str) -> str: ...

    coder = Agent(..., capabilities=[HoldfastDurability(), approvals()])

`holdfast approve RUN` lets the call through; `holdfast reject RUN --comment "not that file"` gives the
model the reason. A process that waits may end: the gate is in the log.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied

from holdfast.agents.llm import agent_scope
from holdfast.agents.llm.agent_scope import clean, in_run
from holdfast.agents.llm.conversation_digest import plain
from holdfast.engine.execution.step_options import Seconds
from holdfast.engine.primitives.gates import Decision, approval


def approvals(*, timeout: Seconds | None = None) -> HandleDeferredToolCalls[Any]:
    """The capability. A gate without an answer within `timeout` denies the call. Outside a run it does
    nothing, and pydantic-ai returns the requests to the caller, as it does without it."""

    async def ask(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults | None:
        if not in_run() or not requests.approvals:
            return None
        here = agent_scope.running()
        with here.entered():  # the gates are opened in the order of the calls, all at once
            gates = [
                approval.aio(
                    f"Run {call.tool_name}?", show=_shown(call), timeout=timeout, name=clean(call.tool_name)
                )
                for call in requests.approvals
            ]
        decisions = await asyncio.gather(*gates)
        return DeferredToolResults(
            approvals={
                call.tool_call_id: _answer(decision)
                for call, decision in zip(requests.approvals, decisions, strict=True)
            }
        )

    return HandleDeferredToolCalls(handler=ask)


def _shown(call: ToolCallPart) -> dict[str, Any]:
    return {"tool": call.tool_name, "arguments": plain(call.args_as_dict())}


def _answer(decision: Decision) -> bool | ToolDenied:
    if decision.outcome == "approved":
        return True
    if decision.outcome == "unanswered":
        return ToolDenied("The call was not approved in time. Continue without it.")
    return ToolDenied(f"The call was rejected by a person: {decision.comment or 'no reason was given'}")
