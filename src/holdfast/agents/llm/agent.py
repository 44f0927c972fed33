"""`LlmAgent`: an agent that asks a model by its API and works with holdfast's own tools.

    agent = LlmAgent("anthropic:claude-sonnet-4-5", fallbacks=("openai:gpt-5",), approve=("run",))

    @workflow
    async def fix(what: str) -> str:
        return (await agent.work(Job(goal=what, prompt=what))).text

Each request and each tool call is a step. A request that fails for a while is tried again, then the next
model is asked; when no model answers, the run is paused with the reasons, and `resume` asks again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from pydantic_ai import Agent as ModelAgent
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from holdfast.agents.llm import agent_scope
from holdfast.agents.llm.agent_scope import AgentScope
from holdfast.agents.llm.durability import HoldfastDurability
from holdfast.agents.llm.model_tools import checked_names, model_tools
from holdfast.agents.llm.named_models import ModelName, built, named
from holdfast.agents.llm.tool_approvals import approvals
from holdfast.agents.protocol import Job, Outcome
from holdfast.engine.execution.reserving import Paying
from holdfast.engine.execution.step_options import Retry, Seconds
from holdfast.errors import BadInput
from holdfast.kernel.amounts import Amounts
from holdfast.kernel.budget import DEFAULT
from holdfast.kernel.identity import check_step_name

INSTRUCTIONS = (
    "You work on the files of one directory, the workspace. Paths are relative to it. Use the tools to look "
    "before you change anything. When the job is done, answer with a short account of what you did and found."
)
MAX_REQUESTS = 100


class LlmAgent:
    """An agent of the backend `llm`. It holds no state: one instance serves any number of jobs at once.

    model         `openai-chat:NAME`, `openai-responses:NAME` (`openai:NAME`), `anthropic:NAME`, or a model
    of
                  pydantic-ai
    name          its name, and that of the scope of its steps
    instructions  text for the model before the job, after our own few sentences on the workspace
    tools         the names of the tools it gets (read, write, edit, list, search, run); True for all of them
    approve       the names of tools that wait for a person's approval at each call
    fallbacks     models that are asked when the first one fails for good
    stream        read answers as a stream, and emit their text while it comes
    base_url      the address of a server that speaks the protocol of `model`
    key_variable  the environment variable that has the key (OPENAI_API_KEY, ANTHROPIC_API_KEY)
    settings      as `ModelSettings` of pydantic-ai has them: `{"max_tokens": 4000, "temperature": 0}`
    retry, timeout  attempts of one request, and seconds for each
    prices        USD for a million tokens, (input, output) by model
    reserve_usd   reserved in the budget before each request; without it, an estimate
    max_requests  so many requests for one job; then it fails
    """

    def __init__(
        self,
        model: str | Model,
        *,
        name: str = "llm",
        instructions: str = "",
        tools: Sequence[str] | bool = True,
        approve: Sequence[str] = (),
        fallbacks: Sequence[str | Model] = (),
        stream: bool = False,
        base_url: str | None = None,
        key_variable: str | None = None,
        settings: Mapping[str, Any] | None = None,
        retry: Retry | None = None,
        timeout: Seconds | None = None,
        prices: Mapping[str, tuple[str | float | Decimal, str | float | Decimal]] | None = None,
        reserve_usd: Decimal | str | None = None,
        max_requests: int = MAX_REQUESTS,
    ) -> None:
        self.name = check_step_name(name)
        self._models: list[Model | ModelName] = [
            named(one, base_url, key_variable) if isinstance(one, str) else one for one in (model, *fallbacks)
        ]
        self._instructions = "\n\n".join(part for part in (INSTRUCTIONS, instructions.strip()) if part)
        self._tools = checked_names(tools)
        self._approve = frozenset(checked_names(approve))
        if max_requests < 1:
            raise BadInput(f"LlmAgent(max_requests={max_requests}): at least 1")
        self._stream = stream
        self._settings = dict(settings or {})
        self._retry = retry
        self._timeout = timeout
        self._prices = prices
        self._reserve_usd = reserve_usd
        self._max_requests = max_requests

    def __repr__(self) -> str:
        return f"<LlmAgent {self.name}>"

    async def work(self, job: Job) -> Outcome:
        """Work on the job until the model answers without a tool call. Raises `RunPaused` (a control
        signal) when no model answers; `UsageLimitExceeded` of pydantic-ai after `max_requests`."""
        if not agent_scope.in_run():
            raise BadInput(f"agent {self.name} works in a run: call it from a workflow that a run executes")
        names = [one for one in self._models if isinstance(one, ModelName)]
        async with built(names) as made:
            found = iter(made)
            first, *others = [next(found) if isinstance(one, ModelName) else one for one in self._models]
            agent: ModelAgent[None, str] = ModelAgent(
                first,
                name=self.name,
                instructions=self._instructions,
                tools=model_tools(self._tools, job, self._approve),
                capabilities=[self._durability(others), approvals()],
            )
            here = agent_scope.opened(self.name)
            here.scope.budget = _paying(here, job)
            result = await agent.run(
                prompt_of(job),
                model_settings=cast(ModelSettings, dict(self._settings)),
                usage_limits=UsageLimits(request_limit=self._max_requests),
            )
        return Outcome(text=result.output, measured=here.measured())

    def _durability(self, fallbacks: Sequence[Model]) -> HoldfastDurability:
        return HoldfastDurability(
            retry=self._retry,
            timeout=self._timeout,
            fallbacks=fallbacks,
            stream=self._stream,
            prices=self._prices,
            reserve_usd=self._reserve_usd,
        )


def _paying(here: AgentScope, job: Job) -> Paying | None:
    """The budget of the job: one of its own below the one that pays, if it has a limit of its own."""
    outer = Paying(job.budget) if job.budget else here.scope.budget
    if job.max_usd is None:
        return outer
    run = here.scope.execution
    parent = outer.name if outer is not None else run.state.budget or DEFAULT
    told_apart = hashlib.sha256(here.path.encode()).hexdigest()[:6]
    name = f"{run.id[:100]}:{re.sub('[^A-Za-z0-9._-]+', '-', here.path)[:60]}-{told_apart}"
    return Paying(name.lstrip("._-"), Amounts(usd=job.max_usd), parent)


def prompt_of(job: Job) -> str:
    """The job as the model reads it."""
    parts = [job.prompt]
    if job.goal and job.goal != job.prompt:
        parts.append(f"This is a part of the goal: {job.goal}")
    if job.history:
        parts.append(
            "What was done, decided and rejected before:\n" + "\n".join(f"- {one}" for one in job.history)
        )
    if job.paths:
        parts.append("Files that matter: " + ", ".join(job.paths))
    if job.writes:
        parts.append("Change only files that match: " + ", ".join(job.writes))
    if not job.changes_files:
        parts.append("Change no files.")
    return "\n\n".join(parts)
