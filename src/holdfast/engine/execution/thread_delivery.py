"""Delivery to the threads of a `def` run.

Alone, a workflow's function asks for one outcome after the other, and nothing needs an order. In
`parallel`, the branches take turns: one of them runs the workflow's own code at a time, from one call to
its next, while the bodies of steps run side by side. So a list that the branches share has the same order
in every replay, and needs no lock.

    branch begins ─▶ runnable ─┐
    outcome delivered ─────────┴▶ holds the turn ─▶ makes a call, or ends ─▶ gives the turn up

A branch that blocks where holdfast cannot see it (a lock, a blocking queue, I/O of its own) loses its turn:
the others continue without it. Which of them gets a lock next is for the system to decide, and the log does
not have it. If a replay gets another order than the run had, and cannot continue with it, it begins again;
nothing of it has run. It has learned by then which branch came too early, and to which recorded call it must
leave the way (`blocking_order`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from holdfast.engine.execution import delivery as patience
from holdfast.engine.execution.blocking_order import BlockingOrder
from holdfast.engine.execution.delivery import Delivery, Turn
from holdfast.engine.execution.parking import Parked
from holdfast.kernel.state import GATES
from holdfast.package import ROOT

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution

_LOOK_FIRST_S = 0.002
_LOOK_LATER_S = 0.1
_BLOCKED_S = 0.015
"""A thread that has not run for so long, while no other thread of the process does, is blocked ..."""
_BUSY_S = 0.25
"""... and for so long while others do: it may wait for the interpreter only."""
_POLLING_S = 2.0
"""One that runs now and then, and is at the same place for so long while nothing else computes, is, too."""
_OUT_OF_ORDER_S = 0.1
"""When a branch is blocked, and the next outcome is not asked for: the others get theirs after so long."""
_KEPT_BACK_S = 0.5
"""The same when one is kept back for a call that does not come."""
_AGAIN_S = 1.0
"""When a branch is blocked, and the others wait at the barrier: the replay begins again after so long."""
_ENGINE = f"{ROOT}{os.sep}"
_LIBRARY = str(Path(threading.__file__).parent)


class ThreadTurn(Turn):
    """A turn that a thread waits for: to run the code after an outcome, or from the beginning of a branch."""

    __slots__ = ("_cpu", "_go", "_place", "_place_since", "_seen", "_since", "native", "thread")

    def __init__(self, key: str = "", *, ready: bool = False) -> None:
        super().__init__(key, ready=ready)
        self.thread = self.native = 0
        self._place: tuple[int, int] | None = None
        """Where its thread was at the last look."""
        self._seen: int | None = None
        """How often it had run by then."""
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
        """Whether its thread waits in code that is not holdfast's, and has not run since the last look. A
        busy machine is no reason to think so."""
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
        """Whether the process has computed little since the thread came to its place."""
        return time.process_time() - self._cpu < (now - self._place_since) / 5

    def _stands_still(self, frame: FrameType, now: float) -> bool:
        """The same where the system cannot be asked: only a wait that Python itself shows counts."""
        if frame.f_code.co_filename != threading.__file__:
            return False
        return now - self._place_since > (_BLOCKED_S if self._is_idle(now) else _BUSY_S)


class ThreadDelivery(Delivery):
    """Of a `def` run. Thread-safe."""

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
        self._last: dict[int, str] = {}
        """What each thread received last: a recorded outcome, or the turn in which its branch began."""
        self._have_blocked: set[int] = set()
        """The threads that were blocked at some time."""
        self.again = False
        """Whether this replay was stopped so that the next one takes another order."""
        self._judges = False
        """Whether all threads wait, and one of them has found that no call comes which is recorded."""
        self._order_of = f"{run.id} played back" if run.plays_back else run.id
        order = run.engine.blocking_orders.get(self._order_of)
        self._order = BlockingOrder() if order is None else order
        if self._order and not self._loose_left:
            self._expected = self._order.arranged(self._expected)
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
            if not self._runnable and self.is_next(key) and not self._must_wait(key):
                self.take(key)
                self._last[threading.get_ident()] = key
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
        """The one thread that there is asks for an outcome: one that comes before it will never be asked for.
        Keys of the user's choice and gates stand outside the order."""
        step = self.run.state.steps[key]
        if not step.ordinal or step.kind in GATES or not self.is_pending(key):
            return
        while (head := self._head()) not in ("", key) and not self._loose_left:
            if not self._is_empty(head):
                self.run.diverge(f"{head} next", f"{key} instead", head)
            self._pending.discard(head)

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
        """The one thread that there is makes a new call: whatever it has not asked for, it never will."""
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
        """Before something that takes time: another branch may run its code."""
        with self._lock:
            self._leave()

    def receive(self, turn: ThreadTurn) -> None:
        """Return when the outcome, which is on the disk, is delivered."""
        with self._lock:
            turn.ready = True
            self._dispatch()
        self._wait(turn)

    def rejoin(self) -> None:
        """This thread is to run code again; nothing if it has the turn."""
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
            self._last[turn.thread] = turn.key
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
                self._last.clear()
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

    # ClaimLocks

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
        found = self._first_runnable()
        if found is not None:
            self._hand(found)
            self._runnable.remove(found)
        elif not self._order or not self.replaying:
            self._hand(self.next(at_rest=True))
        elif not self._must_wait(self._head()) and (not self._runnable or self._head() in self._asked):
            self._hand(self.next(at_rest=not self._runnable))

    def _hand(self, turn: Turn | None) -> None:
        if turn is not None:
            assert isinstance(turn, ThreadTurn)
            self._holder = turn
            turn.deliver()

    def _first_runnable(self) -> ThreadTurn | None:
        if not self._order or not self.replaying:
            return self._runnable[0] if self._runnable else None
        return next((turn for turn in self._runnable if not self._must_wait(turn.key)), None)

    def _must_wait(self, name: str) -> bool:
        """Whether a branch is to be kept back until another one has made its recorded call."""
        first = self._order.before(name)
        return first in self._pending or first in self.unvisited

    def look(self) -> None:
        """Called by a thread that has waited for a while: the one that has the turn may be blocked."""
        with self._lock:
            holder = self._holder
            if holder is not None and holder.is_blocked():
                self._blocked.add(holder)
                self._have_blocked.add(holder.thread)
                self._holder = None
            self._dispatch()
            if self._holder is None and self.replaying and self.run.control is None:
                self._lose_patience()

    def _lose_patience(self) -> None:
        now = time.monotonic()
        if self._stuck_at != self.progress:
            self._stuck_at, self._stuck_since = self.progress, now
        stuck = now - self._stuck_since
        kept_back = bool(self._order) and (bool(self._runnable) or self._must_wait(self._head()))
        if stuck > (_KEPT_BACK_S if kept_back else _OUT_OF_ORDER_S) and (found := self._out_of_order()):
            self._hand(found)
        elif self._barrier and self._blocked and stuck > _AGAIN_S and self._is_overtaken():
            pass
        elif stuck > patience.PATIENCE_S:
            self._give_up(self._head())
            self._dispatch()

    def _out_of_order(self) -> ThreadTurn | None:
        """Nothing comes next: a branch that was kept back, or an outcome that is asked for too early."""
        if self._runnable:
            return self._runnable.popleft()
        first = next((key for key in self._expected if key in self._asked), "")
        if not first:
            return None
        found = self._asked[first]
        assert isinstance(found, ThreadTurn)
        if first != self._head():
            self._learn([found.thread])
        self.take(first)
        return found

    def blocked(self) -> int:
        """How many threads have lost their turn, and stand still where they were blocked."""
        with self._lock:
            return sum(turn.is_blocked() for turn in self._blocked)

    def blocked_at(self) -> list[str]:
        """The lines where they wait."""
        with self._lock:
            return [place for turn in self._blocked if (place := _place(turn.thread))]

    # Another order than the run had

    def begins_again(self) -> bool:
        """Called where the code is at odds with the history: whether that may be because threads that block
        each other came in another order. Then the replay is stopped, and begins again."""
        with self._lock:
            if not self._have_blocked or not self.replaying or self.run.control is not None:
                return False
            self._learn([turn.thread for turn in self._barrier] if self._judges else [threading.get_ident()])
            return self._order.has_learned and self._begin_again()

    def _diverge(self, key: str) -> None:
        self._judges = True
        super()._diverge(key)

    def _is_overtaken(self) -> bool:
        """A branch waits at the barrier, and may have what the blocked one waits for."""
        self._learn([turn.thread for turn in self._barrier])
        return self._begin_again()

    def _learn(self, threads: list[int]) -> None:
        """These threads are too early. If some of them were blocked, it is they who got a lock."""
        head = self._head() or next(iter(self.unvisited), "")
        late = [one for one in threads if one in self._have_blocked] or threads
        for one in late:
            self._order.learn(self._last.get(one, ""), head)

    def _begin_again(self) -> bool:
        """Let the run go, as one that waits, and so have it replayed once more; False if that was tried often
        enough."""
        run = self.run
        if not self._order.tries_again():
            run.engine.blocking_orders.pop(self._order_of, None)
            return False
        run.engine.blocking_orders[self._order_of] = self._order
        self.again = True
        run.stop(Parked(run.id, run.engine.clock.now_us()))
        return True

    def _end_replay(self) -> None:
        super()._end_replay()
        self.run.engine.blocking_orders.pop(self._order_of, None)

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
        return keys, self.blocked_at()


_RUNS = -1


def _waits_of(native: int) -> int | None:
    """How often the thread has given up its processor to wait, as the system counts it. `_RUNS` if it runs,
    or wants to; None where it cannot be asked."""
    try:
        status = Path(f"/proc/self/task/{native}/status").read_bytes()
        if status.partition(b"\nState:\t")[2][:1] == b"R":
            return _RUNS
        return int(status.partition(b"\nvoluntary_ctxt_switches:\t")[2].partition(b"\n")[0])
    except (OSError, ValueError):
        return None


def _others_run(native: int) -> bool:
    """Whether a thread of the process runs, or wants to, but this one and the one that asks."""
    threads = {int(one.name) for one in Path("/proc/self/task").iterdir()}
    return any(_waits_of(one) == _RUNS for one in threads - {native, threading.get_native_id()})


def _is_in_engine(frame: FrameType | None) -> bool:
    """Whether holdfast is at work there, itself or by a module of Python's."""
    while frame is not None and _is_pythons(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_ENGINE)


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
