"""Slots: at most so many branches of a `gather` at a time, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.engine.execution.scope import Scope, current


class Slots:
    """A semaphore that a replay can stretch: the branches that were under way then may be more than fit
    today."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future in self._waiting:
                self._waiting.remove(future)
            elif not future.cancelled():
                self._leave()
            raise

    async def __aexit__(self, *exc: object) -> None:
        self._leave()

    def stretch(self) -> bool:
        """Let one more begin; False if none waits."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                self._free -= 1
                future.set_result(None)
                return True
        return False

    def _leave(self) -> None:
        self._free += 1
        if self._free > 0 and self._waiting:
            self.stretch()


@contextmanager
def limited(limit: int) -> Iterator[Slots]:
    """Slots that a replay of this run can stretch while it is inside."""
    slots = Slots(limit)
    scope = current.get()
    limits = scope.execution.delivery.limits if type(scope) is Scope else []
    limits.append(slots)
    try:
        yield slots
    finally:
        limits.remove(slots)
