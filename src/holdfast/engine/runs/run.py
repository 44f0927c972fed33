"""`Run`: a handle on a run, to wait for its end."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast.colour import refuse_in_loop
from holdfast.engine.execution.call import Outcome
from holdfast.engine.execution.notices import note_recorded, report_open_gates
from holdfast.engine.execution.scope import current
from holdfast.errors import RunNotFound, RunWaiting
from holdfast.package import ROOT
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, CancelledError, Future

    from holdfast.engine.engine import Engine

R = TypeVar("R")

logger = logging.getLogger("holdfast")

_PACKAGE = str(ROOT) + os.sep
_NOTICE_S = 1.0
"""A caller that blocks for longer gets a notice if the run waits at a gate."""


class Run(Generic[R]):
    """A run that was started or resumed here. `result()` blocks; in async code, `await run`."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self.id = run_id
        self._ended = threading.Event()
        self.rested = threading.Event()
        """Set once the run has ended here, or was parked: no thread works on it at that moment."""
        self.asked = False
        """Whether `result()` or `await` was called."""
        self._outcome = Outcome()
        self._failed_at = 0
        """When the run failed, if its error was read from the log and has no note yet."""
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self.begun: Future[bool] | None = None
        """Of a run that was started in an event loop: whether it is durable, once that is known."""

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    @property
    def status(self) -> str:
        """The status in the store now, which is one short read. A run that was started in an event loop is
        pending until it is there."""
        row = self._engine.store.run(self.id)
        if row is not None:
            return row.status
        if self.done():
            raise RunNotFound(self.id)
        return "pending"

    def result(self, timeout: float | None = None) -> R:
        """The workflow's result, or its error. Raises `RunWaiting` if `timeout` seconds are over first."""
        return self._wait(timeout, notices=timeout is None)

    def quiet_result(self) -> R:
        """The same for a caller that shows itself what the run waits for."""
        return self._wait(None, notices=False)

    def _wait(self, timeout: float | None, *, notices: bool) -> R:
        refuse_in_loop("run.result() blocks", "await run")
        self.asked = True
        try:
            while notices and not self._ended.wait(_NOTICE_S):
                notices = not report_open_gates(self._engine, self.id)
            ended = self._ended.wait(timeout)
        except KeyboardInterrupt as error:
            raise self._left(error) from None
        if not ended:
            raise RunWaiting(self.id, f"it has not ended within {timeout:g} s")
        return self._take()

    def _left(self, error: KeyboardInterrupt) -> BaseException:
        """The exception that Ctrl-C raises in a caller that waits."""
        return resumable(error, self.id)

    def done(self) -> bool:
        """Whether this process has nothing more to do for it."""
        return self._ended.is_set()

    def __await__(self) -> Generator[Any, None, R]:
        import asyncio

        self.asked = True
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        self._when_ended(lambda: loop.call_soon_threadsafe(wake))
        # Not inside a workflow: there a timer is an outcome of the run.
        timer = _NoticeTimer(self, loop) if current.get() is None and not self.done() else None
        try:
            yield from future
        except asyncio.CancelledError as error:
            raise interrupted_by_signal(error, self.id) from None
        finally:
            if timer is not None:
                timer.stop()
        return self._take()

    async def begin(self) -> None:
        """Wait until a run that was started in this event loop is durable; raises what kept it from that."""
        import asyncio

        begun = self.begun
        if begun is None or begun.get_loop() is not asyncio.get_running_loop():
            return
        if not await asyncio.shield(begun):
            self.asked = True
            self._take()

    def may_wait(self) -> bool:
        """Whether the run may wait at a gate; without a look at the store."""
        live = self._engine.live.get(self.id)
        return live is None or bool(live[0].state.waiters)

    def report_open_gates(self) -> bool:
        """Print the notice of a caller that waits. Whether there was an open gate."""
        return report_open_gates(self._engine, self.id)

    @property
    def outcome(self) -> Outcome:
        """How it ended; nothing before it has."""
        return self._outcome

    def finish(self, outcome: Outcome, failed_at: int = 0) -> None:
        """Called by the driver, once. `failed_at` is the time of an error that was read from the log."""
        with self._lock:
            self._outcome = outcome
            self._failed_at = failed_at
            self._ended.set()
            if outcome.error is None or self.asked:
                self._engine.unasked.discard(self)
            self.rested.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except RuntimeError:
                pass  # the waiter's loop is closed

    def _when_ended(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def _take(self) -> R:
        error = self._outcome.error
        if error is not None:
            if self._failed_at and current.get() is None:
                self._note_recorded(error)
            raise error
        return cast(R, self._outcome.value)

    def _note_recorded(self, error: BaseException) -> None:
        """Note once that the error is a recorded one. Never inside a workflow or a step: what leaves it is
        recorded with its notes, and every replay must see the same error."""
        with self._lock:
            failed_at, self._failed_at = self._failed_at, 0
        if failed_at:
            note_recorded(error, self.id, (self._engine.clock.now_us() - failed_at) / 1_000_000)


class _NoticeTimer:
    """Prints what an awaited run waits for, as `result()` does; the store is read in a thread."""

    def __init__(self, run: Run[Any], loop: AbstractEventLoop) -> None:
        self._run = run
        self._loop = loop
        self._timer = loop.call_later(_NOTICE_S, self._look)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._timer.cancel()

    def _look(self) -> None:
        if not self._run.may_wait():
            self._timer = self._loop.call_later(_NOTICE_S, self._look)
            return
        looking = self._loop.run_in_executor(None, self._run.report_open_gates)
        looking.add_done_callback(self._looked)

    def _looked(self, looking: Future[bool]) -> None:
        said = not looking.cancelled() and looking.exception() is None and looking.result()
        if not said and not self._stopped:
            self._timer = self._loop.call_later(_NOTICE_S, self._look)


def warn_if_unasked(run: Run[Any]) -> None:
    """Warn of an error that was never read: the run was not awaited before its Holdfast was closed."""
    if not run.asked and run.outcome.error is not None:
        logger.warning(
            "run %s was started and never awaited; it ended with %s: %s (write `await hf.start(...)`)",
            run.id, type(run.outcome.error).__name__, run.outcome.error,
        )  # fmt: skip


def resumable(error: BaseException, run_id: str) -> BaseException:
    """Ctrl-C on its way to the caller: the last two lines of the traceback say what becomes of the run. It
    shows the frames of the program's own code."""
    if isinstance(error, KeyboardInterrupt):
        error.__traceback__ = own_frames(error.__traceback__)
    if isinstance(error, KeyboardInterrupt) and not getattr(error, "__notes__", None):
        error.add_note(f"holdfast: run {run_id} is interrupted; what it has recorded is kept")
        error.add_note(f"{quoted(Way('resume', run_id))} continues, and so does this program, started again")
    return error


def interrupted_by_signal(error: CancelledError, run_id: str) -> BaseException:
    """The error to raise in a task that was cancelled while it awaited a run. If Ctrl-C did that,
    `asyncio.run` has cancelled its main task, and the program gets a `KeyboardInterrupt` that names the
    run, as from `result()`; otherwise it is the error itself."""
    import asyncio

    handler = signal.getsignal(signal.SIGINT)
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    main: object = getattr(handler, "keywords", {}).get("main_task")
    task = asyncio.current_task()
    # Without a count of interrupts other code has cancelled the task: `asyncio.timeout`, for instance.
    if task is None or task is not main or not getattr(runner, "_interrupt_count", 0):
        return error
    # The runner does not read the exception of its task if that is no cancellation.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return resumable(KeyboardInterrupt(), run_id)


def own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of holdfast, and those of `threading` that it waits in."""
    kept: list[TracebackType] = []
    inside = False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        inside = file.startswith(_PACKAGE) or (inside and file == threading.__file__)
        if not inside:
            kept.append(trace)
        trace = trace.tb_next
    own: TracebackType | None = None
    for one in reversed(kept):
        own = TracebackType(own, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return own
