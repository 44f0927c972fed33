"""Serving a store: continue every run that can, until it is stopped.

Parked runs whose gate was decided or whose time has come, and those whose owner died. Any number of
processes may serve one store: who claims a run first has it. Commands are executed here. The code of
workflows is executed `elsewhere`, if that is given: by processes that have the modules of one directory each.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.runs import recovery
from holdfast.engine.runs.run import Run
from holdfast.errors import (
    EndedElsewhere,
    OwnershipLost,
    RunHeld,
    RunInterrupted,
    RunWaiting,
    StoreClosed,
    StoreError,
)
from holdfast.kernel import events as e
from holdfast.kernel.state import OPEN

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.store.port import OwnerRow, RunRow

_POLL_S = 0.02
_ORPHANS_EVERY_S = 1.0
_SOON_AGAIN_S = 1.0
"""After a fault of the store, and when the process that executed it was killed."""
_REFUSED_AGAIN_S = 30.0
_LONGEST_AGAIN_S = 3600.0
"""Each attempt that was claimed, and came no further than the one before, doubles the wait up to this: it
writes to the log."""
_NO_PROGRESS = frozenset({"RunClaimed", "RunReleased", "FilesSaved"})
"""The events of an attempt that came no further than the one before."""
_NO_NEWS = (RunHeld, OwnershipLost, StoreClosed)
"""Errors that are not reported: another process has the run, or this process stops."""

OnServed = Callable[[str, BaseException | None], None]
"""(run id, why it did not come to its end here or None), each time that a run was served."""
OnTaken = Callable[["RunRow", "OwnerRow | None"], None]
"""(the run as it was before, who held it then or None), each time that this process has claimed a run."""


Elsewhere = Callable[[str, e.Code], BaseException | None]
"""Executes a run, by its id and its code, in another process; what kept it from its end, if anything did."""


class _Refusal(NamedTuple):
    """Why a run, as it was at this version, could not be executed, and when to try again all the same: its
    code may be back, the disk may have room."""

    version: int
    why: str
    again_at: float
    repeated: int = 0
    """How many claimed attempts before this one were refused alike."""


class Service:
    """At most `limit` runs at a time; those that wait do not count."""

    def __init__(
        self,
        engine: Engine,
        limit: int,
        on_served: OnServed | None = None,
        elsewhere: Elsewhere | None = None,
        on_taken: OnTaken | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._engine = engine
        self._limit = limit
        self._on_served = on_served
        self._on_taken = on_taken
        self._lock = threading.Lock()
        self._active: set[str] = set()
        self._refused: dict[str, _Refusal] = {}
        """Runs that could not be executed: until they have changed there is little point in it."""
        self._orphans_due = 0.0
        self._pulse: int | None = None
        self._due = 0
        self._again_at = math.inf
        """When the first of the refused runs that were passed over is tried again: nothing else may happen
        by then."""
        self._stopped = False
        self.served = 0

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set. What continues then is not waited for."""
        while not stop.is_set():
            self._look()
            stop.wait(_POLL_S)

    def drain(self, stop: threading.Event) -> None:
        """Serve what can continue now, and return when nothing is left that can, or `stop` is set."""
        while not stop.is_set():
            self._look()
            with self._lock:
                if not self._active and self._pulse is not None and self._orphans_due > 0.0:
                    return
            stop.wait(_POLL_S)

    def end(self, why: str) -> None:
        """Stop the runs that are executed here at their next step boundary, and wait until every run that was
        begun is left. What is executed `elsewhere` must have been stopped before."""
        self._stopped = True
        while True:
            with self._lock:
                active = list(self._active)
            if not active:
                return
            for run_id in active:  # each time: one may have been claimed only now
                live = self._engine.live.get(run_id)
                if live is not None:
                    live[0].interrupt(why)
            time.sleep(_POLL_S)

    def _look(self) -> None:
        engine = self._engine
        now = engine.clock.now_us()
        found: list[str] = []
        if engine.clock.monotonic() >= self._orphans_due:
            self._orphans_due = engine.clock.monotonic() + _ORPHANS_EVERY_S
            found += recovery.orphans(engine)
        pulse = engine.store.pulse()
        again = engine.clock.monotonic() >= self._again_at
        if again or pulse != self._pulse or 0 < self._due <= now:
            self._pulse, self._again_at = pulse, math.inf
            found += recovery.ready(engine)
            self._due = engine.store.next_due(now)
        for run_id in dict.fromkeys(found):
            row = self._news(run_id)
            if row is not None and not self._serve(row):
                self._pulse, self._orphans_due = None, 0.0  # no room now: look again
                return

    def _news(self, run_id: str) -> RunRow | None:
        """The run, if it can be continued and was not refused as it is."""
        if run_id in self._engine.live:
            return None
        row = self._engine.store.run(run_id)
        if row is None or row.status not in OPEN:
            return None
        refusal = self._refused.get(run_id)
        if refusal is None or refusal.version != row.version:
            return row
        if self._engine.clock.monotonic() >= refusal.again_at:
            return row
        self._again_at = min(self._again_at, refusal.again_at)
        return None

    def _serve(self, row: RunRow) -> bool:
        """Begin with a run; False if there is no room for it now."""
        with self._lock:
            if row.id in self._active:
                return True
            if len(self._active) >= self._limit:
                return False
            self._active.add(row.id)
        thread = threading.Thread(target=self._go_on, args=(row,), name=f"serve-{row.id}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more: it is tried again like what finds no room
            with self._lock:
                self._active.discard(row.id)
            return False
        return True

    def _go_on(self, row: RunRow) -> None:
        """Execute the run to its end, or until it waits."""
        run_id = row.id
        error: BaseException | None = None
        try:
            recovery.check_unasked(self._engine, run_id)
            code = self._code(run_id)
            if self._elsewhere is not None and code is not None and not code.argv:
                error = self._elsewhere(run_id, code)
            else:
                run = take(self._engine, row, self._on_taken)
                run.rested.wait()
                error = run.outcome.error
        except BaseException as refused:  # whatever the run's code does: the place that it has here is free
            error = refused
        try:
            self._report(row, error)
        except StoreClosed:
            pass  # this process stops
        finally:
            with self._lock:
                self._active.discard(run_id)
                self._pulse = None

    def _code(self, run_id: str) -> e.Code | None:
        first = next(iter(self._engine.store.history(run_id)), None)
        return first.event.code if first is not None and isinstance(first.event, e.RunCreated) else None

    def _report(self, tried: RunRow, error: BaseException | None) -> None:
        if isinstance(error, _NO_NEWS):
            return
        if isinstance(error, RunInterrupted) and (self._stopped or self._engine.closing):
            return
        if error is not None and not isinstance(error, RunWaiting) and not self._refuse(tried, error):
            return  # it was reported
        self.served += 1
        if self._on_served is not None:
            self._on_served(tried.id, error)

    def _refuse(self, tried: RunRow, error: BaseException) -> bool:
        """Note when to try it again; whether there is something new to report."""
        known, row = self._refused.get(tried.id), self._engine.store.run(tried.id)
        claimed = row is not None and row.epoch != tried.epoch
        # As it was before, if it was not claimed: what others wrote to it meanwhile was not tried. Else as it
        # is now, with what was written of the attempt itself.
        version = row.version if row is not None and claimed else tried.version
        alike = known is not None and (known.version, known.why) == (tried.version, str(error))
        alike = alike and not (claimed and self._made_progress(tried))
        repeated = known.repeated + 1 if known is not None and alike and claimed else 0
        soon = isinstance(error, StoreError) or (isinstance(error, EndedElsewhere) and error.ended_with < 0)
        after_s = (_SOON_AGAIN_S if soon else _REFUSED_AGAIN_S) * 2.0 ** min(repeated, 20)
        # A fault of the store passes without a change to the run.
        longest = _REFUSED_AGAIN_S if isinstance(error, StoreError) else _LONGEST_AGAIN_S
        again_at = self._engine.clock.monotonic() + min(after_s, longest)
        self._refused[tried.id] = _Refusal(version, str(error), again_at, repeated)
        return not alike

    def _made_progress(self, tried: RunRow) -> bool:
        entries = self._engine.store.entries(tried.id, after=tried.version)
        return any(entry.type not in _NO_PROGRESS for entry in entries)


def take(engine: Engine, row: RunRow, on_taken: OnTaken | None) -> Run[Any]:
    """Resume the run, and report who held it before: once it is claimed, a dead owner may be forgotten."""
    held = engine.store.owner(row.owner) if row.owner else None
    run: Run[Any] = engine.resume(row.id, stay=False)
    if on_taken is not None:
        on_taken(row, held)
    return run
