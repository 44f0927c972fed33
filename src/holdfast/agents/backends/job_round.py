"""The round of a job: how often its run has asked for this kind of work, counted from 1.

Counted in the order in which the code of the run asks. A replay executes the code in the same order, so it
counts the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution

_counts: WeakKeyDictionary[Execution, Counter[str]] = WeakKeyDictionary()
_current: ContextVar[int] = ContextVar("holdfast_job_round", default=0)


def next_round(run: Execution, kind: str) -> int:
    """The number of the next job of this kind."""
    counts = _counts.setdefault(run, Counter())
    counts[kind] += 1
    return counts[kind]


def current_round() -> int:
    """The round of the job whose agent calls this; 0 for an agent that was called without `work`."""
    return _current.get()


@contextmanager
def in_round(number: int) -> Iterator[None]:
    token = _current.set(number)
    try:
        yield
    finally:
        _current.reset(token)
