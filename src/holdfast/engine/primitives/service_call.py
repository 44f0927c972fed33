"""Calls of holdfast's own services, such as `hf.tasks.create`, from a run.

In the code of a workflow such a call is a step: it is recorded, and a replay returns what it returned.
Inside the body of a step it is a plain call. In both, a store that fails stops the run, as an append of its
own that fails does: that is no failure of the step, and `resume` continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from holdfast.engine.execution.arguments import Signature
from holdfast.engine.execution.call import Call, Spec
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.scope import InsideStep, Scope, current, refuse_in_async, require_thread
from holdfast.engine.execution.thread_driver import drive
from holdfast.errors import StoreError, WrongColour


def call_service(name: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call `fn` from a thread; `name` is that of the step."""
    scope = current.get()
    if type(scope) is Scope:
        refuse_in_async(scope.execution, f"hf.{name}", f"hf.aio.{name}")
        call = _make(scope, name, fn, args, kwargs)
        return drive(call, call.recall())
    if isinstance(scope, InsideStep):
        return _guarded(scope.execution, fn)(*args, **kwargs)
    return fn(*args, **kwargs)


async def await_service(
    name: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The same in an event loop; what blocks runs in a thread."""
    import asyncio

    from holdfast.engine.execution import task_driver

    scope = current.get()
    if type(scope) is Scope:
        if not scope.execution.is_async:
            raise WrongColour(f"hf.aio.{name}() was called in a `def` workflow: write `hf.{name}(...)`")
        return await task_driver.perform_call(_make(scope, name, fn, args, kwargs))
    if isinstance(scope, InsideStep):
        fn = _guarded(scope.execution, fn)
    return await asyncio.to_thread(fn, *args, **kwargs)


def _make(
    scope: Scope, name: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Call:
    require_thread(scope, f"hf.{name}()")
    digested = _signature(fn, name).digest(args, kwargs)
    guarded = _guarded(scope.execution, fn)
    spec = Spec(name, lambda: guarded(*args, **kwargs), touches_files=False)
    key = scope.counters.key(name)
    return Call(scope.execution, spec, key, scope.counters.ordinal, digested, deadline=scope.deadline)


@lru_cache(maxsize=128)
def _signature(fn: Callable[..., Any], name: str) -> Signature:
    return Signature(fn, f"hf.{name}")


def _guarded(execution: Execution, fn: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except StoreError as error:
            raise execution.lose(error) from None

    return guarded
