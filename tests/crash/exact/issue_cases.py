"""The patterns whose replay used to take another way."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

from tests.crash.exact.basic_steps import ask, ask_slowly, post, refuse, send
from tests.crash.exact.cases import case, saw, worked
from tests.crash.oracle.steps import Planned
from tests.crash.oracle.witness import described, see

from holdfast import parallel, patched, step

BOTH = ("asyncio", "uvloop")


@case("worker pool, asyncio.Queue, with_key", loops=BOTH)
async def queue_pool() -> list[str]:
    """Three workers share an `asyncio.Queue`; each item is a keyed `once` step."""
    items: asyncio.Queue[str] = asyncio.Queue()
    for item in "abcdefgh":
        items.put_nowait(item)
    sent = []

    async def worker(number: int) -> None:
        while not items.empty():
            item = items.get_nowait()
            see("takes", number, item)
            sent.append(saw(await send.with_key(item)(item), number))

    await asyncio.gather(*(worker(number) for number in range(3)))
    return sent


@case("worker pool, threads, with_key")
def thread_pool() -> list[str]:
    """Three threads of `parallel` share a `queue.Queue`; each item is a keyed `once` step."""
    items: queue.Queue[str] = queue.Queue()
    for item in "abcdefgh":
        items.put(item)
    sent = []

    def worker(number: int) -> None:
        while True:
            try:
                item = items.get_nowait()
            except queue.Empty:
                return
            see("takes", number, item)
            sent.append(saw(post.with_key(item)(item), number))

    parallel(worker, range(3))
    return sent


class Model:
    """A client whose methods are steps."""

    def __init__(self, name: str) -> None:
        self.name = name

    @step(ignore=("self",))
    async def answer(self) -> str:
        return await worked(f"answer {self.name}")

    @step(ignore=("self",), effect="once")
    async def rate(self) -> str:
        return await worked(f"rate {self.name}", "once")


@case("asyncio.as_completed, methods", loops=BOTH)
async def completed() -> list[str]:
    """Branches that differ only in `self`, which is not recorded, are taken as they complete."""

    async def branch(model: Model) -> str:
        answer = saw(await model.answer())
        return f"{answer} {saw(await model.rate())}"

    found = []
    for one in asyncio.as_completed([branch(Model(name)) for name in "abcd"]):
        found.append(await one)
        see("completed", len(found), found[-1])
    return found


async def renamed_helper() -> list[str]:
    """The same code with another name of the helper."""

    async def look_into(item: str) -> str:
        saw(await ask(item))
        return saw(await send(item))

    return list(await asyncio.gather(*(look_into(item) for item in "abc")))


@case("helper of a fan-out renamed", changed=renamed_helper, renamed="research")
async def original_helper() -> list[str]:
    """After the kill the helper has another name: a divergence before any body; `replay` reports it."""

    async def research(item: str) -> str:
        saw(await ask(item))
        return saw(await send(item))

    return list(await asyncio.gather(*(research(item) for item in "abc")))


async def fan_out(item: str) -> str:
    saw(await ask(item))
    return saw(await send(item))


async def with_patch() -> list[str]:
    """The same code with a new step before the fan-out."""
    saw(await ask("plan"))
    if patched("audit-first"):
        saw(await ask("audit"))
    return list(await asyncio.gather(*(fan_out(item) for item in "abc")))


@case("patched before a fan-out", changed=with_patch)
async def without_patch() -> list[str]:
    """After the kill `if patched(...)` stands before the fan-out: runs that were past it keep the old way."""
    saw(await ask("plan"))
    return list(await asyncio.gather(*(fan_out(item) for item in "abc")))


@case("TaskGroup, a sibling fails", loops=BOTH)
async def sibling_failed() -> str:
    """The branch that is cancelled because its sibling failed does not continue in the replay."""

    async def failing() -> None:
        saw(await ask("first"))
        try:
            await refuse("second")
        except Planned as error:
            saw(described(error))
            raise

    async def sending(number: int) -> None:
        try:
            for item in "abc":
                saw(await ask_slowly(f"{number}{item}"))
                saw(await send(f"{number}{item}"))
        except asyncio.CancelledError:
            see("cancelled", number)
            raise

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(sending(1))
            group.create_task(failing())
            group.create_task(sending(2))
    except* Planned as failed:
        see("failed", described(failed))
    return saw(await ask("afterwards"))


@case("asyncio.wait(FIRST_COMPLETED)", loops=BOTH)
async def first_completed() -> list[Any]:
    """The winner of a race stays the winner; what follows depends on it."""

    async def racer(name: str) -> str:
        return saw(await ask(name))

    found: list[Any] = []
    for race in range(3):
        tasks = {asyncio.create_task(racer(f"{race}{name}")): name for name in "abc"}
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        won = [tasks[task] for task in done]
        see("won", race, won)
        for task in left:
            task.cancel()
        found.append((won, saw(await send(f"{race} {won[0]} wins"))))
    return found


@case("found.append(await ...) under gather", loops=BOTH)
async def appended() -> str:
    """A list in the order of completion is the argument of the next step."""
    found: list[str] = []

    async def collect(item: str) -> None:
        found.append(saw(await ask(item), len(found)))

    await asyncio.gather(*(collect(item) for item in "abcdef"))
    return saw(await send(" ".join(found)))
