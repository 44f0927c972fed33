"""The workflows that the benchmarks execute: steps that do nothing but return."""

from __future__ import annotations

import asyncio
import time

from holdfast import step, workflow
from peers.workload import RESULT, text
from turns import Clock, nobody

clock = Clock(nobody)
times: list[float] = []


@step
def work(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


@step
async def awork(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


@step
def write(i: int, size: int) -> str:
    return text(i, size)


@workflow
def sequential(steps: int, pause_after: int = 0) -> int:
    """One step after another; `clock` pauses between slices of `pause_after` steps."""
    for i in range(steps):
        if pause_after and i and not i % pause_after:
            clock.pause()
        work(i, "do it")
    return steps


@workflow
async def sequential_async(steps: int, pause_after: int = 0) -> int:
    """`sequential` of coroutines, in the caller's loop."""
    for i in range(steps):
        if pause_after and i and not i % pause_after:
            clock.pause()
        await awork(i, "do it")
    return steps


@workflow
def texts(steps: int, size: int) -> int:
    return sum(len(write(i, size)) for i in range(steps))


@workflow
async def branches(count: int) -> int:
    """A fan-out, all of it at once."""

    async def branch(i: int) -> dict[str, object]:
        return await awork(i, "do it")

    return len(await asyncio.gather(*(branch(i) for i in range(count))))


@workflow
def stops_after(steps: int) -> int:
    """Ends like a killed process: without an end."""
    for i in range(steps):
        work(i, "do it")
    raise KeyboardInterrupt(steps)


@workflow
def timed(steps: int) -> int:
    """`sequential`, and `times` gets the end of every step."""
    for i in range(steps):
        work(i, "do it")
        times.append(time.perf_counter())
    return steps
