"""Fan-out and fan-in: `parallel` for `def` workflows, `gather` for async ones.

When one branch fails, its siblings go on to their ends and are recorded; the failure is raised
after that. Several failures are raised as one ExceptionGroup, in the order of the arguments.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import Context, copy_context
from typing import Any, TypeVar, overload

from holdfast.engine.control import Control
from holdfast.engine.drive import drive
from holdfast.engine.parking import Waiting
from holdfast.engine.perform import Outcome
from holdfast.engine.scope import Scope, current, on_this_thread
from holdfast.engine.step import AsyncStep, BoundStep, Step
from holdfast.errors import BadInput, WrongColour

A = TypeVar("A")
R = TypeVar("R")

_LOOK_EVERY_S = 0.1


@overload
def parallel(branch: Step[[A], R], items: Iterable[A], *, limit: int = 8) -> list[R]: ...
@overload
def parallel(branch: Callable[[A], R], items: Iterable[A], *, limit: int = 8) -> list[R]: ...
def parallel(branch: Any, items: Iterable[Any], *, limit: int = 8) -> list[Any]:
    """Call `branch` with every item, at most `limit` at a time, and return the results in order.

    `branch` is a step, or a function that calls steps: then each item is a scope of its own.
    """
    if limit < 1:
        raise BadInput(f"parallel(limit={limit}): at least 1")
    if isinstance(branch, AsyncStep):
        raise WrongColour(
            f"parallel() is for `def` steps; in an async workflow `await gather(...)` {branch.name}"
        )
    scope = current.get()
    if type(scope) is not Scope:
        return _results(_run_all([_plain(branch, item) for item in items], limit))
    if not on_this_thread(scope):
        raise WrongColour("parallel() was called on another thread than the one of its scope")
    if scope.execution.is_async:
        raise WrongColour("parallel() would block this async workflow: write `await gather(...)`")
    return _results(_run_all([_branch(scope, branch, item) for item in items], limit))


def _plain(branch: Callable[..., Any], item: Any) -> Callable[[], Any]:
    return lambda: branch(item)


def _branch(scope: Scope, branch: Any, item: Any) -> Callable[[], Any]:
    """The work of one item, with its identity fixed now, in the caller's order."""
    if isinstance(branch, (Step, BoundStep)):
        args = (branch._instance, item) if isinstance(branch, BoundStep) else (item,)
        call = branch.call(scope, args, {})
        return lambda: drive(call, call.recall())
    child = scope.child(getattr(branch, "__name__", type(branch).__name__))

    def work() -> Any:
        child.thread = threading.get_ident()
        current.set(child)
        value = branch(item)
        child.execution.check_all_visited(child.counters)
        return value

    return work


def _run_all(work: Sequence[Callable[[], Any]], limit: int) -> list[Outcome]:
    if not work:
        return []
    scope = current.get()
    run = scope.execution if type(scope) is Scope else None
    crew = _Crew(len(work), min(limit, len(work)), None if run is None else run.waiting)
    with ThreadPoolExecutor(crew.threads, "holdfast-parallel") as pool:
        waiting: list[Future[Any]] = []
        try:
            with nullcontext() if run is None else run.waiting.for_crew(crew):
                waiting += [pool.submit(crew.run, copy_context(), one) for one in work]
                crew.wait()
        except BaseException as error:  # Ctrl-C: what runs ends, what has not begun does not begin
            if run is not None:
                run.interrupted(error)
            crew.stop()
            raise
    return [
        Outcome(None, failed) if (failed := one.exception()) else Outcome(one.result()) for one in waiting
    ]


class _Crew:
    """Knows which items are being worked on: an executor that was interrupted while it started a
    thread does not."""

    def __init__(self, items: int, threads: int, waiting: Waiting | None) -> None:
        self.threads = threads
        self._waiting = waiting
        self._queued = items
        self._changed = threading.Condition()
        self._left = items
        self._busy = 0
        self._stopped = False
        self._all_ended = threading.Lock()
        self._all_ended.acquire()

    def run(self, context: Context, work: Callable[[], Any]) -> Any:
        with self._changed:
            if self._stopped:
                return None
            if self._waiting is not None:
                self._waiting.begin()
            self._queued -= 1
            self._busy += 1
        try:
            return context.run(work)
        finally:
            with self._changed:
                self._busy -= 1
                self._left -= 1
                self._changed.notify_all()
                if not self._left:
                    self._all_ended.release()
            if self._waiting is not None:
                self._waiting.end()

    @property
    def beginnings(self) -> int:
        """How many items have a thread and have not begun yet."""
        return min(self._queued, self.threads - self._busy)

    def wait(self) -> None:
        """Wait until all have ended, but never for long: a signal wakes neither a main thread that just
        goes to sleep nor one that sleeps while another thread takes it, and Ctrl-C would be served only
        after the last item."""
        while not self._all_ended.acquire(timeout=_LOOK_EVERY_S):
            pass

    def stop(self) -> None:
        """Let nothing more begin, and wait for what has begun."""
        with self._changed:
            self._stopped = True
            self._changed.wait_for(lambda: not self._busy)


async def gather(*awaitables: Awaitable[R], limit: int | None = None) -> list[R]:
    """Await all, at most `limit` at a time, and return the results in order."""
    import asyncio

    if limit is not None and limit < 1:
        raise BadInput(f"gather(limit={limit}): at least 1")
    gate = asyncio.Semaphore(limit) if limit else None

    async def one(awaitable: Awaitable[R]) -> Outcome:
        try:
            if gate is None:
                return Outcome(await awaitable)
            async with gate:
                return Outcome(await awaitable)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return Outcome(None, error)

    def branch(awaitable: Awaitable[R]) -> asyncio.Task[Outcome]:
        coroutine = one(awaitable)
        # The branch's scope is named after what it runs, as plain asyncio.gather would name it.
        coroutine.__qualname__ = getattr(  # type: ignore[attr-defined]
            awaitable, "__qualname__", type(awaitable).__name__
        )
        return asyncio.ensure_future(coroutine)

    tasks = [branch(awaitable) for awaitable in awaitables]
    try:
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    return _results([one if isinstance(one, Outcome) else Outcome(None, one) for one in outcomes])


def _results(outcomes: Sequence[Outcome]) -> list[Any]:
    """All values, or what went wrong: a control signal before any failure."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    for error in errors:
        if isinstance(error, Control):
            raise error
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} of {len(outcomes)} branches failed", errors)
    return [outcome.value for outcome in outcomes]
