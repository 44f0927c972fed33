"""One request to a provider, in the body of its step: with an idempotency key, without retries of the
client, its stream read to the end, and its usage measured with the outcome."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from holdfast.agents.llm.prices import Prices
from holdfast.engine.execution.call import Call
from holdfast.engine.execution.scope import InsideStep, current
from holdfast.engine.primitives.checkpoint import emit
from holdfast.engine.primitives.measure import measure
from holdfast.engine.primitives.step import idempotency_key

EMITTED = "model"
"""The name under which the pieces of a streamed text are emitted."""
_PIECE_CHARS = 400
_PIECE_S = 0.25
_SDKS = ("openai", "anthropic", "groq")
_HTTP = ("httpx", "httpx2")


class Sending:
    """How the step of a request sends it: by which model, and whether as a stream."""

    def __init__(self, instead: Model | None, stream: bool, prices: Prices, answer_tokens: int) -> None:
        self.instead = instead
        """A fallback that is asked instead of the agent's model."""
        self.stream = stream
        self.prices = prices
        self.answer_tokens = answer_tokens
        """The longest answer that was reserved for."""
        self.model = ""
        """The model that was asked last, for messages."""
        self.sends_once = False
        """Whether an error of that model is known to be of its only try."""


sending: ContextVar[Sending | None] = ContextVar("holdfast_sending", default=None)
"""Of the step of a model request, in its body."""


class SentModel(WrapperModel):
    """Sends the requests of `wrapped`, or of the fallback of the step. In the body of another step it
    measures them, so that the reservation of that step pays. Elsewhere it changes nothing."""

    def __init__(self, wrapped: Model, prices: Prices) -> None:
        super().__init__(wrapped)
        self._prices = prices

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        how = sending.get()
        if how is None:
            response = await self.wrapped.request(messages, model_settings, model_request_parameters)
            self._measure_in_step(response)
            return response
        async with self._asked(how) as model:
            asked = _own_messages(model, how, messages, model_request_parameters)
            settings = _settings(model, how, model_settings)
            if how.stream:
                async with model.request_stream(asked, settings, model_request_parameters) as stream:
                    await _emit_text(stream)
                response = stream.get()
            else:
                response = await model.request(asked, settings, model_request_parameters)
        _measure(how.prices, model, response)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        how = sending.get()
        if how is None:
            async with self.wrapped.request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                yield stream
            self._measure_in_step(stream.get())
            return
        async with self._asked(how) as model:
            asked = _own_messages(model, how, messages, model_request_parameters)
            settings = _settings(model, how, model_settings)
            async with model.request_stream(asked, settings, model_request_parameters, run_context) as stream:
                yield stream
        _measure(how.prices, model, stream.get())

    def _measure_in_step(self, response: ModelResponse) -> None:
        """A request of an agent that works in the body of a step is a part of what that step uses."""
        if isinstance(current.get(), InsideStep):
            _measure(self._prices, self.wrapped, response)

    @asynccontextmanager
    async def _asked(self, how: Sending) -> AsyncGenerator[Model]:
        """The model to ask. The agent's own is entered by the agent; a fallback only for the request."""
        if how.instead is None:
            how.model, how.sends_once = self.wrapped.model_id, sends_once(self.wrapped)
            yield self.wrapped
            return
        how.model, how.sends_once = how.instead.model_id, sends_once(how.instead)
        async with how.instead:
            yield how.instead


def sends_once(model: Model) -> bool:
    """Whether a request of the model is known to be sent at most once: an adapter of pydantic-ai that turns
    off the retries of its client, and a client whose transport has none. One that retries raises the error of
    its last try, which does not say whether an earlier one was sent."""
    while isinstance(model, WrapperModel) and _is_of(model, "pydantic_ai", "holdfast"):
        model = model.wrapped
    client = getattr(model, "client", None)
    http = getattr(client, "_client", None)
    if "max_retries" in model.unsupported_settings or not _is_of(model, "pydantic_ai"):
        return False
    if not _is_of(client, *_SDKS) or not _is_of(http, *_SDKS, *_HTTP):
        return False
    transports = [getattr(http, "_transport", None), *getattr(http, "_mounts", {}).values()]
    return all(one is None or _is_of(one, *_HTTP) for one in transports)


def _is_of(thing: object, *packages: str) -> bool:
    """Whether its class is one of these packages', not one that is derived from it elsewhere."""
    return type(thing).__module__.partition(".")[0] in packages


def _own_messages(
    model: Model, how: Sending, messages: list[ModelMessage], parameters: ModelRequestParameters
) -> list[ModelMessage]:
    """The messages were prepared for the agent's model; a fallback may need other ones."""
    return messages if how.instead is None else model.prepare_messages(messages, parameters)


def _settings(model: Model, how: Sending, settings: ModelSettings | None) -> ModelSettings:
    """The key of the step goes along, and the client does not retry: retries are attempts of the step. Where
    a limit holds, an answer is no longer than what was reserved for."""
    ours: dict[str, Any] = {}
    if _is_limited() and "max_tokens" not in model.unsupported_settings:
        ours["max_tokens"] = how.answer_tokens
    if "max_retries" not in model.unsupported_settings:
        ours["max_retries"] = 0
    if "extra_headers" not in model.unsupported_settings:
        headers = (settings or {}).get("extra_headers", {})
        ours["extra_headers"] = {**headers, "Idempotency-Key": _header(idempotency_key())}
    return cast(ModelSettings, {**(settings or {}), **ours})


def _is_limited() -> bool:
    inside = current.get()
    return isinstance(inside, Call) and inside.limited


def _header(key: str) -> str:
    """The key as a header can carry it: names of agents may have any letters."""
    return key if key.isascii() else hashlib.sha256(key.encode()).hexdigest()


def _measure(prices: Prices, model: Model, response: ModelResponse) -> None:
    """Recorded together with the response."""
    usage = response.usage
    name = response.model_name or model.model_name
    cached: dict[str, int] = {
        kind: count
        for kind, count in (
            ("cache_read_tokens", usage.cache_read_tokens),
            ("cache_write_tokens", usage.cache_write_tokens),
        )
        if count
    }
    usd = prices.usd(
        name, response.provider_name or model.system, usage.input_tokens, usage.output_tokens, **cached
    )
    measure(model=name, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, usd=usd, **cached)


async def _emit_text(stream: StreamedResponse) -> None:
    """Read the stream to its end; its text is emitted in pieces as it comes, some at a time."""
    inside = current.get()
    assert isinstance(inside, InsideStep)
    clock = inside.execution.engine.clock
    waiting: list[str] = []
    since = clock.monotonic()
    async for event in stream:
        waiting += _text_of(event)
        if waiting and (sum(map(len, waiting)) >= _PIECE_CHARS or clock.monotonic() - since >= _PIECE_S):
            emit(EMITTED, "".join(waiting))
            waiting, since = [], clock.monotonic()
    if waiting:
        emit(EMITTED, "".join(waiting))


def _text_of(event: Any) -> Sequence[str]:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return (event.part.content,) if event.part.content else ()
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return (event.delta.content_delta,)
    return ()
