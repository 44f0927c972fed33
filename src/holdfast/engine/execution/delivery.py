"""Delivery: the code of a run receives its outcomes in the order of the log, one at a time.

An outcome is what the code waits for (see `kernel.history`). The next one is delivered only when the code
is at rest after the one before. What the code does in between then depends on that order alone, and a
replay, which takes the order from the log, is the same execution.

    live     placed in the log ─▶ acknowledged, first in line, code at rest ─▶ delivered
    replay   recorded ─────────▶ asked for, first in line, code at rest ────▶ delivered

No call without a recorded outcome does anything before the whole history is delivered (the barrier). If the
code is at rest and has not asked for the next recorded outcome, it behaves differently than before: that is a
divergence, reported before anything has run.

This module has the rules. `task_delivery` and `thread_delivery` know when the code of their colour is at
rest and how to wake it.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Protocol

from holdfast.engine.execution.control import Control
from holdfast.kernel.history import is_awaited, is_called, outcomes

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution
    from holdfast.kernel.identity import Counters
    from holdfast.kernel.state import StepState

PATIENCE_S = 60.0
"""How long code that waits for something unknown to holdfast may keep a replay waiting."""
OWN_PATIENCE_S = 10.0
"""The same for code that waits for queues, locks and events, which its own tasks serve nearly always."""


class Turn:
    """One outcome on its way to the code that waits for it."""

    __slots__ = ("delivered", "key", "lost", "ready")

    def __init__(self, key: str, *, ready: bool = False) -> None:
        self.key = key
        self.ready = ready
        """Acknowledged: it may be delivered when it is first in line."""
        self.lost = False
        """Its append was refused."""
        self.delivered = False

    def deliver(self) -> None:
        self.delivered = True


class Limit(Protocol):
    """A bound on how many branches of a fan-out run at a time."""

    def stretch(self) -> bool:
        """Let one branch more begin; False if none waits."""
        ...


class Delivery:
    """The rules that both colours share. Not thread-safe: `ThreadDelivery` holds its lock around every
    call."""

    def __init__(self, run: Execution) -> None:
        self.run = run
        self.limits: list[Limit] = []
        self.replaying = bool(run.state.steps or run.state.timers)
        """Whether the code has not come to the end of the history."""
        self.guarded = self.replaying or run.plays_back
        """Whether a new call must wait at the barrier."""
        self.unvisited: dict[str, None] = {}
        """The recorded calls that the code has not made again."""
        self.progress = 0
        """Grows with every call and every delivery."""
        self._expected: deque[str] = deque()
        self._pending: set[str] = set()
        """The recorded outcomes that are still to be delivered; `_expected` has them in their order."""
        self._loose_left = 0
        """How many of `_expected`, from its beginning, have no reliable order."""
        self._loose_asked: list[tuple[int, str]] = []
        self._places: dict[str, int] = {}
        self._twins: dict[tuple[str, str], dict[str, None]] = {}
        self._asked: dict[str, Turn] = {}
        self._placed: deque[Turn] = deque()
        self.handing: Turn | None = None
        """The last one that `next` returned: Ctrl-C can fall before it is delivered."""
        if self.replaying:
            self._load()

    def _load(self) -> None:
        state = self.run.state
        history = outcomes(state)
        self._expected.extend(key for _, key in history)
        self._pending.update(self._expected)
        self._places = {key: place for place, key in history if place <= state.loose}
        self._loose_left = len(self._places)
        for step in state.steps.values():
            if step.version > state.loose:
                if is_called(step):
                    self.unvisited[step.key] = None
            elif is_awaited(step):
                self._twins.setdefault((step.name, step.digest), {})[step.key] = None

    # What the code does

    def visit(self, step: StepState) -> None:
        """Note that the code makes a recorded call."""
        self.unvisited.pop(step.key, None)
        if self._twins:
            self._twins.get((step.name, step.digest), {}).pop(step.key, None)
        self.progress += 1

    def ask(self, turn: Turn) -> None:
        """Note that the code waits for a recorded outcome."""
        self._asked[turn.key] = turn
        place = self._places.get(turn.key)
        if place is not None:
            heapq.heappush(self._loose_asked, (place, turn.key))

    def is_pending(self, key: str) -> bool:
        """Whether the history has an outcome under this key that is still to be delivered."""
        return key in self._pending

    def is_recorded(self, key: str) -> bool:
        """Whether the outcome under this key is still to be delivered, or has no reliable order."""
        return key in self._pending or key in self._places

    def is_next(self, key: str) -> bool:
        return self._head() == key

    def place(self, turn: Turn) -> None:
        """Give the outcome its place in the order of the log. The caller holds the lock of the run's
        state."""
        self._placed.append(turn)

    def withdraw(self, turn: Turn) -> None:
        """Remove a turn whose append was refused or lost, and wake its waiter."""
        turn.lost = True
        if turn in self._placed:
            self._placed.remove(turn)
        turn.deliver()

    # What comes next

    def take(self, key: str) -> None:
        """Note that the recorded outcome is delivered."""
        self._pending.discard(key)
        self._asked.pop(key, None)
        self.progress += 1

    def take_first(self, key: str) -> bool:
        """The same for the outcome that is expected next, if no task or thread waits for it; False otherwise.
        A sequential replay uses only this method: it saves 1 of 18 µs per step."""
        expected = self._expected
        if self._loose_left or not expected or expected[0] != key:
            return False
        expected.popleft()
        self._pending.discard(key)
        self.progress += 1
        return True

    def next(self, *, at_rest: bool) -> Turn | None:
        """The outcome to deliver now; None if there is none yet. A replay that cannot continue then diverges,
        or is watched. Code that is not `at_rest` gets the outcome that it waits for, and does not diverge."""
        while self.replaying:
            key = self._head()
            turn = self._asked.get(key)
            if turn is not None:
                return self._received(turn)
            if self._loose_left:
                turn = self._next_loose()
                if turn is not None:
                    return self._received(turn)
                continue
            if not key and not self.unvisited:
                self._end_replay()
                self._lift()
            elif not self._miss(key, at_rest):
                return None
        if self._placed and self._placed[0].ready:
            self.progress += 1
            self.handing = self._placed[0]
            return self._placed.popleft()
        return None

    def _end_replay(self) -> None:
        self.replaying, self.guarded = False, self.run.plays_back

    def _received(self, turn: Turn) -> Turn | None:
        if not turn.ready:
            return None
        self.handing = turn
        self.take(turn.key)
        return turn

    def _head(self) -> str:
        expected, pending = self._expected, self._pending
        while expected and expected[0] not in pending:
            expected.popleft()
            if self._loose_left:
                self._loose_left -= 1
        return expected[0] if expected else ""

    def _next_loose(self) -> Turn | None:
        """The first that the code has asked for. If there is none, no order is enforced on the others."""
        while self._loose_asked:
            turn = self._asked.get(self._loose_asked[0][1])
            if turn is not None:
                return turn
            heapq.heappop(self._loose_asked)
        for _ in range(self._loose_left):
            self._pending.discard(self._expected.popleft())
        self._loose_left = 0
        return None

    # What the code has not asked for

    def _miss(self, key: str, at_rest: bool) -> bool:
        """Handle an outcome `key` that the code has not asked for or, if `key` is empty, a recorded call that
        it has not made. Returns whether to look again at once."""
        if at_rest and any(limit.stretch() for limit in self.limits):
            return False  # a branch begins: it may ask for the outcome
        if not at_rest or not self._is_certain():
            self._watch()
            return False
        return self._give_up(key)

    def _give_up(self, key: str) -> bool:
        """The code will never ask for this outcome: drop it if it is empty, else diverge. Returns whether to
        look again."""
        if key and self._is_empty(key):
            self._pending.discard(key)
            return True
        self._diverge(key or next(iter(self.unvisited)))
        return False

    def _is_empty(self, key: str) -> bool:
        """Whether the outcome had no effect: a timer, or a wait that was given up. Code that polls may ask
        for it more or less often."""
        step = self.run.state.steps.get(key)
        return step is None or step.status == "abandoned"

    def left(self) -> str:
        """A recorded call that the code has not made, now that its function has ended; empty if there is
        none."""
        if self.unvisited:
            return next(iter(self.unvisited))
        for key in self._expected:
            waits = key in self._pending and key not in self._asked and key not in self._places
            if waits and not self._is_empty(key):
                return key
        return ""

    def had_been_here(self, counters: Counters) -> bool:
        """Whether the code passed this place before the last crash. The replay is the same execution, so it
        did if a recorded call has not been made yet. Where the order is not reliable, only calls of this
        scope and its branches count."""
        if not self.replaying:
            return False
        if self.unvisited:
            return True
        path = counters.path
        if (path, counters.ordinal + 1) in self.run.state.order:
            return True
        return any(key.startswith(path) for keys in self._twins.values() for key in keys)

    def twin(self, name: str, digest: str) -> str:
        """A recorded call with this name and these arguments that has no reliable order and that the code has
        not made; empty if there is none."""
        keys = self._twins.get((name, digest))
        return next(iter(keys)) if keys else ""

    def _diverge(self, key: str) -> None:
        waits, places = self._waits()
        called = ", ".join(waits[:4]) + (" ..." if len(waits) > 4 else "") if waits else "nothing"
        if places:
            called += f" (and waits at {', '.join(places[:3])})"
        try:
            self.run.diverge(f"{key} next", f"{called} instead", key)
        except Control:
            pass  # it is in run.control

    # Of each colour

    def turn(self, key: str) -> Turn | None:
        """For an outcome that is about to be recorded; None if no other outcome can come before it."""
        raise NotImplementedError

    def _lift(self) -> None:
        """The barrier opens."""
        raise NotImplementedError

    def _is_certain(self) -> bool:
        """Whether nothing but holdfast can make the code continue."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Look again when the patience is over."""
        raise NotImplementedError

    def _waits(self) -> tuple[list[str], list[str]]:
        """The calls that the code waits for, and the other places in which it waits."""
        raise NotImplementedError
