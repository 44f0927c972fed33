"""`now`, `random`, `uuid`: values that replay gives again.

They are recorded with the next commit of their run, so they do no I/O and serve both colours.
Outside a run they are what their names say.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from holdfast.clock import Clock, SystemClock, instant
from holdfast.engine.execution.scope import Scope, current, on_this_thread
from holdfast.errors import WrongColour
from holdfast.kernel import codec
from holdfast.kernel import commands as c

_SYSTEM = SystemClock()


def now() -> datetime:
    """The time, in UTC; in a run, the time of the first execution."""
    result: datetime = _recorded("now", lambda clock: instant(clock.now_us()))
    return result


def random() -> float:
    """A number in [0, 1)."""
    result: float = _recorded("random", lambda clock: clock.random())
    return result


def uuid() -> UUID:
    """A fresh UUIDv4."""
    result: UUID = _recorded("uuid", lambda clock: clock.uuid())
    return result


def _recorded(name: str, make: Callable[[Clock], Any]) -> Any:
    scope = current.get()
    if type(scope) is not Scope:
        return make(_SYSTEM if scope is None else scope.execution.engine.clock)
    if not on_this_thread(scope):
        raise WrongColour(f"{name}() was called on another thread than the one of its scope")
    run = scope.execution
    key = scope.counters.key(name)
    ordinal = scope.counters.ordinal
    past = run.recall(key, name, ordinal, "", "value")
    if past is not None:
        return codec.decode(past.result)
    value = make(run.engine.clock)
    run.note(c.RecordValue(key, ordinal, msgspec.Raw(codec.encode(value))))
    return value
