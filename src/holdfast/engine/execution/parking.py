"""Waits of a run's branches: in place while another branch works; when all branches wait, the run is parked.

A branch that reaches a gate, a long sleep or a waiting child run waits here. When every branch of the run
waits, the run is parked: a control signal unwinds its function, its driver releases it, and this process
keeps only an entry in the follower, which continues the run when the log shows that it can.

    branch ──gate──▶ wait ─┬─ decided, or its time has come ─▶ continues in place
                           └─ no branch of the run is busy ──▶ Parked: unwinds, is released, is replayed
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.engine.execution.control import Control
from holdfast.errors import RunWaiting

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution
    from holdfast.kernel.events import Waits

IN_PLACE_S = 1.0
"""A wait this short is waited for in place: to replay a run would cost about as much."""
_GRACE_S = 1.0
"""How long an async run with several tasks must begin no step before it is parked: what its tasks do between
two steps cannot be observed."""
_LOOK_S = 60.0
"""The wall clock may jump: it is asked again."""


class Parked(Control):
    """Every branch waits. `until` is when the first wait ends (microseconds, 0 for never); `waits` is the
    status of the run if it waits only for child runs; `gates` are those that were open."""

    yields = True

    def __init__(self, run_id: str, until: int, waits: Waits = "", gates: Sequence[str] = ()) -> None:
        super().__init__(RunWaiting(run_id, "for a decision, a signal or a time"))
        self.until = until
        self.waits = waits
        self.gates = gates


class Wait(NamedTuple):
    """The wait of one branch."""

    until: int
    """Microseconds of the wall clock; 0 for ever."""
    is_over: Callable[[], bool]
    child: Waits = ""
    """How a child run waits, if this is for one."""


class Crew(Protocol):
    """Threads that work for a run, `parallel`'s."""

    @property
    def beginnings(self) -> int:
        """How many items have a thread and have not begun yet."""
        ...

    @property
    def caller_is_busy(self) -> bool:
        """Whether the thread that waits for them counts as busy again."""
        ...


class Waiting:
    """Counts the busy threads of a run, and keeps the waits of its branches. One per run that waits or has
    threads."""

    def __init__(self, run: Execution) -> None:
        self._run = run
        self._changed = threading.Condition()
        self._waits: list[Wait] = []
        self._busy = 1
        """Threads that do something for this run; of an async one, its loop is not counted."""
        self._crews: list[Crew] = []
        run.on_stop.append(self.notify)
        run.inbox.on_message.append(self.notify)

    def notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # Threads

    def begin(self) -> None:
        with self._changed:
            self._busy += 1

    def end(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    @contextmanager
    def for_crew(self, crew: Crew) -> Iterator[None]:
        """Inside, this thread does not count as busy: it waits for the crew, whose threads count."""
        with self._changed:
            self._crews.append(crew)
        self.end()
        try:
            yield
        finally:
            if not crew.caller_is_busy:
                self.begin()
            with self._changed:
                self._crews.remove(crew)

    def wait(self, wait: Wait) -> None:
        """Return when the wait is over or its time is reached. Raises the signal that stops the run, also
        `Parked`."""
        run, clock = self._run, self._run.engine.clock
        run.engine.follower.ensure()
        with self._changed:
            self._waits.append(wait)
            self._busy -= 1
            try:
                while run.control is None and not wait.is_over():
                    left = clock.wait(wait.until) if wait.until else _LOOK_S
                    if left <= 0:
                        break
                    if self._is_idle():
                        self._park_unless_soon()
                    if run.control is None:
                        self._changed.wait(min(left, _LOOK_S))
            finally:
                self._busy += 1
                self._waits.remove(wait)
        if run.control is not None:
            raise run.control

    def _is_idle(self) -> bool:
        return self._busy == 0 and not any(crew.beginnings for crew in self._crews)

    # Tasks

    async def wait_async(self, wait: Wait) -> None:
        """The same in an event loop."""
        import asyncio

        from holdfast.engine.execution.wakeup import WakeUp

        run, clock, tasks = self._run, self._run.engine.clock, self._run.tasks_delivery
        assert tasks is not None
        run.engine.follower.ensure()
        wake_up = WakeUp(asyncio.get_running_loop())
        self._waits.append(wait)
        run.on_stop.append(wake_up.set)
        run.inbox.on_message.append(wake_up.set)
        try:
            while run.control is None and not wait.is_over():
                left = clock.wait(wait.until) if wait.until else _LOOK_S
                if left <= 0:
                    break
                if not tasks.tasks and not run.under_way:
                    self._park_unless_soon()
                if run.stopping.is_set():
                    break
                seen = run.steps_begun
                rung = await wake_up.wait(min(left, _GRACE_S))
                if not rung and not run.under_way and run.steps_begun == seen:
                    self._park_unless_soon()
        finally:
            self._waits.remove(wait)
            run.on_stop.remove(wake_up.set)
            run.inbox.on_message.remove(wake_up.set)
        if run.control is not None:
            raise run.control

    # Parking

    def _park_unless_soon(self) -> None:
        run = self._run
        if run.over or (run.tasks_delivery is not None and run.tasks_delivery.is_busy()):
            return
        gates = run.inbox.open_gates()  # first: what is decided from here on shows when the run is released
        if any(wait.is_over() for wait in self._waits):
            return
        dues = [wait.until for wait in self._waits if wait.until]
        until = min(dues, default=0)
        if until and run.engine.clock.wait(until) <= IN_PLACE_S:
            return
        own = any(not wait.child for wait in self._waits)
        waiting = any(wait.child == "waiting" for wait in self._waits)
        waits: Waits = "" if own else "waiting" if waiting else "sleeping"
        run.stop(Parked(run.id, until, waits, gates))
