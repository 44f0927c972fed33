"""Following runs that other processes execute: one thread polls the store for all of them.

A handle that is attached never executes its run, and ends when the log has the run's end. The pulse of the
store says when to look; whether a run has ended is always asked of the store.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution.call import Outcome
from holdfast.engine.outside.unknown_run import missing
from holdfast.engine.runs.ending import ended, failed_at
from holdfast.engine.runs.run import Run, own_frames
from holdfast.errors import RunWaiting, StoreClosed
from holdfast.kernel.evolve import fold
from holdfast.kernel.state import ENDED

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

_POLL_S = 0.02
_CLOSED = "the Holdfast that followed it was closed; open another one, and attach to the run again"


class AttachedRun(Run[Any]):
    """A run that is followed and not executed here."""

    def _left(self, error: KeyboardInterrupt) -> BaseException:
        """Ctrl-C ends the waiting, and not the run."""
        error.__traceback__ = own_frames(error.__traceback__)
        error.add_note(f"holdfast: run {self.id} was only followed here; Ctrl-C does not stop it")
        return error


class Attaching:
    """The attached runs of an engine. Thread-safe. Costs nothing until there is one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._waiting: list[AttachedRun] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def attach(self, run_id: str) -> AttachedRun:
        """A handle on the run. What keeps it from being followed, `result()` and `await` raise."""
        run = AttachedRun(self._engine, run_id)
        with self._lock:
            if self._closed:
                raise StoreClosed("this Holdfast is closed; open another one")
            self._waiting.append(run)
            if self._thread is None:
                thread = threading.Thread(target=self._poll, name="holdfast-attach", daemon=True)
                try:
                    thread.start()
                except BaseException:
                    self._waiting.remove(run)
                    raise
                self._thread = thread
        self._wake.set()
        return run

    def close(self) -> None:
        """End the waiting: the handles of runs that have not ended raise `RunWaiting`."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._finish_all()

    # The thread

    def _poll(self) -> None:
        """Until no attached run is left; the next one starts another thread."""
        pulse: int | None = None
        while True:
            with self._lock:
                if self._closed or not self._waiting:
                    self._thread = None
                    return
            fresh = self._wake.is_set()
            if fresh:  # not otherwise: what is set in between must wake it
                self._wake.clear()
            try:
                now = self._engine.store.pulse()
                if fresh or now != pulse:
                    pulse = now
                    self._look()
            except Exception as error:  # the store cannot be read: nothing is known about any of them
                self._finish_all(error)
            self._wake.wait(_POLL_S)

    def _look(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for run in waiting:
            row = self._engine.store.run(run.id)
            if row is None or row.status in ENDED:
                self._finish(run)

    def _finish(self, run: AttachedRun) -> None:
        at = 0
        try:
            state = fold(self._engine.store.history(run.id))
            if state is None:
                raise missing(self._engine.store, run.id)
            if not state.ended:
                return  # it was resumed in between
            outcome, at = ended(self._engine, run.id, state), failed_at(state)
        except Exception as error:  # its code is missing, or would mix with that of this process
            outcome = Outcome(None, error)
        with self._lock:
            self._waiting.remove(run)
        run.finish(outcome, at)

    def _finish_all(self, error: Exception | None = None) -> None:
        with self._lock:
            left, self._waiting = self._waiting, []
        for run in left:
            run.finish(Outcome(None, error or RunWaiting(run.id, _CLOSED)))
