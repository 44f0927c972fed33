"""Models by name: `openai-chat:NAME`, `openai-responses:NAME`, `anthropic:NAME`, at any address that speaks
the protocol. The key is looked for when a request is sent: a run whose requests are recorded needs none."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from holdfast.errors import BadInput, ModelFailed

CONNECT_S = 10.0
ANSWER_S = 600.0
_NO_KEY = "none"


class ModelName(NamedTuple):
    """A model as settings name it. `key_variable` is the environment variable that has the key."""

    protocol: str
    name: str
    base_url: str | None
    key_variable: str

    @property
    def key(self) -> str:
        return os.environ.get(self.key_variable, "")


Closing = Callable[[], Awaitable[None]]


def named(text: str, base_url: str | None = None, key_variable: str | None = None) -> ModelName:
    """Read a name. Raises `BadInput` for a protocol that is not known, with those that are."""
    protocol, _, name = text.partition(":")
    if protocol not in _PROTOCOLS or not name:
        raise BadInput(f"model {text!r}: write {', '.join(f'{one}:NAME' for one in _PROTOCOLS)}")
    return ModelName(protocol, name, base_url, key_variable or _PROTOCOLS[protocol][1])


@asynccontextmanager
async def built(names: list[ModelName]) -> AsyncGenerator[list[Model]]:
    """The models, with clients of their own, which are closed at the end: a client belongs to one event
    loop."""
    async with AsyncExitStack() as stack:
        models: list[Model] = []
        for name in names:
            try:
                model, close = _PROTOCOLS[name.protocol][0](name)
            except ImportError as error:
                raise BadInput(
                    f"{name.protocol} needs a client: pip install 'holdfast[llm]' ({error})"
                ) from None
            stack.push_async_callback(close)
            models.append(KeyedModel(model, name))
        yield models


class KeyedModel(WrapperModel):
    """Refuses to send a request without a key, and says which variable is missing."""

    def __init__(self, wrapped: Model, name: ModelName) -> None:
        super().__init__(wrapped)
        self._named = name

    @property
    def model_id(self) -> str:
        return f"{self._named.protocol}:{self._named.name}"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self._check_key()
        return await self.wrapped.request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        self._check_key()
        async with self.wrapped.request_stream(
            messages, model_settings, model_request_parameters, run_context
        ) as stream:
            yield stream

    def _check_key(self) -> None:
        if not self._named.key:
            raise ModelFailed(self.model_id, f"there is no key: set the variable {self._named.key_variable}")


def _openai_client(name: ModelName) -> Any:
    from openai import AsyncOpenAI, Timeout

    return AsyncOpenAI(
        api_key=name.key or _NO_KEY,
        base_url=name.base_url,
        max_retries=0,
        timeout=Timeout(ANSWER_S, connect=CONNECT_S),
    )


def _openai_chat(name: ModelName) -> tuple[Model, Closing]:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = _openai_client(name)
    return OpenAIChatModel(name.name, provider=OpenAIProvider(openai_client=client)), client.close


def _openai_responses(name: ModelName) -> tuple[Model, Closing]:
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = _openai_client(name)
    return OpenAIResponsesModel(name.name, provider=OpenAIProvider(openai_client=client)), client.close


def _anthropic(name: ModelName) -> tuple[Model, Closing]:
    from anthropic import AsyncAnthropic, Timeout
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=name.key or _NO_KEY,
        base_url=name.base_url,
        max_retries=0,
        timeout=Timeout(ANSWER_S, connect=CONNECT_S),
    )
    return AnthropicModel(name.name, provider=AnthropicProvider(anthropic_client=client)), client.close


_PROTOCOLS: dict[str, tuple[Callable[[ModelName], tuple[Model, Closing]], str]] = {
    "openai-chat": (_openai_chat, "OPENAI_API_KEY"),
    "openai-responses": (_openai_responses, "OPENAI_API_KEY"),
    "openai": (_openai_responses, "OPENAI_API_KEY"),
    "anthropic": (_anthropic, "ANTHROPIC_API_KEY"),
}
"""Protocol → how a model of it is built, and the variable that has the key."""
