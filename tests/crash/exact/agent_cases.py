"""An agent of a framework, and a pipeline of stages."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.crash.exact.cases import case, saw, worked
from tests.crash.oracle.witness import see

from holdfast import step

BOTH = ("asyncio", "uvloop")


# A pipeline


@step
async def fetch(item: str) -> str:
    return await worked(f"fetch {item}")


@step
async def summarise(item: str, page: str) -> str:
    return await worked(f"summarise {item}")


@step(effect="once")
async def store(item: str, summary: str) -> str:
    return await worked(f"store {item}", "once")


@case("pipeline: fetch, summarise, store", loops=BOTH)
async def pipeline() -> list[str]:
    """Three stages with workers of their own, joined by queues, ended by sentinels."""
    to_fetch, to_summarise, to_store = asyncio.Queue[Any](), asyncio.Queue[Any](2), asyncio.Queue[Any](2)
    stored: list[str] = []

    async def fetcher(number: int) -> None:
        while (item := await to_fetch.get()) is not None:
            see("fetches", number, item)
            await to_summarise.put((item, saw(await fetch.with_key(item)(item))))

    async def summariser(number: int) -> None:
        while (given := await to_summarise.get()) is not None:
            item, page = given
            see("summarises", number, item)
            await to_store.put((item, saw(await summarise.with_key(item)(item, page))))

    async def storer(number: int) -> None:
        while (given := await to_store.get()) is not None:
            item, summary = given
            see("stores", number, item)
            stored.append(saw(await store.with_key(item)(item, summary), number))

    async def stage(worker: Any, count: int, before: asyncio.Queue[Any]) -> None:
        await asyncio.gather(*(worker(number) for number in range(count)))
        see("stage over", worker.__name__, before.qsize())

    async def end(after: Any, queue: asyncio.Queue[Any], count: int) -> None:
        await after
        for _ in range(count):
            await queue.put(None)

    for item in "abcdef":
        to_fetch.put_nowait(item)
    fetchers = stage(fetcher, 3, to_fetch)
    summarisers = stage(summariser, 2, to_summarise)
    await asyncio.gather(
        end(asyncio.sleep(0), to_fetch, 3),
        end(fetchers, to_summarise, 2),
        end(summarisers, to_store, 3),
        stage(storer, 3, to_store),
    )
    return stored


# pydantic-ai


@step
async def request_model(turn: int, transcript: str) -> str:
    return await worked(f"request_model {turn}")


@step
async def weather_in(city: str) -> str:
    return await worked(f"weather_in {city}")


@step(effect="once")
async def book(city: str) -> str:
    return await worked(f"book {city}", "once")


def make_agent() -> Any:
    """An agent with two tools. Each request to its model and each call of a tool is a step."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        seen = [
            str(part.content)
            for message in messages
            for part in message.parts
            if part.part_kind == "tool-return"
        ]
        text = saw(await request_model(turn, " ".join(seen)), len(messages))
        if turn == 0:
            calls = [("weather", city) for city in ("Oslo", "Rome", "Lima")]
        elif turn == 1:
            calls = [("reserve", "Rome"), ("weather", "Bern"), ("reserve", "Lima")]
        else:
            return ModelResponse(parts=[TextPart(f"{text} {' '.join(seen)}")])
        return ModelResponse(
            parts=[
                ToolCallPart(tool, {"city": city}, tool_call_id=f"{turn}-{number}")
                for number, (tool, city) in enumerate(calls)
            ]
        )

    agent = Agent(FunctionModel(answer))
    finished: list[str] = []

    @agent.tool_plain
    async def weather(city: str) -> str:
        found = saw(await weather_in(city), len(finished))
        finished.append(city)
        return found

    @agent.tool_plain
    async def reserve(city: str) -> str:
        found = saw(await book(city), len(finished))
        finished.append(city)
        return f"{found} as number {len(finished)}"

    return agent


@case("pydantic-ai agent, parallel tools", loops=BOTH, needs="pydantic_ai")
async def assistant() -> str:
    """An agent whose model asks for several tools at once, three requests in all."""
    done = await make_agent().run("Where is it warm?")
    output: str = done.output
    return output
