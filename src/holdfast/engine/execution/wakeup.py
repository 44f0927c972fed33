"""A wake-up call from any thread to one event loop."""

from __future__ import annotations

import asyncio
from contextvars import Context


class Bell:
    """For one waiter. If nothing waits when it is rung, the next `wait` returns at once."""

    __slots__ = ("_heard", "_loop", "_rung")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rung = False
        self._heard: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        self._rung = True
        if self._heard is not None:
            _end(self._heard)

    async def wait(self, seconds: float) -> bool:
        """Whether it was rung within so many seconds. A cancel is always raised: `asyncio.wait_for` swallows
        one that comes with the ring (Python 3.11), and the code that cancelled would wait for ever."""
        if not self._rung:
            heard = self._heard = self._loop.create_future()
            timer = self._loop.call_later(
                seconds, _end, heard, context=Context()
            )  # not one of the code's own
            try:
                await heard
            finally:
                timer.cancel()
                self._heard = None
        rung, self._rung = self._rung, False
        return rung


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
