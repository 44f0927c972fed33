"""Patterns of code that uses anyio. It is imported when a case is tried: it may not be installed."""

from __future__ import annotations

from tests.crash.exact.basic_steps import ask, ask_slowly, send
from tests.crash.exact.cases import case, saw
from tests.crash.oracle.witness import see

BOTH = ("asyncio", "uvloop")


@case("anyio task group, move_on_after", loops=BOTH, needs="anyio")
async def move_on() -> list[str]:
    """The branches that a cancel scope ended do not continue; a shielded clean-up step runs."""
    import anyio

    found: list[str] = []

    async def branch(item: str) -> None:
        try:
            found.append(saw(await ask(item)))
            found.append(saw(await ask_slowly(item)))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                found.append(saw(await send(f"undo {item}")))
            raise

    with anyio.move_on_after(0.014) as scope:
        async with anyio.create_task_group() as group:
            for item in "abc":
                group.start_soon(branch, item)
    see("moved on", scope.cancelled_caught)
    found.append(saw(await send("the end")))
    return found


@case("anyio memory stream, CapacityLimiter", needs="anyio")
async def stream() -> list[str]:
    """Workers share a stream, and a limiter lets two of them call at a time."""
    import anyio

    give, take = anyio.create_memory_object_stream[str](2)
    limiter = anyio.CapacityLimiter(2)
    found: list[str] = []

    async def worker(number: int) -> None:
        async for item in take.clone():
            async with limiter:
                see("takes", number, item)
                found.append(saw(await send.with_key(item)(item), number))

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(worker, number)
        async with give:
            for item in "abcdef":
                saw(await ask(item))
                await give.send(item)
        take.close()
    return found
