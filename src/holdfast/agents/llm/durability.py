"""`HoldfastDurability`: the capability that makes the model requests and tool calls of a pydantic-ai agent
steps.

    coder = Agent("openai-chat:gpt-5", name="coder", tools=[read], capabilities=[HoldfastDurability()])

    @workflow
    async def work(goal: str) -> str:
        return (await coder.run(goal)).output  # coder[1]/model#1, coder[1]/read@1-call_7, ...

It is built on `pydantic_ai.durable_exec`, the public surface for such engines. Outside a run the agent is a
plain one; in the body of a step it needs a reservation of that step, which pays for it. Dependencies (`deps`)
stay in the process: they are neither recorded nor copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial, wraps
from typing import Any, Literal, cast, get_args

from pydantic import ValidationError
from pydantic_ai import Agent
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    CallableOperationBackend,
    CallToolResult,
    DurabilityEngineSpec,
    DurableOperationId,
    JournalOperationNamer,
    ModelCompactMessagesId,
    ModelRequestId,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetValidateToolArgumentsId,
    conversation_id_from_run_id,
)
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext, infer_model
from pydantic_ai.tools import RunContext, ToolDefinition

from holdfast.agents.llm import agent_scope
from holdfast.agents.llm.agent_scope import AgentScope, clean, in_run
from holdfast.agents.llm.conversation_digest import digest_messages, digest_other, digest_tool
from holdfast.agents.llm.estimating import Asked, answer_tokens, estimated
from holdfast.agents.llm.prices import Prices
from holdfast.agents.llm.provider_failure import ProviderRetry, as_failure, as_model_error, was_not_sent
from holdfast.agents.llm.provider_request import Sending, SentModel, sending
from holdfast.engine.execution import task_driver
from holdfast.engine.execution.arguments import Digested
from holdfast.engine.execution.call import Call, Spec
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.step_options import ONCE, Retry, Seconds, check_files, seconds
from holdfast.engine.primitives.measure import measure
from holdfast.engine.primitives.sleep import sleep
from holdfast.engine.primitives.values import now
from holdfast.errors import BadInput, ModelFailed
from holdfast.kernel.amounts import Amounts
from holdfast.kernel.events import Effect

TOOL_OPTIONS = ("effect", "retry", "timeout", "writes")
"""The keys of a tool's `metadata={"holdfast": {...}}`; `metadata={"holdfast": False}` makes it no step."""

Body = Callable[[], Awaitable[object]]


class HoldfastDurability(BaseDurabilityCapability[Any]):
    """Makes each model request and each tool call of an agent a step of the run that calls the agent.

    retry      attempts of a request whose failure passes (429, 5xx, timeouts, a cut-off stream)
    timeout    seconds for one attempt of a request
    fallbacks  models that are asked in turn when a request has failed for good; each is a request of its own
    pause      when no model has answered, pause the run; `resume` asks all of them again. False raises the
               error of pydantic-ai
    stream     read answers as a stream, and emit their text while it comes (`holdfast watch`, `on_event`)
    prices     USD for a million tokens, (input, output) by model, where genai-prices is wrong or silent
    reserve_usd  reserved in the budget before each request; without it, an estimate by the size of the
               prompt and `max_tokens`
    models     as in pydantic-ai: models that `agent.run(model=...)` may name
    name       the name of the agent's scope; the agent's by default

    A recorded request is never sent again. One that was cut off is sent again as another attempt of its
    step, with the same `Idempotency-Key`. A tool is a step too, with the options that its metadata gives:
    `metadata={"holdfast": {"effect": "once"}}`. A tool that calls steps itself must not be one:
    `metadata={"holdfast": False}`; its steps are in a branch of that call.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="holdfast",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset({"mcp", "dynamic"}),
        tool_config_key="holdfast",
        cancellation_error_types=(Control,),
    )

    def __init__(
        self,
        *,
        retry: Retry | None = None,
        timeout: Seconds | None = None,
        fallbacks: Sequence[Model | str] = (),
        pause: bool = True,
        stream: bool = False,
        prices: Mapping[str, tuple[str | float | Decimal, str | float | Decimal]] | None = None,
        reserve_usd: Decimal | str | None = None,
        models: Mapping[str, Model] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, name=name)
        self.retry = Retry(attempts=4, initial=1.0, cap=60.0) if retry is None else retry
        self.timeout_s = None if timeout is None else seconds(timeout)
        self.fallbacks: Sequence[Model] = tuple(map(infer_model, fallbacks))
        self.pause = pause
        self.stream = stream
        self.prices = Prices(prices)
        self.reserve_usd = None if reserve_usd is None else Amounts(usd=reserve_usd).usd

    def for_agent(self, agent: AbstractAgent[Any, Any]) -> AbstractCapability[Any]:
        for call in ("run_sync", "run_stream_sync"):
            if call not in vars(agent):
                setattr(agent, call, _not_in_a_loop(agent, call))
        return super().for_agent(agent)

    # Where it is

    @property
    def in_durable_context(self) -> bool:
        return in_run()

    def get_default_run_id(self) -> str | None:
        if not in_run():
            return None
        here = agent_scope.opened(self.name)
        return f"{here.scope.execution.id}:{here.path}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        if not in_run():
            return None
        agent_scope.opened(self.name)  # also where the caller has given a run_id
        return conversation_id_from_run_id(run_id)

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        if not in_run():
            return None
        with agent_scope.running().entered():
            return now()

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        if not in_run():
            agent_scope.check_metered(self.name)
            return await handler()
        here = agent_scope.running()

        async def durable_sleep(delay: float) -> None:
            with here.entered():
                waiting = sleep.aio(delay)
            await waiting

        with agent_scope.entered(here), Agent.using_sleep(durable_sleep):
            return await handler()

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        """The steps of a tool that is not a step itself are in a branch of the call."""
        if not in_run() or (tool_def.metadata or {}).get("holdfast") is not False:
            return await handler(args)
        with agent_scope.running().tool(call.tool_name, call.tool_call_id):
            return await handler(args)

    # What it does

    def get_wrapper_model(self, model: Model) -> Model | None:
        return SentModel(model, self.prices)

    def get_durable_operation_backend(self) -> _Backend:
        resolve = self._build_resolve_tool_config({})

        def of_tool(_: object, tool: Any, name: str) -> dict[str, Any] | Literal[False]:
            return cast("dict[str, Any] | Literal[False]", resolve(tool, name))

        config: RoleBasedOperationConfig[dict[str, Any]] = RoleBasedOperationConfig(
            model={}, event={}, capability={}, tool={}, resolve_tool=of_tool
        )
        return _Backend(self, config)


def _not_in_a_loop(agent: AbstractAgent[Any, Any], call: str) -> Callable[..., Any]:
    """The method, which says what to do instead where asyncio only knows that its loop is running."""
    plain: Callable[..., Any] = getattr(agent, call)

    @wraps(plain)
    def checked(*args: Any, **kwargs: Any) -> Any:
        agent_scope.check_not_blocking(agent.name or "agent", call)
        return plain(*args, **kwargs)

    return checked


class _Backend(CallableOperationBackend[dict[str, Any]]):
    """Executes each operation of the agent as a step."""

    def __init__(self, asks: HoldfastDurability, config: RoleBasedOperationConfig[dict[str, Any]]) -> None:
        super().__init__(namer=JournalOperationNamer(asks.name), config=config)
        self._asks = asks

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Body,
        cache_key: tuple[object, ...],
        config: dict[str, Any],
    ) -> object:
        here = agent_scope.running()
        match operation_id:
            case ModelRequestId():
                return await self._request(
                    here, operation_id.model_name, body, Asked(*cast(Any, cache_key[1:4]))
                )
            case ModelCompactMessagesId():
                context = cast(ModelRequestContext, cache_key[1])
                asked = Asked(context.messages, context.model_settings, context.model_request_parameters)
                return await self._request(here, operation_id.model_name, body, asked)
            case ToolsetCallToolId():
                return await _tool(here, "", body, cache_key, config)
            case ToolsetValidateToolArgumentsId():
                return await _tool(here, ".check", body, cache_key, config)
            case _:  # discovery, instructions, operations of capabilities: in the order of their calls
                spec = Spec(clean(name), body, is_async=True, retry=ONCE)
                return await task_driver.perform_call(_numbered(here, spec, digest_other(clean(name))))

    # Model requests

    async def _request(
        self,
        here: AgentScope,
        model: str,
        body: Body,
        asked: Asked,
    ) -> object:
        """The answer of the first model that gives one, beginning with the one that answered last. One that
        has failed rests as long as another answers."""
        digested = digest_messages(model, asked.messages)
        models = (None, *self._asks.fallbacks)
        while True:
            failures: list[ModelFailed] = []
            for turn in range(len(models)):
                place = (here.answered + turn) % len(models)
                try:
                    instead = models[place]
                    name = model if instead is None else instead.model_name
                    answer = await self._ask(here, name, instead, body, digested, asked)
                except ModelFailed as failure:
                    failures.append(failure)
                else:
                    here.answered = place
                    return answer
            here.answered = 0
            if not self._asks.pause:
                raise as_model_error(failures[-1]) from failures[-1]
            await _pause(here, failures)

    async def _ask(
        self,
        here: AgentScope,
        model: str,
        instead: Model | None,
        body: Body,
        digested: Digested,
        asked: Asked,
    ) -> object:
        how = Sending(instead, self._asks.stream, self._asks.prices, answer_tokens(asked.settings))

        async def ask() -> object:
            token = sending.set(how)
            try:
                async with asyncio.timeout(self._asks.timeout_s):
                    return await body()
            except Exception as error:
                failure = as_failure(how.model or model, error)
                if failure is None:
                    raise
                # Refused, or not sent: that costs nothing.
                is_unsent = how.sends_once and was_not_sent(error)
                if failure.status or not failure.temporary or is_unsent:
                    measure(model=model, usd=Decimal(0))
                if failure is error:
                    raise
                raise failure from None
            finally:
                sending.reset(token)

        spec = Spec(
            "model",
            ask,
            is_async=True,
            retry=ProviderRetry.like(self._asks.retry),
            reserve=partial(
                self._reserved, model, asked
            ),  # and so an intent: a request that a kill cuts off is known to have been sent
        )
        call = _numbered(here, spec, digested)
        here.request += 1
        return await task_driver.perform_call(call)

    def _reserved(self, model: str, asked: Asked) -> Amounts:
        most = estimated(self._asks.prices, model, asked)
        usd = self._asks.reserve_usd
        return most if usd is None else Amounts(usd=usd, tokens=most.tokens)


async def _pause(here: AgentScope, failures: Sequence[ModelFailed]) -> None:
    """Pause the run, once: that it was paused here is recorded, and after `resume` the code continues. The
    failures are those of steps, and redacted."""
    run = here.scope.execution
    why = "no model answered: " + "; ".join(map(str, failures))
    fresh = []

    async def note() -> str:
        fresh.append(True)
        return why

    spec = Spec("no-model", note, is_async=True, retry=ONCE)
    await task_driver.perform_call(_numbered(here, spec, digest_other("no-model")))
    if fresh:
        raise run.pause(why, "")


def _numbered(here: AgentScope, spec: Spec, digested: Digested) -> Call:
    """A call that is identified by its place."""
    scope = here.scope
    key = scope.counters.key(spec.name)
    return Call(
        scope.execution,
        spec,
        key,
        scope.counters.ordinal,
        digested,
        deadline=scope.deadline,
        budget=scope.budget,
    )


# Tool calls


async def _tool(
    here: AgentScope, ending: str, body: Body, cache_key: tuple[object, ...], config: Mapping[str, Any]
) -> object:
    tool, arguments, ctx = cast("tuple[str, dict[str, Any], RunContext[Any]]", cache_key[:3])
    name = clean(tool) + ending
    scope = here.scope
    key = f"{scope.counters.path}{name}@{here.tool_key(ctx.tool_call_id)}"
    spec = _tool_spec(name, body, config)
    digested = digest_tool(arguments)
    call = Call(scope.execution, spec, key, 0, digested, deadline=scope.deadline, budget=scope.budget)
    return await task_driver.perform_keyed(call)


def _tool_spec(name: str, body: Body, config: Mapping[str, Any]) -> Spec:
    unknown = sorted(set(config) - set(TOOL_OPTIONS))
    if unknown:
        raise BadInput(
            f"tool {name}: metadata 'holdfast' has {unknown[0]!r}; there are {', '.join(TOOL_OPTIONS)}"
        )
    effect: Effect = config.get("effect", "idempotent")
    if effect not in get_args(Effect):
        raise BadInput(f"tool {name}: effect={effect!r}; use 'idempotent', 'once' or 'workspace'")
    writes = config.get("writes", ())
    check_files(f"tool {name}", effect, writes, None)
    limit = config.get("timeout")
    return Spec(
        name,
        body,
        is_async=True,
        recalled=_recalled,
        effect=effect,
        retry=config.get("retry", ONCE),
        timeout=None if limit is None else seconds(limit),
        writes=writes,
        intent_first=True,
    )


def _recalled(value: object) -> object:
    """The recorded result of a tool as pydantic-ai writes it. A value that a person settled a tool with is
    what the tool would have returned, and becomes its result."""
    try:
        JSON_CODEC.load(CallToolResult, value)
    except ValidationError:
        return {"kind": "tool_return", "result": value}
    return value
