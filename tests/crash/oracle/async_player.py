"""Executes a program as the code of an async workflow. Everything here is "the user's code"."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.crash.oracle.learning import CHOICES
from tests.crash.oracle.programs import Node, Program
from tests.crash.oracle.steps import Planned, arguments, simple, step_of
from tests.crash.oracle.witness import brief, described, see

from holdfast import (
    StepTimeout,
    approval,
    checkpoint,
    emit,
    gather,
    milestone,
    now,
    patched,
    sleep,
    uuid,
    wait_for,
    workflow,
)
from holdfast import random as recorded_random

FAILURES = (Planned, ExceptionGroup, TimeoutError, StepTimeout)

Act = Callable[[Node, "Shared"], Awaitable[Any]]
_program: Program | None = None


@dataclass
class Shared:
    """What the branches of a run change together."""

    items: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, item: str) -> tuple[Any, ...]:
        """Add an outcome; gives what the branch observes of the list."""
        self.items.append(item)
        return len(self.items), "+".join(self.items[-3:])


def set_program(program: Program) -> None:
    """Choose what the workflows of this process execute."""
    global _program
    _program = program


@workflow
async def played_async() -> str:
    assert _program is not None
    return await _play(_program.top)


@workflow
async def part_async(name: str) -> str:
    """A child run: it executes the body of that node."""
    assert _program is not None
    return await _play(Node("seq", f"{name}-child", _program.node(name).body, {"caught": True}))


async def _play(top: Node) -> str:
    see("start", top.name)
    result = brief(await act(top, Shared()))
    see("end", result)
    return result


async def act(node: Node, shared: Shared) -> Any:
    """Execute one node and observe how it ends."""
    if node.kind in LEAVES:
        return await LEAVES[node.kind](node, shared)
    see("into", node.name)
    try:
        result = await BLOCKS[node.kind](node, shared)
    except asyncio.CancelledError:
        see("cancelled", node.name)
        raise
    except FAILURES as error:
        see("raised", node.name, described(error))
        if not node["caught"]:
            raise
        result = described(error)
    see("out", node.name, brief(result))
    return result


def branch(node: Node, shared: Shared, around: Node) -> Coroutine[Any, Any, Any]:
    """The coroutine of a branch, named as the block says: the engine names scopes after it."""
    coroutine = act(node, shared)
    if around["helper"]:
        coroutine.__qualname__ = around["helper"]
    return coroutine


# Leaves


async def call(node: Node, shared: Shared, value: str = "") -> str:
    """Call a step and observe its outcome."""
    is_async = not node["plain_def"]
    see("call", node.name)
    chosen = step_of(node, is_async=is_async)
    try:
        got = await (chosen if is_async else chosen.aio)(*arguments(node, value))
    except asyncio.CancelledError:
        see("call cancelled", node.name)
        raise
    except Planned as error:
        see("failed", node.name, described(error), *shared.add(f"{node.name}!"))
        raise
    see("got", node.name, got, *shared.add(got))
    return str(got)


async def _nap(node: Node, shared: Shared) -> str:
    await asyncio.sleep(node["ms"] / 1000)
    see("woke", node.name, *shared.add(node.name))
    return node.name


async def _spin(node: Node, shared: Shared) -> str:
    for _ in range(node["ms"]):
        await asyncio.sleep(0)
    see("spun", node.name, *shared.add(node.name))
    return node.name


async def _pause(node: Node, shared: Shared) -> str:
    await sleep.aio(node["ms"] / 1000)
    see("slept", node.name, *shared.add(node.name))
    return node.name


def value_text(value: Any) -> str:
    """A text of a recorded value that its event contains too."""
    return value.strftime("%M:%S.%f") if isinstance(value, datetime) else str(value)


async def _value(node: Node, shared: Shared) -> str:
    make = (now, recorded_random, uuid)[int(node.name[1:]) % 3]
    value = value_text(make())
    see("value", node.name, value)
    if node["ms"] > 3:
        await call(simple(f"{node.name}-use"), shared, value)
    return node.name


async def _chosen(node: Node, shared: Shared) -> str:
    """A step whose argument a router or a chooser of skills has chosen."""
    with CHOICES[node.kind](node) as choice:
        see("value", node.name, choice)
        await call(simple(f"{node.name}-use"), shared, choice)
    return node.name


async def _patched(node: Node, shared: Shared) -> str:
    new = patched(f"p-{node.name}")
    see("patched", node.name, new)
    return await call(simple(f"{node.name}-{'new' if new else 'old'}"), shared)


async def _inserted(node: Node, shared: Shared) -> str:
    """A step that a developer added later, behind `patched`."""
    if patched(f"p-{node.name}"):
        await call(simple(node.name), shared)
    return node.name


async def _checkpoint(node: Node, shared: Shared) -> str:
    await (milestone if int(node.name[1:]) % 2 else checkpoint).aio(node.name)
    see("checkpoint", node.name, *shared.add(node.name))
    return node.name


async def _emit(node: Node, shared: Shared) -> str:
    emit("progress", node.name)
    return node.name


def gate_name(node: Node) -> str:
    """Tells the person who decides it what to do."""
    return f"{'never' if node['never'] or node['lapses'] else node['answer']}-{node.name}"


async def _approval(node: Node, shared: Shared) -> str:
    limit = 0.01 if node["lapses"] else None
    outcome = (await approval.aio(gate_name(node), show=node.name, timeout=limit)).outcome
    see("gate", node.name, outcome, *shared.add(node.name))
    return outcome


async def _signal(node: Node, shared: Shared) -> str:
    limit = 0.01 if node["lapses"] else None
    try:
        value = await wait_for.aio(gate_name(node), timeout=limit)
    except StepTimeout:
        value = "unanswered"
    see("gate", node.name, value, *shared.add(node.name))
    return str(value)


LEAVES: dict[str, Act] = {
    "step": call,
    "nap": _nap,
    "spin": _spin,
    "pause": _pause,
    "value": _value,
    "route": _chosen,
    "skills": _chosen,
    "patched": _patched,
    "inserted": _inserted,
    "checkpoint": _checkpoint,
    "emit": _emit,
    "approval": _approval,
    "signal": _signal,
}


# Branches that are awaited together


async def _seq(node: Node, shared: Shared) -> Any:
    return [await act(one, shared) for one in node.body]


async def _gather(node: Node, shared: Shared) -> Any:
    """Plain: the first failure is raised at once, the siblings are left behind."""
    return list(await asyncio.gather(*(branch(one, shared, node) for one in node.body)))


async def _gather_all(node: Node, shared: Shared) -> Any:
    coroutines = [branch(one, shared, node) for one in node.body]
    return _outcomes(await ended(coroutines))


async def _limited(node: Node, shared: Shared) -> Any:
    return await gather(*(branch(one, shared, node) for one in node.body), limit=node["limit"])


async def _group(node: Node, shared: Shared) -> Any:
    group, parent = asyncio.TaskGroup(), asyncio.current_task()
    try:
        async with group:
            tasks = [group.create_task(branch(one, shared, node)) for one in node.body]
    finally:
        # Before Python 3.13 a group forgets that it cancelled its parent: a timeout around it then lets the
        # CancelledError out, with plain asyncio as well.
        if sys.version_info < (3, 13) and group._parent_cancel_requested:
            assert parent is not None
            parent.uncancel()
    return [task.result() for task in tasks]


async def _tally(node: Node, shared: Shared) -> Any:
    """A dict that branches change around their steps."""

    async def count(one: Node) -> None:
        before = sum(shared.counts.values())
        await act(one, shared)
        shared.counts[one.name] = before + len(shared.items)
        see("tally", node.name, str(shared.counts))

    await asyncio.gather(*(count(one) for one in node.body))
    return dict(shared.counts)


async def _gathered(branches: Sequence[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*branches, return_exceptions=True)


ended: Callable[[Sequence[Awaitable[Any]]], Awaitable[list[Any]]] = _gathered
"""Waits for all of them and gives their results and errors. Programs with anyio wait in another way."""


def _outcomes(found: list[Any]) -> list[Any]:
    return [described(one) if isinstance(one, BaseException) else one for one in found]


# Waiting for some of them


def _tasks(node: Node, shared: Shared) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(branch(one, shared, node)) for one in node.body]


def _places(node: Node, tasks: list[asyncio.Task[Any]], chosen: set[asyncio.Task[Any]]) -> list[int]:
    """Which tasks these are: as the set gives them, or in the order of the program."""
    if node["by_set"]:
        return [tasks.index(task) for task in chosen]
    return [place for place, task in enumerate(tasks) if task in chosen]


async def _race(node: Node, shared: Shared) -> Any:
    tasks = _tasks(node, shared)
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    see("first", node.name, _places(node, tasks, done), _places(node, tasks, left))
    for place in _places(node, tasks, left):
        tasks[place].cancel()
    if node["awaits"]:
        await ended(tasks)
    return _outcomes([task.exception() or task.result() for task in tasks if task in done])


async def _wait_each(node: Node, shared: Shared) -> Any:
    tasks = _tasks(node, shared)
    left = set(tasks)
    order = []
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        order.append(_places(node, tasks, done))
        see("some", node.name, order[-1])
        for task in done:
            task.exception()
    return order


async def _wait_all(node: Node, shared: Shared) -> Any:
    tasks = _tasks(node, shared)
    done, _ = await asyncio.wait(tasks)
    see("all", node.name, _places(node, tasks, done))
    return _outcomes([task.exception() or task.result() for task in tasks])


async def _wait_time(node: Node, shared: Shared) -> Any:
    tasks = _tasks(node, shared)
    done, _ = await asyncio.wait(tasks, timeout=node["ms"] / 1000)
    see("in time", node.name, _places(node, tasks, done))
    return _outcomes(await ended(tasks))


async def _completed(node: Node, shared: Shared) -> Any:
    order = []
    for one in asyncio.as_completed([branch(one, shared, node) for one in node.body]):
        try:
            order.append(await one)
        except FAILURES as error:
            order.append(described(error))
        see("completed", node.name, brief(order[-1]))
    return order


# Limits of time


async def _wait_for(node: Node, shared: Shared) -> Any:
    found = []
    for one in node.body:
        try:
            found.append(await asyncio.wait_for(act(one, shared), node["ms"] / 1000))
        except TimeoutError:
            see("too late", node.name, one.name)
    return found


async def _timeout(node: Node, shared: Shared) -> Any:
    try:
        async with asyncio.timeout(node["ms"] / 1000):
            return [await act(one, shared) for one in node.body]
    except TimeoutError:
        see("too late", node.name)
        return "too late"


async def _shield(node: Node, shared: Shared) -> Any:
    inner = asyncio.ensure_future(act(node.body[0], shared))
    found: list[Any] = []
    try:
        found.append(await asyncio.wait_for(asyncio.shield(inner), node["ms"] / 1000))
    except TimeoutError:
        see("too late", node.name)
    for one in node.body[1:]:
        found.append(await act(one, shared))
    if node["awaits"]:
        found.append(await inner)
    return found


async def _give_up(node: Node, shared: Shared) -> Any:
    """A gate that nobody decides in time, or somebody does at the last moment."""
    gate, *others = node.body
    limit = node["ms"] / 1000
    try:
        if node["awaits"]:
            await asyncio.wait_for(act(gate, shared), limit)
        else:
            async with asyncio.timeout(limit):
                await act(gate, shared)
    except TimeoutError:
        see("gave up", node.name)
    return [await act(one, shared) for one in others]


async def _beside(node: Node, shared: Shared) -> Any:
    """A gate that is decided while other branches run."""
    gate, *others = node.body
    waiting = asyncio.create_task(act(gate, shared))
    found = [await act(one, shared) for one in others]
    return [*found, await waiting]


# Queues


async def _pool(node: Node, shared: Shared) -> Any:
    """Workers that share a queue that was filled before."""
    queue: asyncio.Queue[Node] = asyncio.Queue()
    for one in node.body:
        queue.put_nowait(one)
    found: list[Any] = []

    async def work(number: int) -> None:
        while not queue.empty():
            one = queue.get_nowait()
            see("takes", node.name, number, one.name)
            found.append((number, await _settled(one, shared)))

    workers = [work(number) for number in range(node["limit"])]
    for worker in workers:
        worker.__qualname__ = node["helper"]
    await asyncio.gather(*workers)
    return found


async def _settled(node: Node, shared: Shared) -> Any:
    try:
        return await act(node, shared)
    except FAILURES as error:
        return described(error)


async def _feed(node: Node, shared: Shared) -> Any:
    """A producer that calls a step for each item, and consumers that wait for items."""
    queue: asyncio.Queue[Node | None] = asyncio.Queue(node["limit"])
    found: list[Any] = []

    async def produce() -> None:
        for one in node.body:
            await call(simple(f"{one.name}-feed"), shared)
            await queue.put(one)
        for _ in range(2):
            await queue.put(None)

    async def consume(number: int) -> None:
        while (one := await queue.get()) is not None:
            see("takes", node.name, number, one.name)
            found.append((number, await _settled(one, shared)))

    await asyncio.gather(produce(), consume(1), consume(2))
    return found


async def _joined(node: Node, shared: Shared) -> Any:
    """Workers that are cancelled when all items are done."""
    queue: asyncio.Queue[Node] = asyncio.Queue()
    found: list[Any] = []

    async def work(number: int) -> None:
        while True:
            one = await queue.get()
            try:
                see("takes", node.name, number, one.name)
                found.append((number, await _settled(one, shared)))
            finally:
                queue.task_done()

    workers = [asyncio.create_task(work(number)) for number in range(node["limit"])]
    try:
        for one in node.body:
            await queue.put(one)
        await queue.join()
    finally:
        for worker in workers:
            worker.cancel()
    await ended(workers)
    return found


# Locks


async def _lock(node: Node, shared: Shared) -> Any:
    lock = asyncio.Lock()

    async def one_by_one(one: Node) -> Any:
        await call(simple(f"{one.name}-before"), shared)
        async with lock:
            see("has", node.name, one.name)
            return await act(one, shared)

    found = [one_by_one(one) for one in node.body]
    for coroutine in found:
        coroutine.__qualname__ = node["helper"]
    return _outcomes(await ended(found))


async def _semaphore(node: Node, shared: Shared) -> Any:
    places = asyncio.Semaphore(2)

    async def two_at_once(one: Node) -> Any:
        async with places:
            see("has", node.name, one.name)
            return await act(one, shared)

    found = [two_at_once(one) for one in (*node.body, *_more(node, 2))]
    return _outcomes(await ended(found))


def _more(node: Node, count: int) -> list[Node]:
    """Further steps, for a block that needs many."""
    return [simple(f"{node.name}-more{number}") for number in range(count)]


async def _event(node: Node, shared: Shared) -> Any:
    event = asyncio.Event()

    async def wait(one: Node) -> Any:
        await event.wait()
        see("set", node.name, one.name)
        return await act(one, shared)

    async def set_it() -> Any:
        try:
            return await act(node.body[0], shared)
        finally:
            event.set()

    return await asyncio.gather(*(wait(one) for one in node.body[1:]), set_it())


async def _condition(node: Node, shared: Shared) -> Any:
    condition = asyncio.Condition()
    ready: list[str] = []

    async def bring(one: Node) -> None:
        found = await _settled(one, shared)
        async with condition:
            ready.append(brief(found))
            condition.notify_all()

    async def wait(count: int) -> Any:
        async with condition:
            await condition.wait_for(lambda: len(ready) >= count)
            see("ready", node.name, count, "+".join(ready))
        return await call(simple(f"{node.name}-after{count}"), shared)

    waits = [wait(count) for count in (1, len(node.body))]
    return await asyncio.gather(*waits, *(bring(one) for one in node.body))


# Cancels


async def _cancel(node: Node, shared: Shared) -> Any:
    """Cancelled when the first has ended."""
    tasks = _cancelled_tasks(node, node.body[1:], shared)
    try:
        return await act(node.body[0], shared)
    finally:
        await _cancel_all(node, tasks)


async def _cancel_later(node: Node, shared: Shared) -> Any:
    """Cancelled after a time."""
    tasks = _cancelled_tasks(node, node.body, shared)
    try:
        await asyncio.sleep(node["ms"] / 1000)
        see("enough", node.name)
    finally:
        await _cancel_all(node, tasks)
    return [task.cancelled() for task in tasks]


def _cancelled_tasks(node: Node, body: tuple[Node, ...], shared: Shared) -> list[asyncio.Task[Any]]:
    async def clean_up(one: Node) -> Any:
        try:
            return await act(one, shared)
        finally:
            if node["clean"]:
                see("cleans", one.name)
                await call(simple(f"{one.name}-clean"), shared)

    return [asyncio.create_task(clean_up(one)) for one in body]


async def _cancel_all(node: Node, tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if node["awaits"]:
        found = await ended(tasks)
        see("ended", node.name, brief(_outcomes(found)))


# Others


async def _agen(node: Node, shared: Shared) -> Any:
    async def produce() -> Any:
        for one in node.body:
            yield await _settled(one, shared)

    found = []
    async with aclosing(produce()) as items:
        async for item in items:
            found.append(item)
            await call(simple(f"{node.name}-each{len(found)}"), shared)
    return found


async def _helper(node: Node, shared: Shared) -> Any:
    async def inner(body: tuple[Node, ...]) -> Any:
        if not body:
            return []
        first = await act(body[0], shared)
        return [first, *await inner(body[1:])]

    return await inner(node.body)


async def _child(node: Node, shared: Shared) -> Any:
    see("call", node.name)
    found = await part_async(node.name)
    see("child", node.name, found, *shared.add(node.name))
    return found


async def _other_child(node: Node, shared: Shared) -> Any:
    from tests.crash.oracle import def_player

    see("call", node.name)
    found = await def_player.part_def.aio(node.name)
    see("child", node.name, found, *shared.add(node.name))
    return found


BLOCKS: dict[str, Act] = {
    "seq": _seq,
    "gather": _gather,
    "gather_all": _gather_all,
    "limited": _limited,
    "group": _group,
    "tally": _tally,
    "race": _race,
    "wait_each": _wait_each,
    "wait_all": _wait_all,
    "wait_time": _wait_time,
    "completed": _completed,
    "wait_for": _wait_for,
    "timeout": _timeout,
    "shield": _shield,
    "give_up": _give_up,
    "beside": _beside,
    "pool": _pool,
    "feed": _feed,
    "joined": _joined,
    "lock": _lock,
    "semaphore": _semaphore,
    "event": _event,
    "condition": _condition,
    "cancel": _cancel,
    "cancel_later": _cancel_later,
    "agen": _agen,
    "helper": _helper,
    "child": _child,
    "other_child": _other_child,
}
