"""Following the log: what others write about the runs of this process.

One thread, awake while there are runs to follow. It passes on to live runs what concerns them (a decision, a
signal, a cancel, a new owner), and continues parked ones when they can: nothing holds them up any more,
or their time has come. What can continue is asked of the store, never concluded from what was seen, so that
nothing can be missed; the pulse and the feed only say when to ask. And it releases the runs that could not
be released when their execution ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.inbox import MESSAGES
from holdfast.engine.outside import steering
from holdfast.engine.runs.claim import release_left
from holdfast.errors import Refused, Resync, StoreVanished
from holdfast.kernel import events as e
from holdfast.kernel.state import ENDED, HALTED
from holdfast.store.port import Entry, Recorded

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

_POLL_S = 0.02
_AGAIN_S = 1.0
_HALTS = ("RunPaused", "RunNeedsAttention", "Rewound", "GenerationRestored")
_TYPES = (*MESSAGES, *e.RUN_ENDS, *_HALTS, "RunReleased", "StreamDeleted")

logger = logging.getLogger("holdfast")


class Parking(NamedTuple):
    """A run of this process that waits for something."""

    until: int
    """When its time comes, in microseconds; 0 for never."""
    go: Callable[[], None]
    """Called once, when it can continue, has ended, or is stopped. Must not block."""


class Follower:
    """Thread-safe. Costs nothing until there is something to follow."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parked: dict[str, list[Parking]] = {}
        """Several handles may wait for one run."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._awake = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._cursor = ""
        self._pulse: int | None = None
        self._new: list[str] = []
        """Parked since the last look."""
        self._next = 0
        """When the time of the next parked run comes; 0 for never."""
        self._again = 0.0
        self.is_missing = False
        """It could not be started when it was wanted: the flusher asks for it again."""

    def ensure(self) -> None:
        """Be awake: there are runs to follow."""
        if self._awake:
            return
        with self._lock:
            if self._closed:
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="holdfast-follow", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads now
                    self.is_missing = True
                    self._engine.flusher.wake()
                    return
                self._thread, self.is_missing = thread, False
            self._awake = True
            self._wake.set()

    def park(self, run_id: str, parking: Parking) -> None:
        """Continue this run when it can."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._parked.setdefault(run_id, []).append(parking)
                self._new.append(run_id)
                if parking.until and not 0 < self._next <= parking.until:
                    self._next = parking.until
        if closed:
            parking.go()
            return
        self.ensure()
        self._wake.set()

    def forget(self, run_id: str, parking: Parking) -> None:
        """No caller waits for it here any more."""
        with self._lock:
            parkings = self._parked.get(run_id, [])
            if parking in parkings:
                parkings.remove(parking)
            if not parkings:
                self._parked.pop(run_id, None)

    def close(self) -> None:
        """Let every parked run go; waiters learn that no process follows it any more."""
        with self._lock:
            self._closed = True
            self._wake.set()
            left = [one for parkings in self._parked.values() for one in parkings]
            self._parked = {}
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        for parking in left:
            parking.go()

    # The thread

    def _run(self) -> None:
        while not self._closed:
            try:
                self._begin()
                while self._has_work():
                    self._look()
                    self._wake.wait(_POLL_S)
                    self._wake.clear()
            except StoreVanished as error:
                for execution, _ in list(self._engine.live.values()):
                    execution.lose(error)
                self._wake.wait(_AGAIN_S)
            except Exception:  # whatever it is, runs that can continue must not wait for ever
                logger.exception("following the log failed; trying again in a second")
                self._wake.wait(_AGAIN_S)
            self._rest()

    def _has_work(self) -> bool:
        return not self._closed and bool(self._parked or self._engine.live or self._engine.unreleased)

    def _rest(self) -> None:
        """Sleep until there is something to follow; what comes between these lines is seen by the second."""
        self._wake.clear()
        self._awake = False
        if not self._has_work() and not self._closed:
            self._wake.wait()
        self._awake = True

    def _begin(self) -> None:
        """Follow from now on; what was written to the live runs before is passed on first, and the parked
        ones are looked at: otherwise a message that came before a look failed would be lost."""
        store = self._engine.store
        self._cursor, self._pulse = store.tail(), None
        with self._lock:
            self._new = list(self._parked)
        for execution, _ in list(self._engine.live.values()):
            execution.introduced = False

    def _introduce(self) -> None:
        """Tell runs that are live since the last look what was written to them before that: the feed may
        have passed it, when they were not among the live ones yet."""
        for run_id, (execution, _) in list(self._engine.live.items()):
            if not execution.introduced:
                execution.introduced = True
                entries = self._engine.store.entries(run_id, after=execution.state.version)
                self._deliver(execution, [one for one in entries if one.type in MESSAGES])

    def _look(self) -> None:
        store = self._engine.store
        self._introduce()
        concerned = False
        if (pulse := store.pulse()) != self._pulse:
            self._pulse = pulse
            concerned = self._receive()
        with self._lock:
            new, self._new = self._new, []
        for run_id in new:
            self._check(run_id)
        now = self._engine.clock.now_us()
        if self._parked and (concerned or new or 0 < self._next <= now):
            self._go_on(now)
        if (self._parked or self._engine.unreleased) and self._engine.clock.monotonic() >= self._again:
            self._again = self._engine.clock.monotonic() + _AGAIN_S
            release_left(self._engine)
            if self._parked:
                self._go_on(now)
                self._look_for_dead()

    def _receive(self) -> bool:
        """Take in what the log has since the last look; whether parked runs, or descendants of theirs, are
        among what it is about. What others write about their own runs is no reason to look at all."""
        try:
            page = self._engine.store.feed(self._cursor, types=_TYPES)
        except Resync:  # the store was restored from a backup
            self._begin()
            return True
        self._cursor = page.cursor
        if page.entries:
            self._pulse = None  # there may be more
        received: dict[str, list[Entry]] = {}
        concerned = False
        for entry in page.entries:
            if entry.type == "StreamDeleted":
                deleted = e.decode(entry.type, entry.payload)
                if isinstance(deleted, e.StreamDeleted) and deleted.stream in self._parked:
                    self._check(deleted.stream)
            elif entry.stream in self._engine.live:
                received.setdefault(entry.stream, []).append(entry)
            elif entry.stream in self._parked:
                concerned = True
                self._engine.report_up_to(entry.stream, entry.version)
                self._check(entry.stream)
            elif self._parked and (holder := self._holder(entry.stream)):
                concerned = True
                if entry.type in e.RUN_ENDS:
                    self._go(holder)  # a child that another process brought to its end
                elif entry.type in _HALTS:
                    self._halt(holder, entry.stream)
        for run_id, entries in received.items():
            live = self._engine.live.get(run_id)
            if live is not None:
                self._deliver(live[0], entries)
        return concerned

    def _deliver(self, execution: Execution, entries: list[Entry]) -> None:
        recorded = [
            Recorded(e.decode(one.type, one.payload), one.version, one.at)
            for one in entries
            if one.type in MESSAGES and one.version > execution.claimed_at
        ]
        if recorded:
            execution.inbox.receive(recorded)
            self._engine.report_up_to(execution.id, recorded[-1].version)

    # Continuing

    def _go_on(self, now: int) -> None:
        """Continue what can: a parked run itself, or one whose child can."""
        for run_id, parent in self._engine.store.ready_runs(now):
            holder = run_id if run_id in self._parked else self._holder(parent)
            if holder:
                self._go(holder)
        if 0 < self._next <= now:
            with self._lock:
                times = [(one.until, run_id) for run_id, parkings in self._parked.items() for one in parkings]
                due = {run_id for until, run_id in times if 0 < until <= now}
                self._next = min((until for until, _ in times if until > now), default=0)
            for run_id in due:
                self._go(run_id)

    def _holder(self, run_id: str) -> str:
        """The nearest of the run and its ancestors that is parked here."""
        while run_id and run_id not in self._parked:
            run_id = "" if run_id in self._engine.live else self._engine.ancestry.parent(run_id)
        return run_id

    def _check(self, run_id: str) -> None:
        """A parked run that another process ended or stopped has nothing to wait for."""
        row = self._engine.store.run(run_id)
        if row is None or row.status in ENDED | HALTED:
            self._go(run_id)

    def _halt(self, run_id: str, child: str) -> None:
        """A run cannot continue whose child a person has halted by itself: it is paused, as it would be if it
        were executed now, and its waiters are notified."""
        store = self._engine.store
        row, halted = store.run(run_id), store.run(child)
        if row is None or row.owner or halted is None or halted.status not in HALTED:
            return
        if not store.strays([child]):
            what = "is paused" if halted.status == "paused" else "needs attention"
            try:
                steering.pause(self._engine, run_id, f"its child run {child} {what}", "", 0.0)
            except Refused:
                pass  # it has ended meanwhile

    def _look_for_dead(self) -> None:
        """Continue the runs that another process took, and did not live to bring to an end."""
        from holdfast.engine.runs.recovery import orphans

        for run_id in orphans(self._engine):
            self._go(run_id)

    def _go(self, run_id: str) -> None:
        with self._lock:
            parkings = self._parked.pop(run_id, ())
        for parking in parkings:
            parking.go()
