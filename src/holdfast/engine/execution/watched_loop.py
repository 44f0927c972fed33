"""An event loop that gives the callbacks and timers of a run's code to that run.

asyncio's tasks and futures look `call_soon` up on the loop each time, and `asyncio.sleep`,
`asyncio.timeout` and `wait_for` do the same with `call_at`, `call_later` and `time`. An async generator that
the code drops is closed by a task that the loop creates with `call_soon_threadsafe`. So these five, shadowed
on the loop object, see everything that the code of a run schedules: it runs in a context that has the run's
scope. All other callbacks go to the loop as before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution.scope import Scope, current
from holdfast.errors import BadInput

if TYPE_CHECKING:
    from holdfast.engine.execution.task_delivery import TaskDelivery

_ATTRIBUTE = "_holdfast_watched"


class WatchedLoop:
    """One per loop. Its own `later` and `time` are those of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._due: deque[TaskDelivery] = deque()
        self._called = False
        self._call_soon: Callable[..., Any] = loop.call_soon
        self._call_soon_threadsafe: Callable[..., Any] = loop.call_soon_threadsafe
        self._call_at: Callable[..., Any] = loop.call_at
        self._call_later: Callable[..., Any] = loop.call_later
        self.time: Callable[[], float] = loop.time
        for name, shadow in (
            ("call_soon", self._soon),
            ("call_soon_threadsafe", self._soon_threadsafe),
            ("call_at", self._at),
            ("call_later", self._later),
            ("time", self._time),
            (_ATTRIBUTE, self),
        ):
            setattr(loop, name, shadow)

    def run_soon(self, delivery: TaskDelivery) -> None:
        """Schedule `delivery.run_code()`. One callback of the loop runs all that are due by then."""
        self._due.append(delivery)
        if not self._called:
            self._called = True
            self._call_soon(self._run_due, context=Context())

    def _run_due(self) -> None:
        due = self._due
        try:
            for _ in range(len(due)):
                due.popleft().run_code()
        finally:
            self._called = bool(due)
            if due:
                self._call_soon(self._run_due, context=Context())

    def later(self, delay: float, callback: Any, *args: Any, context: Context) -> Any:
        """A timer that does not belong to a run's code. It is set outside the run's context, because the loop
        reads its own `time`."""
        return Context().run(self._call_later, delay, callback, *args, context=context)

    def _soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        scope = current.get() if context is None else context.get(current)
        if type(scope) is Scope:
            delivery = scope.execution.tasks_delivery
            if delivery is not None and delivery.watched is self:
                handle = asyncio.Handle(
                    callback, args, self.loop, copy_context() if context is None else context
                )
                delivery.handles.append(handle)
                if not delivery.awake:
                    delivery.wake()
                return handle
        return self._call_soon(callback, *args, context=context)

    def _soon_threadsafe(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        # A thread of `asyncio.to_thread` has the scope, too. What is not of a run wakes the loop: asyncio's
        # handler of Ctrl-C needs that.
        if asyncio._get_running_loop() is self.loop and self._of(context)[1] is not None:
            return self._soon(callback, *args, context=context)
        return self._call_soon_threadsafe(callback, *args, context=context)

    def _at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        scope, delivery = self._of(context)
        if delivery is None:
            return Context().run(
                self._call_at, when, callback, *args, context=copy_context() if context is None else context
            )
        return delivery.set_timer(scope, when, callback, args, copy_context() if context is None else context)

    def _later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        scope, delivery = self._of(context)
        if delivery is None:
            return self.later(delay, callback, *args, context=copy_context() if context is None else context)
        when = delivery.clock.read() + delay
        return delivery.set_timer(scope, when, callback, args, copy_context() if context is None else context)

    def _time(self) -> float:
        delivery = self._of(None)[1]
        return self.time() if delivery is None else delivery.clock.read()

    def _of(self, context: Context | None) -> tuple[Any, TaskDelivery | None]:
        """The scope of the context, and the delivery of its run if the run is executed in this loop."""
        scope = current.get() if context is None else context.get(current)
        if type(scope) is Scope:
            delivery = scope.execution.tasks_delivery
            if delivery is not None and delivery.watched is self:
                return scope, delivery
        return None, None


def watched(loop: asyncio.AbstractEventLoop) -> WatchedLoop:
    """Raises `BadInput` for a loop that cannot be watched."""
    found: WatchedLoop | None = getattr(loop, _ATTRIBUTE, None)
    if found is not None:
        return found
    try:
        return WatchedLoop(loop)
    except AttributeError:
        raise BadInput(
            f"an event loop of type {type(loop).__qualname__} does not let holdfast see when the code of a "
            "run is at rest; use asyncio's own loop or uvloop"
        ) from None
