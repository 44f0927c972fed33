"""Writes the beginnings of steps and runs that take long to the log while they run.

The beginning of a fast step is a part of its result; that of a run may be written with its first step. If a
step or run takes more than a few milliseconds, this thread commits its beginning without waiting for the
disk, so that after a crash the log shows what was running. If runs take longer, it wakes the follower, which
delivers messages of other processes to them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from holdfast.store.port import Append

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.execution import Execution

_IDLE_TICKS = 40
_FOLLOW_TICKS = 20


class Beginning(Protocol):
    """A beginning that may not be in the log yet: a step's attempt, a run."""

    @property
    def execution(self) -> Execution: ...

    since: float
    """When it began, by the monotonic clock."""
    taken: bool
    """Whether the log has it, or will have it by another append."""

    @property
    def in_root(self) -> bool:
        """Whether it may change files of the workspace: not if it works in a copy."""
        ...

    def flush(self, done: Callable[[Append], None]) -> None:
        """Write it alone, without waiting for the disk, if no append has taken it."""
        ...


class Flusher:
    """`watch` and `unwatch` are on the path of every step: a dict entry each, no lock, no wake-up
    while the thread ticks anyway."""

    def __init__(self, engine: Engine, after_s: float) -> None:
        self._engine = engine
        self._after_s = after_s
        self._watched: dict[int, Beginning] = {}
        self._ticking = False
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def watch(self, one: Beginning) -> None:
        self._watched[id(one)] = one
        if not self._ticking:
            self._start()

    def unwatch(self, one: Beginning) -> None:
        self._watched.pop(id(one), None)

    def is_busy(self, run: Execution) -> bool:
        """Whether something of this run is at work on its files now."""
        return any(one.execution is run and one.in_root for one in list(self._watched.values()))

    def close(self) -> None:
        self._closing.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._report()

    def wake(self) -> None:
        """Tick for a while, whether anything is watched or not."""
        if not self._ticking:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="holdfast-flush", daemon=True)
                thread.start()
                self._thread = thread
            self._ticking = True
        self._wake.set()

    def _run(self) -> None:
        idle = ticks = 0
        while not self._closing.wait(self._after_s):
            ticks += 1
            follower = self._engine.follower
            if follower.is_missing or (ticks >= _FOLLOW_TICKS and self._engine.live):
                follower.ensure()
            if self._watched or self._has_noted():
                idle = 0
                self._tick()
            elif idle < _IDLE_TICKS:
                idle += 1
            else:
                self._rest()
                idle = ticks = 0

    def _rest(self) -> None:
        """Sleep until a step begins, the follower is missing, or this is closed. A step that begins meanwhile
        is seen by the check after `_ticking` is cleared."""
        self._wake.clear()
        self._ticking = False
        if self._watched or self._engine.follower.is_missing:
            self._ticking = True
        elif not self._closing.is_set():
            self._wake.wait()

    def _tick(self) -> None:
        self._report()
        now = self._engine.clock.monotonic()
        for one in list(self._watched.values()):
            if now - one.since >= self._after_s and not one.taken:
                self._flush(one)
            output = getattr(one, "output", None)  # of a step that prints
            if output is not None:
                output.tick()
            meter = getattr(one, "meter", None)  # of a step that has measured something
            if meter is not None:
                meter.tick()

    def _flush(self, one: Beginning) -> None:
        try:
            one.flush(self.outcome_for(one.execution))
        except Exception as error:  # a failed write for one run must not affect the others
            one.execution.lose(error)

    def outcome_for(self, run: Execution) -> Callable[[Append], None]:
        """The callback of an append of this run that no caller waits for: it is reported soon, or the run is
        lost, because nothing may be built on what was refused or failed."""
        return _Outcome(run, self._engine)

    def _report(self) -> None:
        if self._engine.event_callback is not None:
            self._engine.event_callback.report_noted()

    def _has_noted(self) -> bool:
        return self._engine.event_callback is not None and bool(self._engine.event_callback.noted)


class _Outcome:
    """Called in the committing thread: it must not wait for anything, least of all for a callback of the
    program."""

    __slots__ = ("_engine", "_run")

    def __init__(self, run: Execution, engine: Engine) -> None:
        self._run = run
        self._engine = engine

    def __call__(self, append: Append) -> None:
        if append.error is not None:
            self._run.lose(append.error)
        else:
            self._engine.note(append)
