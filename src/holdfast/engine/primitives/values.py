"""`now`, `random`, `uuid`, `recorded`: values that replay gives again.

They are recorded with the next commit of their run, so they do no I/O and serve both colours.
Outside a run they are what their names say.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import CoroutineType
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from holdfast.clock import Clock, SystemClock, instant
from holdfast.engine.execution.scope import Scope, current, require_thread
from holdfast.errors import BadInput
from holdfast.kernel import codec
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.identity import check_step_name

T = TypeVar("T")

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


def recorded(name: str, make: Callable[[], T]) -> T:
    """The value of `make()`, recorded under `name`: a cheap choice that every replay repeats.

        model = recorded("model", lambda: router.pick(prompt))

    The value goes to the log with the next commit of the run, without a commit of its own. From then on
    `make` is not called again at this place. A crash before that commit loses the value together with
    everything that the code did with it, and the resumed run calls `make` again. So `make` must have no
    effect outside and must not fail by chance: I/O belongs into a step. An exception of `make` is not
    recorded; it is raised as one of the workflow's own code.

    `make` is a plain function in both colours. Raises `NotStorable` for a value that cannot be stored, and
    `BadInput` if `make` returns a coroutine or calls something that is recorded itself.
    """
    check_step_name(name)
    value: T = _recorded(name, lambda _: make())
    return value


def _recorded(name: str, make: Callable[[Clock], Any]) -> Any:
    scope = current.get()
    if type(scope) is not Scope:
        return _made(name, make, _SYSTEM if scope is None else scope.execution.engine.clock)
    require_thread(scope, f"{name}()")
    run = scope.execution
    key = scope.counters.key(name)
    ordinal = scope.counters.ordinal
    past = run.recall(key, name, ordinal, "", "value")
    if past is not None:
        return codec.decode(past.result)
    value = _made(name, make, run.engine.clock)
    if scope.counters.ordinal != ordinal:
        raise BadInput(
            f"recorded({name!r}): the function calls a step, or something else that is recorded; "
            "call that before, and pass its result"
        )
    raw = msgspec.Raw(codec.encode(value, f"the value of {name}"))
    if run.delivery.replaying and (scope.counters.path, ordinal + 1) in run.state.order:
        # A value is recorded before the next call of its scope: there is none because `make` raised.
        run.diverge(f"{key}, whose function raised", f"{key}, whose function returned a value", key)
    run.note(c.Record(e.ValueRecorded(key, ordinal, raw)))
    return value


def _made(name: str, make: Callable[[Clock], Any], clock: Clock) -> Any:
    value = make(clock)
    if isinstance(value, CoroutineType):
        value.close()
        raise BadInput(f"recorded({name!r}) takes a plain function; what is awaited belongs into a step")
    return value
