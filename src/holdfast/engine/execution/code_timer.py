"""Timers of a run's own code: `asyncio.sleep`, `asyncio.timeout`, `wait_for`, `loop.call_later`.

A timer is an outcome: its firing is recorded with the run's next append, and it is delivered in its place
among the others. A replay delivers it from the history, without waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution.delivery import Turn
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.history import timer_key

if TYPE_CHECKING:
    from holdfast.engine.execution.scope import Scope
    from holdfast.engine.execution.task_delivery import TaskDelivery


class CodeTimer(Turn):
    """Delivering it calls its callback."""

    __slots__ = ("_args", "_callback", "_context", "_delivery", "_number", "_scope", "handle", "when")

    def __init__(
        self,
        delivery: TaskDelivery,
        scope: Scope,
        when: float,
        callback: Callable[..., Any],
        args: Sequence[Any],
        context: Context,
    ) -> None:
        scope.counters.timers += 1
        self._scope, self._number = scope.counters.path, scope.counters.timers
        super().__init__(timer_key(self._scope, self._number), ready=True)
        self._delivery = delivery
        self._callback, self._args, self._context = callback, args, context
        self.when = when
        self.handle: Any = None

    def fire(self) -> None:
        """Its time has come."""
        delivery, run = self._delivery, self._delivery.run
        delivery.timers.discard(self)
        if run.control is not None or run.over:
            self.deliver()
            return
        run.note(c.Record(e.TimerFired(self._scope, self._number, self._number)), self)
        delivery.wake()

    def deliver(self) -> None:
        self.delivered = True
        if not self.handle.cancelled():  # by the code, after it fired
            self.handle.cancel()
            self._delivery.clock.move_to(self.when)
            self._delivery.watched.loop.call_soon(self._callback, *self._args, context=self._context)
