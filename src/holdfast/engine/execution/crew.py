"""The threads of `parallel`: pieces of work, at most so many at a time.

They work for a run in one of two ways: side by side (`run_all`), where no code of the workflow runs between
the steps; or in turns (`run_in_turns`), where each piece is a branch with code of its own, see
`thread_delivery`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution.call import Outcome
from holdfast.engine.execution.notices import print_stopping
from holdfast.engine.execution.thread_delivery import ThreadDelivery, ThreadTurn

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution

Work = Callable[[], Any]

_LOOK_EVERY_S = 0.1
_STOP_LOOK_S = 0.01


def attempt(work: Work) -> Outcome:
    try:
        return Outcome(work())
    except BaseException as error:
        return Outcome(None, error)


def run_all(works: Sequence[Work], limit: int, run: Execution | None = None) -> list[Outcome]:
    """Run the works side by side; returns the outcomes in the order of the works."""
    return Crew(works, limit, run).run() if works else []


def run_in_turns(run: Execution, works: Sequence[Work], limit: int) -> list[Outcome]:
    """The same for branches of the workflow's code: one of them runs it at a time."""
    if not works:
        return []
    threads = run.threads_delivery
    assert threads is not None
    crew = TurnCrew(works, limit, run, threads)
    threads.enter_crew()
    threads.limits.append(crew)
    try:
        outcomes = crew.run()
        threads.begin(crew.caller)
        return outcomes
    finally:
        threads.limits.remove(crew)
        threads.leave_crew()


class Crew:
    """The threads of one `parallel`. It knows which works are running even if it was interrupted while it
    started a thread; an executor does not."""

    def __init__(self, works: Sequence[Work], limit: int, run: Execution | None) -> None:
        self._works = works
        self._limit = min(limit, len(works))
        self._run = run
        self._waiting = None if run is None else run.waiting
        self._context = copy_context()
        self._outcomes: list[Outcome] = [Outcome()] * len(works)
        self._threads_begun: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._started = 0
        """Works that have a thread, or will have one at once."""
        self._begun = 0
        self._busy = 0
        self._left = len(works)
        self._stopped = False
        self._refused: BaseException | None = None
        """What interrupts the run if a work gets no thread, in whichever thread that happened."""
        self._all_ended = threading.Lock()
        self._all_ended.acquire()
        self.caller_is_busy = False
        """The last work has ended: the caller continues, and counts as busy from then on."""

    @property
    def beginnings(self) -> int:
        """How many works have a thread and have not begun yet."""
        return self._started - self._begun

    def run(self) -> list[Outcome]:
        try:
            with nullcontext() if self._waiting is None else self._waiting.for_crew(self):
                self._start()
                self._wait()
        except BaseException as error:
            self._stop(error)
            raise
        self._join()
        return self._outcomes

    def _stop(self, error: BaseException) -> None:
        """Stop after Ctrl-C: wait for the running works, and begin no others. A second Ctrl-C does not wait
        for the running works; the run is released when their threads have ended."""
        try:
            if self._run is not None:
                self._run.interrupted(error)
            with self._changed:
                self._stopped = True
            if self._busy and isinstance(error, KeyboardInterrupt):
                print_stopping()
            self.wait_idle()
            self._join()
        except BaseException as second:
            self._stopped = True
            if self._run is not None:
                self._run.leave_behind(self, second)
            raise

    def wait_idle(self) -> None:
        """Wait until the running works have ended. It polls, because a wait without a timeout may miss
        Ctrl-C."""
        while self._is_busy():
            time.sleep(_STOP_LOOK_S)

    def _is_busy(self) -> bool:
        with self._changed:
            return self._busy > 0

    def _join(self) -> None:
        for thread in self._threads_begun:
            thread.join()

    def _start(self) -> None:
        for _ in range(self._limit):
            number = self._next()
            if number is not None:
                self._begin_thread(number)

    def _begin_thread(self, number: int) -> None:
        """Start a daemon thread: at its exit, the interpreter does not wait for threads that a second Ctrl-C
        has left running. The run is interrupted if the system has no thread for it."""
        serve = partial(attempt, partial(self._serve, number))
        thread = threading.Thread(target=serve, name=f"holdfast-parallel_{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is left, or the interpreter ends
            if self._run is None:
                raise
            self._refused = self._run.interrupt(f"no thread for a branch of parallel: {error}")
            raise self._refused from None
        self._threads_begun.append(thread)

    def _next(self) -> int | None:
        """The number of the next work, which is to begin now."""
        with self._changed:
            number = self._started
            if self._stopped or number == len(self._works):
                return None
            self._started += 1
        self._enlist(number)
        return number

    def _enlist(self, number: int) -> None:
        """The work is about to begin."""

    def _serve(self, first: int) -> None:
        """One work after the other, in this thread."""
        number: int | None = first
        while number is not None:
            with self._changed:
                self._begun += 1
                if self._stopped:
                    return
                if self._waiting is not None:
                    self._waiting.begin()
                self._busy += 1
            try:
                self._outcomes[number] = self._context.copy().run(self._do, number)
            finally:
                number = self._end_one()

    def _do(self, number: int) -> Outcome:
        return attempt(self._works[number])

    def _end_one(self) -> int | None:
        """Called when a work has ended; returns the number of this thread's next work."""
        with self._changed:
            self._left -= 1
            last = not self._left
        following = self._next()
        if last:
            self._ended()
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()
        if self._waiting is not None:
            self._waiting.end()
        return following

    def _ended(self) -> None:
        """The last work has ended."""
        if self._waiting is not None:
            self._waiting.begin()
            self.caller_is_busy = True
        self._all_ended.release()

    def _wait(self) -> None:
        """Wait until all have ended, with a short timeout: a signal wakes neither a main thread that is about
        to sleep nor one that sleeps while another thread receives it, and Ctrl-C would be handled only after
        the last work. A work that got no thread does not end: then this raises."""
        while not self._all_ended.acquire(timeout=_LOOK_EVERY_S):
            if self._refused is not None:
                raise self._refused
            self._look()

    def _look(self) -> None:
        """Called while the works are under way."""


class TurnCrew(Crew):
    """The threads of branches that take turns. Branches begin in the order of the items, each when it has
    the turn."""

    def __init__(self, works: Sequence[Work], limit: int, run: Execution, threads: ThreadDelivery) -> None:
        super().__init__(works, limit, run)
        self._threads = threads
        self._turns = [ThreadTurn(ready=True) for _ in works]
        self.caller = ThreadTurn(ready=True)
        self._over = 0
        """How many branches run beyond the limit, because a replay needed them."""

    def _start(self) -> None:
        super()._start()
        self._threads.leave()

    def _enlist(self, number: int) -> None:
        self._threads.make_runnable(self._turns[number])

    def _do(self, number: int) -> Outcome:
        return attempt(lambda: self._begin(number))

    def _begin(self, number: int) -> Any:
        self._threads.begin(self._turns[number])
        return self._works[number]()

    def stretch(self) -> bool:
        """Begin one branch more than the limit allows; False if none is left."""
        number = super()._next()
        if number is None:
            return False
        self._over += 1
        self._begin_thread(number)
        return True

    def _next(self) -> int | None:
        if self._over and self._left < len(self._works):
            self._over -= 1
            return None
        return super()._next()

    def _end_one(self) -> int | None:
        following = super()._end_one()
        self._threads.leave()
        return following

    def _look(self) -> None:
        self._threads.look()

    def _ended(self) -> None:
        self._threads.make_runnable(self.caller)
        super()._ended()
