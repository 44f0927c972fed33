"""Other patterns of asyncio code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from tests.crash.exact.basic_steps import ask, ask_slowly, ask_stubbornly, look_up, refuse, send
from tests.crash.exact.cases import case, saw
from tests.crash.oracle.steps import Planned
from tests.crash.oracle.witness import described, see

from holdfast import gather, workflow

BOTH = ("asyncio", "uvloop")


# Limits of time


@case("asyncio.timeout around a step", loops=BOTH)
async def timeout() -> list[str]:
    """Which of the steps came too late is the same in every replay."""
    found = []
    for item in "abcd":
        try:
            async with asyncio.timeout(0.009):
                found.append(saw(await ask_slowly(item)))
        except TimeoutError:
            see("too late", item)
            found.append(saw(await send(f"instead of {item}")))
    return found


@case("wait_for with a fallback")
async def fallback() -> list[str]:
    """`asyncio.wait_for` in branches, with another step when it takes too long."""

    async def answer(item: str) -> str:
        try:
            return saw(await asyncio.wait_for(ask_slowly(item), 0.012))
        except TimeoutError:
            see("too late", item)
            return saw(await send(item))

    return list(await asyncio.gather(*(answer(item) for item in "abc")))


@case("asyncio.sleep races a step", loops=BOTH)
async def sleep_race() -> list[str]:
    """A nap of the workflow's own code against a step: the same one is first."""
    found = []
    for item in "abcd":
        tasks = {
            asyncio.create_task(ask_slowly(item)): "step",
            asyncio.create_task(asyncio.sleep(0.007)): "nap",
        }
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = min(tasks[task] for task in done)
        see("first", item, first)
        for task in left:
            task.cancel()
        found.append(saw(await send(f"{item} {first}")))
    return found


@case("hedged request")
async def hedged() -> str:
    """A second request is made if the first is slow; the loser is cancelled."""
    found = []
    for item in "abc":
        first = asyncio.create_task(ask_slowly(f"{item}1"))
        done, _ = await asyncio.wait([first], timeout=0.005)
        tasks = [first] if done else [first, asyncio.create_task(ask_slowly(f"{item}2"))]
        see("requests", item, len(tasks))
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        found.append(saw(next(task.result() for task in tasks if task in done)))
    return saw(await send(" ".join(found)))


@case("polling with asyncio.sleep")
async def polling() -> int:
    """A branch polls what the other one does, and calls a step at each round."""
    done: list[str] = []

    async def work() -> None:
        for item in "abcd":
            done.append(saw(await ask_slowly(item)))

    async def watch() -> int:
        rounds = 0
        while len(done) < 4:
            rounds += 1
            see("round", rounds, len(done))
            saw(await ask(f"round {rounds} of {len(done)}"))
            await asyncio.sleep(0.002)
        return rounds

    _, rounds = await asyncio.gather(work(), watch())
    return rounds


# Queues and generators


@case("crawl behind a Semaphore, dict of results", loops=BOTH)
async def crawl() -> dict[str, str]:
    """Pages are found while others are read; the dict has them in the order in which they came."""
    places = asyncio.Semaphore(2)
    pages: dict[str, str] = {}
    links = {"/": ["/a", "/b"], "/a": ["/c", "/b"], "/b": ["/c", "/d"]}

    async def visit(page: str) -> None:
        if page in pages:
            return
        pages[page] = "..."
        async with places:
            see("visits", page, list(pages))
            pages[page] = saw(await ask(page))
        await asyncio.gather(*(visit(link) for link in links.get(page, [])))

    await visit("/")
    saw(await send(" ".join(pages)))
    return pages


@case("producer, bounded queue, consumers", loops=BOTH)
async def producer() -> list[str]:
    """The producer waits for room in the queue; consumers wait for items, until a sentinel each."""
    items: asyncio.Queue[str | None] = asyncio.Queue(2)
    found = []

    async def produce() -> None:
        for item in "abcde":
            await items.put(saw(await ask(item)))
        for _ in range(2):
            await items.put(None)

    async def consume(number: int) -> None:
        while (item := await items.get()) is not None:
            see("takes", number, item)
            found.append(saw(await send(item), number))

    await asyncio.gather(produce(), consume(1), consume(2))
    return found


@case("PriorityQueue, workers cancelled after join")
async def joined() -> list[str]:
    """Workers that wait for ever are cancelled when the queue is empty; items make new items."""
    items: asyncio.PriorityQueue[tuple[int, str]] = asyncio.PriorityQueue()
    found = []

    async def worker(number: int) -> None:
        while True:
            weight, item = await items.get()
            see("takes", number, item)
            found.append(saw(await send(item)))
            if weight < 2:
                items.put_nowait((weight + 1, f"{item}+"))
            items.task_done()

    for weight, item in enumerate("abc"):
        items.put_nowait((weight, item))
    workers = [asyncio.create_task(worker(number)) for number in range(2)]
    await items.join()
    for one in workers:
        one.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return found


@case("async generator feeds branches")
async def generator() -> list[str]:
    """A generator that calls steps, and a branch for each thing that it gives."""
    found: list[str] = []

    async def listing() -> AsyncIterator[str]:
        for page in "abcd":
            yield saw(await ask(page))

    async def handle(item: str) -> None:
        found.append(saw(await send(item), len(found)))

    async with asyncio.TaskGroup() as group, aclosing(listing()) as pages:  # type: ignore[type-var]
        async for page in pages:
            group.create_task(handle(page))
    return found


# Cancels


@case("cancel, clean-up step in finally", loops=BOTH)
async def clean_up() -> list[str]:
    """Branches that are cancelled by the fastest one undo what they did with a `once` step."""
    found: list[str] = []

    async def reserve(item: str) -> None:
        try:
            found.append(saw(await ask(item)))
            found.append(saw(await ask_slowly(item)))
        finally:
            found.append(saw(await send(f"release {item}")))

    tasks = [asyncio.create_task(reserve(item)) for item in "abc"]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    see("ended", [described(one) if one else "" for one in ended])
    return found


@case("nested TaskGroups, the inner one fails")
async def nested() -> list[str]:
    """A failure in an inner group cancels its siblings, and the outer group continues."""
    found: list[str] = []

    async def inner(name: str, failing: str) -> None:
        async def member(item: str) -> None:
            found.append(saw(await ask(item)))
            if item == failing:
                try:
                    await refuse(item)
                except Planned as error:
                    saw(described(error))
                    raise
            found.append(saw(await send(item)))

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(member(f"{name}{number}"))
        except* Planned:
            see("failed", name)

    async with asyncio.TaskGroup() as outer:
        outer.create_task(inner("a", "a1"))
        outer.create_task(inner("b", ""))
    return found


@case("retried step cancelled in its backoff", loops=BOTH)
async def backoff() -> list[str]:
    """A step that is tried again and again is given up by a timeout."""
    found = []
    for limit in (0.005, 0.012, 0.5):
        try:
            async with asyncio.timeout(limit):
                found.append(saw(await ask_stubbornly(f"within {limit}")))
        except TimeoutError:
            see("gave up", limit)
        found.append(saw(await send(f"after {limit}")))
    return found


@case("shield")
async def shielded() -> list[str]:
    """The caller gives up waiting, the shielded branch continues and is awaited later."""
    found: list[str] = []

    async def report() -> None:
        found.append(saw(await ask_slowly("report")))
        found.append(saw(await send("report")))

    running = asyncio.ensure_future(report())
    try:
        await asyncio.wait_for(asyncio.shield(running), 0.018)
    except TimeoutError:
        see("too late")
    found.append(saw(await ask("meanwhile")))
    await running
    return found


@case("once step in a cancelled branch", loops=BOTH)
async def cancelled_once() -> list[str]:
    """A `once` step that has begun ends and is recorded; its branch does not get to the next one."""
    found: list[str] = []

    async def pay(item: str) -> None:
        try:
            for number in range(4):
                found.append(saw(await send(f"{item}{number}")))
        except asyncio.CancelledError:
            see("cancelled", item)
            raise

    tasks = [asyncio.create_task(pay(item)) for item in "ab"]
    saw(await ask_slowly("the limit"))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


@case("resources of an asynccontextmanager")
async def resources() -> list[str]:
    """Resources are released by steps, in branches of which one fails."""
    found: list[str] = []

    @asynccontextmanager
    async def sandbox(name: str) -> AsyncIterator[str]:
        yield saw(await ask(f"open {name}"))
        found.append(saw(await send(f"close {name}")))

    async def use(name: str) -> None:
        try:
            async with sandbox(name):
                try:
                    await (refuse if name == "b" else ask)(f"use {name}")
                except Planned as error:
                    found.append(saw(described(error)))
        finally:
            see("left", name, list(found))

    await gather(*(use(name) for name in "abc"))
    return found


# Locks


@case("Condition, Event and Lock", loops=BOTH)
async def locks() -> list[str]:
    """Who has the lock and who is woken is the same in every replay."""
    lock, ready, changed = asyncio.Lock(), asyncio.Event(), asyncio.Condition()
    found: list[str] = []

    async def member(item: str) -> None:
        saw(await ask(item))
        async with lock:
            see("has the lock", item)
            found.append(saw(await send(item)))
        async with changed:
            changed.notify_all()
        await ready.wait()
        found.append(saw(await ask(f"{item} again")))

    async def opener() -> None:
        async with changed:
            await changed.wait_for(lambda: len(found) >= 2)
        found.append(saw(await ask_slowly("open")))
        ready.set()

    await asyncio.gather(opener(), *(member(item) for item in "abc"))
    return found


@case("Barrier")
async def rounds() -> list[str]:
    """Three branches wait for each other after each round; the last to come writes the summary."""
    barrier = asyncio.Barrier(3)
    found: list[str] = []

    async def member(item: str) -> None:
        for number in range(2):
            found.append(saw(await ask(f"{item}{number}")))
            place = await barrier.wait()
            see("place", item, place)
            if place == 0:
                found.append(saw(await send(f"summary {number} by {item}")))

    await asyncio.gather(*(member(item) for item in "abc"))
    return found


@case("requests share one call in flight", loops=BOTH)
async def single_flight() -> list[str]:
    """A cache of futures: the first to ask calls the step, the others wait for its future."""
    flights: dict[str, asyncio.Future[str]] = {}
    found: list[str] = []

    async def cached(item: str) -> str:
        if item not in flights:
            flights[item] = asyncio.get_running_loop().create_future()
            see("calls", item)
            flights[item].set_result(saw(await send(item)))
        return await flights[item]

    async def request(number: int) -> None:
        saw(await ask(f"request {number}"))
        found.append(await cached("abc"[number % 3]))
        see("found", number, found[-1])

    await asyncio.gather(*(request(number) for number in range(6)))
    return found


@case("requests are sent in batches")
async def batches() -> list[str]:
    """A batch goes when it is full or when its time is over (`loop.call_later`)."""
    loop = asyncio.get_running_loop()
    waiting: list[str] = []
    full = asyncio.Event()
    found: list[str] = []

    async def request(item: str) -> None:
        saw(await ask(item))
        waiting.append(item)
        if len(waiting) == 3:
            full.set()

    async def sender() -> None:
        while sum(map(len, found)) < 5:
            timer = loop.call_later(0.004, full.set)
            await full.wait()
            timer.cancel()
            full.clear()
            batch = "".join(waiting)
            waiting.clear()
            see("batch", batch)
            if batch:
                saw(await send(batch))
                found.append(batch)

    await asyncio.gather(sender(), *(request(item) for item in "abcde"))
    return found


# Others


async def fewer_at_once() -> list[str]:
    """The same code with a smaller limit."""
    return await limited(1)


@case("gather(limit=) smaller after the kill", changed=fewer_at_once)
async def many_at_once() -> list[str]:
    """After the kill only one branch runs at a time: no divergence, nothing is repeated."""
    return await limited(4)


async def limited(limit: int) -> list[str]:
    async def branch(item: str) -> str:
        saw(await ask(item))
        return saw(await send(item))

    return await gather(*(branch(item) for item in "abcdef"), limit=limit)


@workflow
async def chapter(title: str) -> str:
    found = saw(await ask(title))
    return f"{found} {saw(await send(title))}"


@case("child runs under gather", loops=BOTH)
async def children() -> list[str]:
    """Children end in the order of the log; a list has them in that order."""
    found: list[str] = []

    async def write(title: str) -> None:
        found.append(await chapter(title))
        see("child", title, len(found))

    await asyncio.gather(*(write(title) for title in "abc"))
    saw(await send(" ".join(found)))
    return found


@case("agent loop: model, then its tools at once")
async def agent_loop() -> list[Any]:
    """The model's random answer decides how many tools are called; `def` tools run in threads."""
    transcript: list[str] = []

    async def tool(name: str) -> None:
        call = look_up.aio if name.endswith(("1", "3")) else send
        transcript.append(saw(await call(name)))

    for turn in range(3):
        answer = saw(await ask(f"turn {turn} {' '.join(transcript)}"))
        tools = 1 + int(answer.rpartition(":")[2]) % 3
        await asyncio.gather(*(tool(f"tool {turn}{number}") for number in range(1, tools + 1)))
        see("transcript", list(transcript))
    return transcript
