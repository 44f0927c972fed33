"""Scopes: where a step is called from, so that its identity does not depend on timing.

A run's function is the root scope. Every asyncio task that is created inside a scope is a scope of
its own, named after its coroutine and numbered by the parent (`task_factory`). So plain
`asyncio.gather` and `TaskGroup` work. Worker threads of `parallel` get their scopes the same way.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from holdfast.clock import Clock
from holdfast.errors import BadInput, WrongColour
from holdfast.kernel.identity import Counters

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution
    from holdfast.engine.execution.reserving import Paying


live_runs: set[Execution] = set()
"""The runs that this process executes now. A step that is called while there are any, but outside of them,
has lost its scope."""


class Deadline(float):
    """The time after which no step may run, in microseconds of the wall clock, as it is recorded; 0 for none.
    `ends` is the same by the monotonic clock of this process, so that setting the wall clock back does not
    extend it."""

    __slots__ = ("ends",)
    ends: float

    def __new__(cls, at_us: float, ends: float = math.inf) -> Deadline:
        deadline = super().__new__(cls, at_us)
        deadline.ends = ends
        return deadline

    def left_s(self, clock: Clock) -> float:
        """The seconds that are left, by the clock with fewer of them."""
        return max(0.0, min((self - clock.now_us()) / 1e6, self.ends - clock.monotonic()))


NEVER = Deadline(0.0)


class Scope:
    """One thread of control of a run: a coroutine's task or a thread."""

    __slots__ = ("budget", "counters", "deadline", "execution", "thread")

    def __init__(
        self,
        execution: Execution,
        counters: Counters,
        thread: int,
        deadline: Deadline = NEVER,
        budget: Paying | None = None,
    ) -> None:
        self.execution = execution
        self.counters = counters
        self.thread = thread
        self.deadline = deadline
        self.budget = budget
        """The budget that pays for what is called here; None for that of the run."""

    def child(self, name: str, thread: int = 0) -> Scope:
        """The scope of the next branch that starts here; `thread` 0 means this one's."""
        counters = self.counters.child(name)
        return Scope(self.execution, counters, thread or self.thread, self.deadline, self.budget)

    def keyed_child(self, name: str, key: str) -> Scope:
        """The same for a branch whose key the caller chose."""
        counters = self.counters.keyed_child(name, key)
        return Scope(self.execution, counters, self.thread, self.deadline, self.budget)


class InsideStep:
    """A step's body: steps called here are plain calls."""

    __slots__ = ("attempt", "execution", "key")

    execution: Execution
    key: str
    attempt: int


current: ContextVar[Scope | InsideStep | None] = ContextVar("holdfast_scope", default=None)
later_attempt: ContextVar[tuple[InsideStep, int] | None] = ContextVar("holdfast_later_attempt", default=None)
"""The attempt of the body here, where it is not the first: what an earlier one left running has another."""


@contextmanager
def in_body(call: InsideStep) -> Iterator[None]:
    """Inside, the scope is the body of the call's attempt."""
    token = current.set(call)
    later = later_attempt.set((call, call.attempt)) if call.attempt > 1 else None
    try:
        yield
    finally:
        if later is not None:
            later_attempt.reset(later)
        current.reset(token)


def require_thread(scope: Scope, what: str) -> None:
    """Raises `WrongColour` if another thread than that of the scope calls `what`."""
    if scope.thread != threading.get_ident():
        raise WrongColour(f"{what} was called on another thread than the one of its scope")


def scope_of_caller(what: str, shown: str = "") -> Scope | None:
    """The scope of the code that calls `what`; None outside a run and in the body of a step. If
    `shown` is given, it names the call, and a call in a body raises `BadInput`."""
    scope = current.get()
    if type(scope) is not Scope:
        if shown and scope is not None:
            raise BadInput(f"{shown} is called in a step's body; call it in the workflow")
        return None
    require_thread(scope, what)
    return scope


def refuse_in_async(run: Execution, what: str, instead: str = "") -> None:
    """Raises `WrongColour` in an async workflow, whose event loop `what()` would block."""
    if run.is_async:
        way = instead or f"{what}.aio"
        raise WrongColour(f"{what}() would block this async workflow: write `await {way}(...)`")
