"""Delivery to the tasks of an async run.

The callbacks of the run's code (steps of its tasks, callbacks of its futures) wait in a queue of the run's
own instead of the loop's (`watched_loop`), and one callback of the loop runs them in their order. The code
is at rest when that queue is empty. So no other run, no body of a step and no foreign task on the same loop
disturbs it, and nothing depends on how the loop is made.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution import delivery as delivery_rules
from holdfast.engine.execution.code_clock import CodeClock
from holdfast.engine.execution.code_timer import CodeTimer
from holdfast.engine.execution.delivery import Delivery, Turn
from holdfast.engine.execution.replay_watch import ReplayWatch
from holdfast.engine.execution.waiting_tasks import TaskWait, waits_of
from holdfast.engine.execution.watched_loop import watched
from holdfast.kernel import commands as c

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution
    from holdfast.engine.execution.scope import Scope

_SLICE = 64
"""The passes and deliveries in a row before the other callbacks of the loop run."""
_PASSES = 1000
"""Code that never rests (`while not done: await asyncio.sleep(0)`) receives outcomes after so many passes."""
_UNWIND_S = 0.25
"""A function that waits for so long after its run was stopped is cancelled."""
_NEVER_S = 1e9


class TaskTurn(Turn):
    """A turn that a task waits for."""

    __slots__ = ("delivery", "future")

    def __init__(self, delivery: TaskDelivery, key: str, *, ready: bool = False) -> None:
        self.key, self.ready, self.lost, self.delivered = key, ready, False, False
        self.delivery = delivery
        self.future: asyncio.Future[None] | None = None

    def deliver(self) -> None:
        self.delivered = True
        if self.future is not None and not self.future.done():
            self.future.set_result(None)

    def acknowledge(self) -> None:
        """It may be delivered. In the loop's thread."""
        self.ready = True
        self.delivery.wake()

    async def wait(self) -> asyncio.CancelledError | None:
        """Return when it is delivered; the value is the cancel that was raised meanwhile, if there was
        one."""
        cancelled = None
        while not self.delivered:
            self.future = asyncio.Future(loop=self.delivery.watched.loop)
            try:
                await self.future
            except asyncio.CancelledError as cancel:
                cancelled = cancel
        return cancelled


class TaskDelivery(Delivery):
    """The delivery of an async run. All methods but `stop` are called only in the thread of its loop."""

    def __init__(self, run: Execution, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(run)
        self.watched = watched(loop)
        self.tasks: set[asyncio.Task[Any]] = set()
        """The tasks of the run beside its driver."""
        self.driver: asyncio.Task[Any] | None = None
        self.timers: set[CodeTimer] = set()
        self.clock = CodeClock(self.watched.time, run.state.begun_at or run.state.created_at)
        self.handles: deque[asyncio.Handle] = deque()
        """The callbacks of the code that are to run."""
        self.awake = False
        """Whether `run_code` runs or will."""
        self._running = False
        self.eager = 0
        """How many tasks are being created that begin at once (`asyncio.eager_task_factory`): the code that
        creates them is not at rest."""
        self._passes = 0
        self._barrier: dict[asyncio.Future[None], str] = {}
        self._replay_watch = ReplayWatch(self)
        self._unwinding: asyncio.TimerHandle | None = None
        self._idle_s = 0.0
        self._ran = 0
        """How many passes of the code's callbacks there were."""
        run.on_stop.append(self.stop)

    # Running the code

    def begin(self) -> None:
        """The function of the run is about to be called, by the current task."""
        self.driver = asyncio.current_task()
        if self.replaying:
            self.wake()  # code that asks for nothing at all is judged, too

    def wake(self) -> None:
        """Schedule `run_code`, unless it is scheduled."""
        if not self.awake:
            self.awake = True
            self.watched.run_soon(self)

    def run_code(self) -> None:
        """Run callbacks, and deliver whenever the code is at rest, for one slice or until it waits."""
        if self._running:
            return  # a callback of the code runs the loop
        self._running = self.awake = more = True
        handles = self.handles
        try:
            for _ in range(_SLICE):
                if handles and self._passes < _PASSES:
                    self._passes += 1
                    self._ran += 1
                    for _ in range(len(handles)):
                        handle = handles.popleft()
                        if not handle._cancelled:
                            handle._run()
                    continue
                self._passes = 0
                if not self._deliver() and not handles:
                    more = False
                    break
        finally:
            self._running = self.awake = False
            if more:
                self.wake()

    def _deliver(self) -> bool:
        if self.run.control is not None or self.run.over:
            self.release()
            self._unwind()
            return False
        turn = self.next(at_rest=not self.handles)
        if turn is None:
            return False
        self._move_clock(turn.key)
        turn.deliver()
        return True

    def take(self, key: str) -> None:
        super().take(key)
        self._move_clock(key)

    def _move_clock(self, key: str) -> None:
        step = self.run.state.steps.get(key)
        if step is not None and step.ended_at:  # else it is a timer, which moves the clock itself
            self.clock.reach(step.ended_at)

    # Calls

    def turn(self, key: str) -> TaskTurn:
        """For an outcome that is about to be recorded."""
        return TaskTurn(self, key)

    async def noted(self, command: c.Command, key: str) -> asyncio.CancelledError | None:
        """Record an outcome that goes in front of the run's next append, and wait until it is delivered."""
        turn = TaskTurn(self, key, ready=True)
        self.run.note(command, turn)
        self.wake()
        return await turn.wait()

    def take_now(self, key: str) -> bool:
        """Deliver the recorded outcome at once, without a pass of the loop, if it is next and nothing else of
        the run has anything to do; returns whether it was. This is so for nearly every recorded step."""
        if not self.is_pending(key):
            return True
        if self.handles or self.eager or not self.is_next(key):
            return False
        task = asyncio.current_task(self.watched.loop)
        if task is not None and getattr(task, "_must_cancel", False):
            return False  # a cancel is raised where it waits
        self.take(key)
        return True

    async def replayed(self, key: str) -> asyncio.CancelledError | None:
        """Wait until the recorded outcome is delivered; returns the cancel that came meanwhile."""
        if self.take_now(key):
            return None
        turn = self.hold(key)
        turn.acknowledge()
        return await self.received(turn)

    def hold(self, key: str) -> TaskTurn:
        """Ask for a recorded outcome that is not at hand yet."""
        turn = TaskTurn(self, key)
        if self.is_pending(key):
            self.ask(turn)
        else:
            turn.delivered = True
        return turn

    async def received(self, turn: TaskTurn) -> asyncio.CancelledError | None:
        cancelled = await turn.wait()
        self._check()
        return cancelled

    async def barrier(self, key: str) -> asyncio.CancelledError | None:
        """Wait until the whole history is delivered. Neither a cancel, which is returned, nor the end of the
        function withdraws the call."""
        run, cancelled = self.run, None
        run.under_way += 1
        try:
            while self.replaying and run.control is None and not run.over:
                future = self.watched.loop.create_future()
                self._barrier[future] = key
                self.wake()
                try:
                    await future
                except asyncio.CancelledError as cancel:
                    cancelled = cancel
                finally:
                    self._barrier.pop(future, None)
        finally:
            run.end_call()
        self._check()
        run.reach(key)
        return cancelled

    def _check(self) -> None:
        if self.run.control is not None:
            raise self.run.control

    def _lift(self) -> None:
        for future in list(self._barrier):
            if not future.done():
                future.set_result(None)
        self._replay_watch.end()

    # Timers of the code's own

    def set_timer(
        self, scope: Scope, when: float, callback: Callable[..., Any], args: Sequence[Any], context: Context
    ) -> Any:
        """Returns the handle that cancels it. A recorded timer does not run: it is delivered from the
        history."""
        timer = CodeTimer(self, scope, when, callback, args, context)
        recorded = self.is_pending(timer.key)
        delay = _NEVER_S if recorded else when - self.clock.read()
        timer.handle = self.watched.later(delay, timer.fire, context=Context())
        if recorded:
            self.ask(timer)
            self.wake()
        else:
            self.timers.add(timer)
        return timer.handle

    def is_busy(self) -> bool:
        """Whether the code will continue by itself: it has something to run or to receive, or a timer."""
        self.timers = {timer for timer in self.timers if not timer.handle.cancelled()}
        return bool(self.timers or self._placed or self.handles)

    # Stopping

    def stop(self) -> None:
        """The run is stopped: wake all that wait. From any thread."""
        try:
            self.watched.loop.call_soon_threadsafe(self.run_code, context=Context())
        except RuntimeError:
            pass  # the loop is closed: no task waits any more

    def release(self) -> None:
        """The run stops, or its function has ended: nothing is delivered in order any more."""
        for turn in list(self._asked.values()):
            if self.run.over or type(turn) is not CodeTimer:  # what stops a run lets no time pass
                self.take(turn.key)
                turn.deliver()
        for turn in [turn for turn in self._placed if turn.ready]:
            self._placed.remove(turn)
            turn.deliver()
        self._lift()

    def end(self) -> None:
        """The function has ended."""
        self.release()
        self.driver = None

    def _unwind(self) -> None:
        """Cancel the function of a stopped run if it waits for something that will not happen (a queue whose
        worker was stopped). A function that is still working, for example closing a connection, continues."""
        waits = self.driver is not None and not self.run.over and not self.run.under_way
        if waits and not self.handles and self._unwinding is None:
            self._unwinding = self.later(_UNWIND_S, self._cancel_driver, self._ran)

    def _cancel_driver(self, ran: int) -> None:
        self._unwinding = None
        if self.run.over or self.driver is None or self.driver.done():
            return
        wait = self.waits()[0]
        self._idle_s = 0.0 if ran != self._ran else self._idle_s + _UNWIND_S
        if ran == self._ran and (wait.kind != "unknown" or self._idle_s > delivery_rules.PATIENCE_S):
            asyncio.Task.cancel(self.driver)  # not an interrupt from outside, see RunTask
        self.wake()

    # Divergence

    def _all(self) -> list[asyncio.Task[Any]]:
        tasks = [task for task in self.tasks if not task.done()]
        return tasks if self.driver is None else [self.driver, *tasks]

    def _ours(self) -> set[int]:
        """The futures that this delivery sets."""
        waiting = (turn.future for turn in self._asked.values() if isinstance(turn, TaskTurn))
        return {id(future) for future in (*self._barrier, *waiting)}

    def _is_certain(self) -> bool:
        return all(wait.kind == "holdfast" for wait in self.waits())

    def _watch(self) -> None:
        self._replay_watch.begin()

    def later(self, delay: float, callback: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        """A timer of the engine."""
        handle: asyncio.TimerHandle = self.watched.later(delay, callback, *args, context=Context())
        return handle

    def lose_patience(self) -> None:
        """The code has not asked for the next recorded outcome in time: give it up."""
        self._give_up(self._head())
        self.wake()

    def missing(self) -> str:
        """The recorded call that the code should make next; empty if it has."""
        if not self.replaying or self.run.control is not None or self.run.over:
            return ""
        head = self._head()
        return "" if head in self._asked else head or next(iter(self.unvisited), "")

    def waits(self) -> list[TaskWait]:
        """For each task of the run, its driver first."""
        return waits_of(self._all(), self._ours())

    def _give_up(self, key: str) -> bool:
        again = super()._give_up(key)
        if not again:
            self._idle_s = math.inf  # whatever the function waits for, it has waited long enough
            self.wake()
        return again

    def _waits(self) -> tuple[list[str], list[str]]:
        keys = [*dict.fromkeys((*self._barrier.values(), *self._asked))]
        return keys, [wait.place for wait in self.waits() if wait.kind != "holdfast" and wait.place]
