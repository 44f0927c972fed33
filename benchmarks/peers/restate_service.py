"""The service that Restate's server calls: `restate_service.py HOST:PORT`, by hypercorn, as its documentation shows."""

from __future__ import annotations

import asyncio
import sys
import time

import hypercorn.asyncio
import hypercorn.config
import restate
from protocol import RESULT, mark

bench = restate.Service("bench")


def work(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


def wait(marks: str) -> None:
    if mark(marks) == 1:
        time.sleep(60)


@bench.handler()
async def sequential(context: restate.Context, steps: int) -> int:
    for i in range(steps):
        await context.run_typed("work", work, i=i, prompt="do it")
    return steps


@bench.handler()
async def killed(context: restate.Context, marks: str) -> None:
    await context.run_typed("wait", wait, marks=marks)


if __name__ == "__main__":
    config = hypercorn.config.Config()
    config.bind = [sys.argv[1]]
    asyncio.run(hypercorn.asyncio.serve(restate.app([bench]), config))
