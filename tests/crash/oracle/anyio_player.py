"""The blocks of async programs that use anyio: task groups, cancel scopes, memory streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import anyio
from tests.crash.oracle import async_player
from tests.crash.oracle.async_player import BLOCKS, FAILURES, Shared, act
from tests.crash.oracle.programs import Node
from tests.crash.oracle.witness import brief, described, see


async def _group(node: Node, shared: Shared) -> Any:
    found: list[Any] = []

    async def one_of(one: Node) -> None:
        found.append(await act(one, shared))

    async with anyio.create_task_group() as group:
        for one in node.body:
            group.start_soon(one_of, one)
    return found


async def _move_on(node: Node, shared: Shared) -> Any:
    with anyio.move_on_after(node["ms"] / 1000) as scope:
        await _group(node, shared)
    see("moved on", node.name, scope.cancelled_caught)
    return scope.cancelled_caught


async def _fail_after(node: Node, shared: Shared) -> Any:
    with anyio.fail_after(node["ms"] / 1000):
        return [await act(one, shared) for one in node.body]


async def _stream(node: Node, shared: Shared) -> Any:
    send, receive = anyio.create_memory_object_stream[str](1)
    found: list[Any] = []

    async def feed() -> None:
        async with send:
            for one in node.body:
                try:
                    await send.send(brief(await act(one, shared)))
                except FAILURES as error:
                    await send.send(described(error))

    async def drain() -> None:
        async with receive:
            async for item in receive:
                found.append(item)
                see("received", node.name, item)

    async with anyio.create_task_group() as group:
        group.start_soon(feed)
        group.start_soon(drain)
    return found


async def _waited(branches: Sequence[Awaitable[Any]]) -> list[Any]:
    """Without `asyncio.gather(return_exceptions=True)`, which forgets the text of a cancel if its last branch
    has ended. anyio knows its own cancels by that text: a scope around it would let the cancel through."""
    tasks = [asyncio.ensure_future(one) for one in branches]
    if tasks:
        await asyncio.wait(tasks)
    return [_outcome(task) for task in tasks]


def _outcome(task: asyncio.Future[Any]) -> Any:
    return asyncio.CancelledError() if task.cancelled() else task.exception() or task.result()


async_player.ended = _waited
BLOCKS.update(
    any_group=_group,
    any_move_on=_move_on,
    any_fail_after=_fail_after,
    any_stream=_stream,
)
