"""Delivery to the threads of a `def` run.

Alone, a workflow's function asks for one outcome after the other, and nothing needs an order. In
`parallel`, the branches take turns: one of them runs the workflow's own code at a time, from one call to
its next, while the bodies of steps run side by side. So a list that the branches share has the same order
in every replay, and needs no lock.

    branch begins ─▶ runnable ─┐
    outcome delivered ─────────┴▶ holds the turn ─▶ makes a call, or ends ─▶ gives the turn up

A branch that blocks where holdfast cannot see it (a lock, a blocking queue, I/O of its own) loses its turn:
the others continue without it. The order among branches that block each other is not the log's to decide: if
a replay gets another one, and a branch waits at the barrier for a branch that waits for its lock, the replay
begins again. Nothing of it has run.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution import delivery as delivery_rules
from holdfast.engine.execution.delivery import Delivery, Turn
from holdfast.engine.execution.parking import Parked
from holdfast.kernel.state import GATES
from holdfast.package import ROOT

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution

_LOOK_FIRST_S = 0.002
_LOOK_LATER_S = 0.1
_BLOCKED_S = 0.015
"""A thread that has not run for so long, while no other thread of the process does, is blocked."""
_BUSY_S = 0.25
"""The same while others run: for a shorter time it may wait for the interpreter only."""
_POLLING_S = 2.0
"""A thread that runs now and then, and is at the same place for so long in a process that is idle, polls."""
_OUT_OF_ORDER_S = 0.1
"""When a branch is blocked, and the next outcome is not asked for: the others get theirs after so long."""
_AGAIN_S = 1.0
"""When a branch is blocked, and the others wait at the barrier: the replay begins again after so long ..."""
_AGAIN = 10
"""... so many times, before patience is all that is left."""
_ENGINE = f"{ROOT}{os.sep}"
_LIBRARY = f"{Path(threading.__file__).parent}{os.sep}"


class ThreadTurn(Turn):
    """A turn that a thread waits for: to run the code after an outcome, or from the beginning of a branch."""

    __slots__ = ("_cpu", "_go", "_place", "_place_since", "_seen", "_since", "native", "thread")

    def __init__(self, key: str = "", *, ready: bool = False) -> None:
        super().__init__(key, ready=ready)
        self.thread = self.native = 0
        self._place: tuple[int, int] | None = None
        """The place in the code where its thread was at the last check."""
        self._seen: int | None = None
        """How often its thread had waited by then, see `_waits_of`."""
        self._place_since = self._since = self._cpu = 0.0
        self._go = threading.Lock()
        self._go.acquire()

    def deliver(self) -> None:
        if not self.delivered:
            self.delivered = True
            self._go.release()

    def wait(self, seconds: float) -> bool:
        """Whether it is delivered within so many seconds."""
        return self.delivered or self._go.acquire(timeout=seconds)

    def is_blocked(self) -> bool:
        """Whether its thread waits in code that is not holdfast's, and has not run since the last check. A
        thread that only waits for a busy processor does not count."""
        frame = sys._current_frames().get(self.thread)
        if frame is None or _is_in_engine(frame):
            return False
        now, place, seen = time.monotonic(), (id(frame), frame.f_lasti), _waits_of(self.native)
        if place != self._place:
            self._place, self._place_since, self._cpu = place, now, time.process_time()
        elif seen is None:
            return self._stands_still(frame, now)
        elif seen == self._seen != _RUNS:
            idle = now - self._since
            return idle > _BUSY_S or (idle > _BLOCKED_S and not _others_run(self.native))
        elif seen != _RUNS and now - self._place_since > _POLLING_S:
            if self._is_idle(now) and not _others_run(self.native):
                return True
            self._place_since, self._cpu = now, time.process_time()
        self._seen, self._since = seen, now
        return False

    def _is_idle(self, now: float) -> bool:
        """Whether the process has used little processor time since the thread reached its place."""
        return time.process_time() - self._cpu < (now - self._place_since) / 5

    def _stands_still(self, frame: FrameType, now: float) -> bool:
        """The same where the system does not say how often a thread runs: a wait that Python shows counts
        sooner than one that follows only from an idle process."""
        stood, waits = now - self._place_since, frame.f_code.co_filename == threading.__file__
        if stood <= _BUSY_S:
            return waits and stood > _BLOCKED_S and self._is_idle(now)
        if waits or self._is_idle(now):
            return True
        self._place_since, self._cpu = now, time.process_time()
        return False


class ThreadDelivery(Delivery):
    """The delivery of a `def` run. Thread-safe."""

    def __init__(self, run: Execution) -> None:
        super().__init__(run)
        self.crews = 0
        """How many `parallel` are under way: with none, one thread runs all of the code."""
        self._lock = threading.RLock()
        self._holder: ThreadTurn | None = None
        self._runnable: deque[ThreadTurn] = deque()
        self._mine: dict[int, ThreadTurn] = {}
        """The last turn of each thread."""
        self._blocked: set[ThreadTurn] = set()
        self._barrier: dict[ThreadTurn, str] = {}
        self._stuck_since = 0.0
        self._stuck_at = -1
        self._wakes = False

    # Calls

    def turn(self, key: str) -> ThreadTurn | None:
        return ThreadTurn(key) if self.crews else None

    def replayed_here(self, key: str) -> None:
        """Return when the recorded outcome is delivered."""
        if not self.crews:
            if not self.take_first(key):
                self._check_next(key)
                self.take(key)
            return
        with self._lock:
            if not self.is_pending(key):
                return
            if not self._runnable and self.is_next(key):
                self.take(key)
                return
            turn = ThreadTurn(key, ready=True)
            self.ask(turn)
            self._leave()
        self._wait(turn)

    def hold(self, key: str) -> ThreadTurn | None:
        """Ask for a recorded outcome that is not at hand yet, and give up the turn; None if there is no other
        branch that could take it."""
        if not self.crews or not self.replaying:
            return None
        with self._lock:
            if not self.is_pending(key):
                return None
            turn = ThreadTurn(key)
            self.ask(turn)
            self._leave()
        return turn

    def _check_next(self, key: str) -> None:
        """The only thread asks for an outcome, so it will never ask for an earlier one. Keys of the user's
        choice and gates have no order."""
        if self._has_order(key) and self.is_pending(key):
            self._pass_to({key: None})

    def _has_order(self, key: str) -> bool:
        step = self.run.state.steps[key]
        return bool(step.ordinal) and step.kind not in GATES

    def _pass_to(self, keys: dict[str, None]) -> None:
        """Advance to the first of these outcomes in the log. An outcome with an order before it is a
        divergence; one without may still be asked for."""
        while (head := self._head()) and head not in keys and not self._loose_left:
            if self._is_empty(head):
                self._pending.discard(head)
            elif self._has_order(head):
                self.run.diverge(f"{head} next", f"{next(iter(keys))} instead", head)
            else:
                self._expected.rotate(-1)

    def replayed_together(self, keys: Iterable[str]) -> None:
        """Take recorded outcomes that the only thread asks for together. Among each other they have no order;
        an outcome of another call between them will never be asked for."""
        left = {key: None for key in keys if self.is_pending(key)}
        for key in [key for key in left if not self._has_order(key)]:
            self.take(key)
            del left[key]
        while left:
            self._pass_to(left)
            key = next(iter(left)) if self._loose_left else self._head()
            self.take(key)
            del left[key]

    def barrier_here(self, key: str, name: str, digest: str) -> None:
        """Return when the whole history is delivered. A divergence is raised."""
        if not self.crews:
            self._replay_all()
        else:
            turn = ThreadTurn(key)
            with self._lock:
                if self.replaying:
                    self._barrier[turn] = key
                    self._leave()
                else:
                    turn.deliver()
            self._wait(turn)
        self.run.refuse_twin(key, name, digest)
        self.run.reach(key)

    def _replay_all(self) -> None:
        """The only thread makes a new call: it will never ask for an outcome that it has not asked for
        yet."""
        while self.replaying:
            key = self._head()
            if self._loose_left:
                self._next_loose()
            elif not key and not self.unvisited:
                self._end_replay()
            elif not self._give_up(key):
                assert self.run.control is not None
                raise self.run.control

    def leave(self) -> None:
        """Give up the turn before something that takes time, so that another branch can run its code."""
        with self._lock:
            self._leave()

    def receive(self, turn: ThreadTurn) -> None:
        """Return when the outcome, which is on the disk, is delivered."""
        with self._lock:
            turn.ready = True
            self._dispatch()
        self._wait(turn)

    def rejoin(self) -> None:
        """Return when this thread may run code again; at once if it has the turn."""
        with self._lock:
            if self.run.control is not None or self._holder is self._mine.get(threading.get_ident(), self):
                return
            turn = ThreadTurn(ready=True)
            self._runnable.append(turn)
            self._dispatch()
        self._wait(turn)

    @contextmanager
    def aside(self) -> Iterator[ThreadTurn | None]:
        """Around a wait for an outcome. In `parallel` it gives the turn for that outcome, which is to be
        placed inside, and returns when it is delivered."""
        if not self.crews:
            yield None
            return
        turn = ThreadTurn(ready=True)
        self.leave()
        try:
            yield turn
        except BaseException:
            self.rejoin()
            raise
        self.receive(turn)

    def _wait(self, turn: ThreadTurn) -> None:
        turn.thread, turn.native = threading.get_ident(), threading.get_native_id()
        delay = _LOOK_FIRST_S
        while not turn.wait(delay):
            delay = min(delay * 2, _LOOK_LATER_S)
            self.look()
        if turn not in self._barrier:
            self._mine[turn.thread] = turn
        else:
            with self._lock:
                del self._barrier[turn]
        if self.run.control is not None:
            raise self.run.control

    # Branches

    def enter_crew(self) -> None:
        with self._lock:
            if not self._wakes:
                self._wakes = True
                self.run.on_stop.append(self.stop)
            if not self.crews:
                self._holder = self._mine[threading.get_ident()] = ThreadTurn(ready=True)
                self._holder.thread, self._holder.native = threading.get_ident(), threading.get_native_id()
            self.crews += 1

    def leave_crew(self) -> None:
        with self._lock:
            self.crews -= 1
            if not self.crews:
                self._holder = None
                self._mine.clear()
                self._blocked.clear()

    def make_runnable(self, turn: ThreadTurn) -> None:
        """A branch begins, or a thread continues, when it has the turn."""
        with self._lock:
            self._runnable.append(turn)

    def begin(self, turn: ThreadTurn) -> None:
        """Return when the branch of this thread has the turn."""
        with self._lock:
            self._dispatch()
        self._wait(turn)

    # Turns

    def _leave(self) -> None:
        mine = self._mine.get(threading.get_ident())
        if mine is not None:
            self._blocked.discard(mine)
            if self._holder is mine:
                self._holder = None
        self._dispatch()

    def _dispatch(self) -> None:
        """Give the turn, if it is free, to a branch that can run at once, or else to the next outcome."""
        if self._holder is not None:
            return
        if self.run.control is not None:
            self.stop()
            return
        found: Turn | None = self._runnable[0] if self._runnable else self.next(at_rest=True)
        if found is not None:
            assert isinstance(found, ThreadTurn)
            self._holder = found
            found.deliver()
            if self._runnable and self._runnable[0] is found:
                self._runnable.popleft()

    def look(self) -> None:
        """Called by a thread that has waited for a while: the one that has the turn may be blocked."""
        with self._lock:
            holder = self._holder
            if holder is not None and holder.is_blocked():
                self._blocked.add(holder)
                self._holder = None
            self._dispatch()
            if self._holder is None and self.replaying and self.run.control is None:
                self._lose_patience()

    def _lose_patience(self) -> None:
        now = time.monotonic()
        if self._stuck_at != self.progress:
            self._stuck_at, self._stuck_since = self.progress, now
        stuck = now - self._stuck_since
        if self._asked and stuck > _OUT_OF_ORDER_S:
            first = next(key for key in self._expected if key in self._asked)
            found = self._asked[first]
            assert isinstance(found, ThreadTurn)
            self.take(first)
            self._holder = found
            found.deliver()
        elif self._barrier and self._blocked and stuck > _AGAIN_S and self._may_begin_again():
            self.run.stop(Parked(self.run.id, self.run.engine.clock.now_us()))
        elif stuck > delivery_rules.PATIENCE_S:
            self._give_up(self._head())
            self._dispatch()

    def _may_begin_again(self) -> bool:
        """Whether to release the run as one that waits, so that it is replayed again."""
        tries = self.run.engine.replays
        tries[self.run.id] += 1
        return tries[self.run.id] <= _AGAIN and not self.run.plays_back

    def _end_replay(self) -> None:
        super()._end_replay()
        self.run.engine.replays.pop(self.run.id, None)

    def stop(self) -> None:
        """The run is stopped: wake all that wait. From any thread."""
        with self._lock:
            waiting = (*self._runnable, *self._asked.values(), *self._placed, *self._barrier)
            for turn in (*waiting, self.handing, self._holder):
                if turn is not None:
                    turn.deliver()

    # Of this colour

    def _lift(self) -> None:
        for turn in self._barrier:
            turn.deliver()

    def _is_certain(self) -> bool:
        return not self._blocked

    def _watch(self) -> None:
        """The threads that wait look again by themselves."""

    def _waits(self) -> tuple[list[str], list[str]]:
        keys = [*dict.fromkeys((*self._barrier.values(), *self._asked))]
        return keys, [place for turn in self._blocked if (place := _place(turn.thread))]


_RUNS = -1


def _waits_of(native: int) -> int | None:
    """How often the thread has given up its processor to wait, as the system counts it. `_RUNS` if it runs,
    or wants to, or waits for the disk, which no other thread can end; None where it cannot be asked."""
    try:
        status = Path(f"/proc/self/task/{native}/status").read_bytes()
        if status.partition(b"\nState:\t")[2][:1] in (b"R", b"D"):
            return _RUNS
        return int(status.partition(b"\nvoluntary_ctxt_switches:\t")[2].partition(b"\n")[0])
    except (OSError, ValueError):
        return None


def _others_run(native: int) -> bool:
    """Whether a thread of the process runs, or wants to, but this one and the one that asks."""
    threads = {int(one.name) for one in Path("/proc/self/task").iterdir()}
    return any(_waits_of(one) == _RUNS for one in threads - {native, threading.get_native_id()})


def call_branch(branch: Callable[[Any], Any], item: Any) -> Any:
    """Call the function of a branch. This frame marks where its code begins, which may be a function of the
    standard library, such as `subprocess.check_call`."""
    return branch(item)


def _is_in_engine(frame: FrameType | None) -> bool:
    """Whether code of holdfast runs there, directly or through the standard library."""
    while frame is not None and _is_pythons(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or frame.f_code is call_branch.__code__:
        return False
    return frame.f_code.co_filename.startswith(_ENGINE)


def _is_pythons(file: str) -> bool:
    return file.startswith("<frozen ") or (file.startswith(_LIBRARY) and "-packages" not in file)


def _place(thread: int) -> str:
    """The innermost line of the thread that is neither Python's nor holdfast's."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_ENGINE) and file != threading.__file__:
            return f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
