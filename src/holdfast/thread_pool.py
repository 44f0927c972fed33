"""A thread pool that takes work until it is shut down, also while the interpreter is ending.

When the main thread of a program has ended, its other threads and its `atexit` callbacks still run. From then
on `ThreadPoolExecutor` refuses work, and it cannot be imported any more. Here such work gets threads of its
own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool(Executor):
    """At most `most` calls at a time. As with `ThreadPoolExecutor`, the process does not end before the calls
    that it has begun. Thread-safe."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._late: set[threading.Thread] = set()
        self._free = threading.BoundedSemaphore(most)
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Raises RuntimeError if it was shut down, and if there can be no more threads."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the threads of {self._name} were shut down")
            try:
                if self._pool is None:
                    from concurrent.futures import ThreadPoolExecutor

                    self._pool = ThreadPoolExecutor(self._most, self._name)
                return self._pool.submit(fn, *args, **kwargs)
            except RuntimeError as error:
                if not _is_refusal(error):
                    raise
            return self._submit_late(fn, args, kwargs)

    def _submit_late(self, fn: Callable[..., T], args: Any, kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            with self._free:
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(fn(*args, **kwargs))
                    except BaseException as error:
                        future.set_exception(error)
            self._late.discard(threading.current_thread())

        thread = threading.Thread(target=work, name=f"{self._name}-late", daemon=False)
        self._late.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._late.discard(thread)
            raise
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._closed = True
            pool, late = self._pool, list(self._late)
        if pool is not None:
            pool.shutdown(wait, cancel_futures=cancel_futures)
        for thread in late if wait else ():
            thread.join()


def _is_refusal(error: RuntimeError) -> bool:
    """Whether nothing was begun because the interpreter ends: the import, or `submit`, says so. Where no
    thread can be started, the work may be in the queue already."""
    return "atexit after shutdown" in str(error) or "schedule new futures after" in str(error)
