"""Acknowledgements of the store's thread for the tasks of one event loop."""

from __future__ import annotations

import asyncio
import threading

from holdfast.engine.execution.task_delivery import TaskDelivery, TaskTurn


class Mailbox:
    """Passes acknowledgements from the store's thread to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: list[Waiter | TaskTurn] = []
        self._lock = threading.Lock()
        self._called = False

    def deliver(self, waiter: Waiter | TaskTurn) -> None:
        with self._lock:
            self._done.append(waiter)
            if self._called:
                return
            self._called = True
        try:
            self.loop.call_soon_threadsafe(self._open)
        except RuntimeError:
            pass  # the loop is closed: no caller waits any more

    def _open(self) -> None:
        with self._lock:
            self._called = False
            done, self._done = self._done, []
        runs: dict[TaskDelivery, None] = {}
        for waiter in done:
            if type(waiter) is Waiter:
                waiter.finish()
            else:
                assert isinstance(waiter, TaskTurn)
                runs[waiter.delivery] = None
                if waiter.lost:
                    waiter.delivery.withdraw(waiter)
                else:
                    waiter.ready = True
        for delivery in runs:
            delivery.run_code()


class Waiter:
    """Waits for one thing to be done, whatever is cancelled meanwhile."""

    __slots__ = ("_done", "_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._done = False
        self._future: asyncio.Future[None] | None = None

    def finish(self, _: object = None) -> None:
        self._done = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> asyncio.CancelledError | None:
        """Return when it is done; the value is the cancel that was raised meanwhile, if there was one."""
        cancelled = None
        while not self._done:
            self._future = self._loop.create_future()
            try:
                await self._future
            except asyncio.CancelledError as cancel:
                cancelled = cancel
        return cancelled
