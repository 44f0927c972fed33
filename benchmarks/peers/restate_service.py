"""The service that Restate's server calls: `restate_service.py HOST:PORT`, by hypercorn with the settings that its
documentation has for production. It advises several workers too; on two cores more than one was not faster."""

from __future__ import annotations

import asyncio
import sys

import hypercorn.asyncio
import hypercorn.config
import restate
from workload import RESULT, hang_once, text

UNLIMITED = 2**31 - 1

bench = restate.Service("bench")


def work(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


async def awork(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


@bench.handler()
async def sequential(context: restate.Context, steps: int) -> int:
    for i in range(steps):
        await context.run_typed("work", work, i=i, prompt="do it")
    return steps


@bench.handler()
async def sequential_async(context: restate.Context, steps: int) -> int:
    for i in range(steps):
        await context.run_typed("awork", awork, i=i, prompt="do it")
    return steps


@bench.handler()
async def texts(context: restate.Context, shape: list[int]) -> int:
    steps, size = shape
    written = [await context.run_typed("text", text, i=i, size=size) for i in range(steps)]
    return sum(map(len, written))


@bench.handler()
async def killed(context: restate.Context, marks: str) -> None:
    await context.run_typed("wait", hang_once, marks=marks)


if __name__ == "__main__":
    config = hypercorn.config.Config()
    config.bind = [sys.argv[1]]
    config.h2_max_concurrent_streams = UNLIMITED
    config.keep_alive_max_requests = UNLIMITED
    config.keep_alive_timeout = UNLIMITED
    asyncio.run(hypercorn.asyncio.serve(restate.app([bench]), config))
