"""An event loop in a thread of its own, for async workflows that plain code starts or calls as children."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any


class LoopThread:
    def __init__(self) -> None:
        import asyncio

        self._running: set[Future[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-loop", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # no thread is left
            self._loop.close()
            raise

    def spawn(self, run_id: str, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        """Let the coroutine, which executes a run, run in a copy of the caller's context. The future is done
        when it has ended."""
        import asyncio

        from holdfast.engine.execution.task_factory import NumberedTask

        async def execute() -> None:
            await NumberedTask(run_id, 0, coroutine)

        future = asyncio.run_coroutine_threadsafe(execute(), self._loop)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def close(self) -> None:
        """Wait until what runs in it has ended; the caller has asked it to stop."""
        wait(list(self._running))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
