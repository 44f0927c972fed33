"""The task that runs the body of an async step; a cancel of its caller does not cancel it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution import thread_driver
from holdfast.engine.execution.call import Body, Call, Outcome
from holdfast.engine.execution.mailbox import Waiter
from holdfast.engine.execution.perform import completion
from holdfast.engine.execution.scope import current, in_body
from holdfast.engine.execution.task_delivery import TaskDelivery, TaskTurn
from holdfast.engine.execution.task_factory import body_task
from holdfast.errors import NotStorable, StepTimeout
from holdfast.store.port import Append

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution

_NO_RUN = Context()
"""The context of callbacks that do not belong to the run's code: the loop runs them."""


class StraightBody(TaskTurn):
    """A body with nothing before it and only a commit behind it. Its task records the result: the caller
    wakes once, when that is delivered, and not for the end of the body as well (of 70 us per step, 10)."""

    __slots__ = ("_call", "_failed", "_outcome", "_task", "append", "value")

    def __init__(self, delivery: TaskDelivery, call: Call) -> None:
        super().__init__(delivery, call.key)
        self._call = call
        self._task: asyncio.Task[None]
        self._outcome: Outcome | None = None
        self._failed: BaseException | None = None
        self.append: Append | None = None
        """The append of the result; None if the body has no result to record."""
        self.value: Any = None

    def begin(self) -> None:
        call, run = self._call, self._call.execution
        run.engine.flusher.watch(call)
        call.begin()
        token = current.set(call)
        try:
            self._task = body_task(self.delivery.watched.loop, self._run())
        finally:
            current.reset(token)
        self._task.add_done_callback(self._ended, context=_NO_RUN)
        run.on_stop.append(self._stop)
        if run.control is not None:
            self._stop()  # the run was stopped before this was registered

    def end(self) -> None:
        """No caller waits for it any more."""
        self._call.execution.on_stop.remove(self._stop)

    def outcome(self) -> Outcome:
        """The outcome of a body whose result is not recorded. Raises the error that recording it raised."""
        if self._failed is not None:
            raise self._failed
        return self._outcome or Outcome(None, asyncio.CancelledError())

    async def _run(self) -> None:
        call = self._call
        try:
            own = call.own()
            self.value = await call.spec.body(*own.args, **own.kwargs)
            if own is not call:
                own.warn_of_changes()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._outcome = Outcome(None, error)
            return
        call.end()
        try:
            self.append = completion(call, self.value, self)
            call.execution.engine.store.append_soon(self.append, self._acknowledged)
        except NotStorable:
            self._outcome = Outcome(self.value)
        except BaseException as error:
            self._failed, self.append = error, None
            self.delivery.withdraw(self)

    def _ended(self, _: object) -> None:
        if self.append is None:
            self._call.end()
            self.deliver()

    def _acknowledged(self, append: Append) -> None:
        self.lost = append.error is not None
        mailbox = self._call.execution.mailbox
        assert mailbox is not None
        mailbox.deliver(self)

    def _stop(self) -> None:
        control = self._call.execution.control
        if control is not None and control.at_once:
            self.delivery.watched.loop.call_soon_threadsafe(self._task.cancel)


async def run_body(call: Call, request: Body) -> tuple[Outcome, asyncio.CancelledError | None]:
    """Run the function in a task of its own; a cancel of the caller does not cancel it."""
    loop = asyncio.get_running_loop()
    body = request.hook or call.spec.body
    waiter = Waiter(loop)
    if call.spec.is_async if request.hook is None else inspect.iscoroutinefunction(request.hook):
        with in_body(call):
            task: asyncio.Future[Outcome] = loop.create_task(_limited(call, body, request.timeout_s, waiter))
        stop = _cancel_when_stopped(call.execution, loop, task)
    else:
        threads = call.execution.engine.threads()
        try:
            task = loop.run_in_executor(threads, copy_context().run, thread_driver.run_body, call, request)
        except RuntimeError as error:  # no thread is left, or the interpreter ends
            raise call.execution.interrupt(f"no thread for step {call.key}: {error}") from None
        stop = None
    task.add_done_callback(waiter.finish, context=_NO_RUN)
    try:
        cancelled = await waiter.wait()
    finally:
        if stop is not None:
            call.execution.on_stop.remove(stop)
    if task.cancelled():
        return Outcome(None, asyncio.CancelledError()), cancelled
    return task.result(), cancelled


async def _limited(
    call: Call, body: Callable[..., Awaitable[Any]], timeout_s: float | None, waiter: Waiter
) -> Outcome:
    try:
        own = call.own()
        if timeout_s is None:
            value = await body(*own.args, **own.kwargs)
            own.warn_of_changes()
            return Outcome(value)
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                value = await body(*own.args, **own.kwargs)
            own.warn_of_changes()
            return Outcome(value)
        except TimeoutError as error:
            if limit.expired():
                return Outcome(None, StepTimeout(call.key, timeout_s))
            return Outcome(None, error)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return Outcome(None, error)
    finally:
        waiter.finish()  # a pass of the loop earlier than the task's own callback


def _cancel_when_stopped(
    run: Execution, loop: asyncio.AbstractEventLoop, task: asyncio.Future[Outcome]
) -> Callable[[], None]:
    """A run that lost its owner or was cancelled must not let its step continue."""

    def stop() -> None:
        if run.control is not None and run.control.at_once:
            loop.call_soon_threadsafe(task.cancel)

    run.on_stop.append(stop)
    stop()  # the run may have been stopped before this was registered
    return stop
