"""A wake-up call from any thread to one event loop."""

from __future__ import annotations

import asyncio
from contextvars import Context


class WakeUp:
    """For one waiter. If nothing waits when it is set, the next `wait` returns at once."""

    __slots__ = ("_is_set", "_loop", "_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_set = True
        if self._waiter is not None:
            _end(self._waiter)

    async def wait(self, seconds: float) -> bool:
        """Whether it was set within so many seconds. A cancel is always raised: `asyncio.wait_for` of Python
        3.11 swallows one that comes at the same moment, and the code that cancelled would wait for ever."""
        if not self._is_set:
            waiter = self._waiter = self._loop.create_future()
            timer = self._loop.call_later(
                seconds, _end, waiter, context=Context()
            )  # not one of the code's own
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        was_set, self._is_set = self._is_set, False
        return was_set


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
