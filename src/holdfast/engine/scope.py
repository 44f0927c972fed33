"""Scopes: where a step is called from, so that its identity does not depend on timing.

A run's function is the root scope. Every asyncio task that is created inside a scope is a scope of
its own, named after its coroutine and numbered by the parent: a task factory, chained before the
one that is there, gives it at the task's creation, in the parent's context. So plain
`asyncio.gather` and `TaskGroup` work. Worker threads of `parallel` get their scopes the same way.
"""

from __future__ import annotations

import math
import sys
import threading
from contextvars import Context, ContextVar, copy_context
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.clock import Clock
from holdfast.kernel.identity import Counters

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from holdfast.engine.execution import Execution


class Deadline(float):
    """When no step may go on any more, in microseconds of the wall clock, as it is recorded; 0 for never.
    `ends` is the same by this process's monotonic clock: a wall clock that is set back puts off nothing."""

    __slots__ = ("ends",)
    ends: float

    def __new__(cls, at_us: float, ends: float = math.inf) -> Deadline:
        deadline = super().__new__(cls, at_us)
        deadline.ends = ends
        return deadline

    def left_s(self, clock: Clock) -> float:
        """How many seconds are left, by the clock that says less."""
        return max(0.0, min((self - clock.now_us()) / 1e6, self.ends - clock.monotonic()))


NEVER = Deadline(0.0)


class Scope:
    """One thread of control of a run: a coroutine's task or a thread."""

    __slots__ = ("counters", "deadline", "execution", "thread")

    def __init__(
        self, execution: Execution, counters: Counters, thread: int, deadline: Deadline = NEVER
    ) -> None:
        self.execution = execution
        self.counters = counters
        self.thread = thread
        self.deadline = deadline

    def child(self, name: str, thread: int = 0) -> Scope:
        """The scope of the next branch that starts here; `thread` 0 means this one's."""
        return Scope(self.execution, self.counters.child(name), thread or self.thread, self.deadline)


class InsideStep:
    """A step's body: steps called here are plain calls."""

    __slots__ = ("attempt", "execution", "key")

    execution: Execution
    key: str
    attempt: int


current: ContextVar[Scope | InsideStep | None] = ContextVar("holdfast_scope", default=None)


def on_this_thread(scope: Scope) -> bool:
    return scope.thread == threading.get_ident()


def install_task_factory(loop: AbstractEventLoop) -> None:
    """Make every task that is created inside a scope a scope of its own. Once per loop."""
    import asyncio

    previous = loop.get_task_factory()
    if getattr(previous, "_holdfast", False):
        return

    def factory(loop: AbstractEventLoop, coro: Any, *, context: Context | None = None, **kwargs: Any) -> Any:
        scope = current.get()
        branches = type(scope) is Scope and not _made_by_wait_for()
        if branches:
            assert type(scope) is Scope
            # A context that the caller passes may be shared by several tasks: never set it in place.
            context = copy_context() if context is None else context.copy()
            branch = scope.child(_name(coro))
            context.run(current.set, branch)
        if previous is not None:
            # An older factory may not know `context`.
            task = previous(loop, coro, **({"context": context} if context else {}), **kwargs)
        else:
            task = asyncio.Task(coro, loop=loop, context=context, **kwargs)
        if branches:
            assert type(scope) is Scope
            scope.execution.tasks += 1
            task.add_done_callback(partial(scope.execution.task_ended, branch.counters))
        return task

    factory._holdfast = True  # type: ignore[attr-defined]
    loop.set_task_factory(factory)


def _name(coro: Any) -> str:
    name: str = getattr(coro, "__qualname__", "") or type(coro).__name__
    return name.rpartition(".")[2]


if sys.version_info >= (3, 12):

    def _made_by_wait_for() -> bool:
        return False

else:

    def _made_by_wait_for() -> bool:
        """Python 3.11's wait_for wraps its coroutine in a task, 3.12's does not: identity must not
        depend on that, so the wrapper shares the scope of its caller, who waits for it anyway."""
        frame: FrameType | None = sys._getframe(2)
        for _ in range(4):
            if frame is None:
                return False
            code = frame.f_code
            if code.co_name == "wait_for" and code.co_filename.endswith("tasks.py"):
                return True
            frame = frame.f_back
        return False
