"""The workflows that the benchmarks execute: steps that do nothing but return 200 bytes."""

from __future__ import annotations

import time

from holdfast import step, workflow

RESULT = {"text": "x" * 180, "n": 1}


@step
def work(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


@step
async def awork(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


@workflow
def sequential(steps: int, batch: int = 0) -> int:
    for i in range(steps):
        work(i, "do it")
    return steps


@workflow
async def sequential_async(steps: int, batch: int = 0) -> int:
    for i in range(steps):
        await awork(i, "do it")
    return steps


@workflow
def stops_after(steps: int) -> int:
    """Ends like a killed process: without an end."""
    for i in range(steps):
        work(i, "do it")
    raise KeyboardInterrupt(steps)


clock: list[float] = []


@workflow
def timed(steps: int) -> int:
    for i in range(steps):
        work(i, "do it")
        clock.append(time.perf_counter())
    return steps
