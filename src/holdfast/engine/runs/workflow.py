"""`@workflow`: what a run executes.

    @workflow
    def report(topics: list[str]) -> str: ...

Started through a `Holdfast` it becomes a run. Called inside a run it is a child run; called outside,
a plain call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction, isfunction
from typing import Any, Generic, ParamSpec, TypeVar, overload

from holdfast.engine.execution.arguments import Signature
from holdfast.engine.execution.scope import Scope, current, on_this_thread
from holdfast.errors import BadInput, DetachedStep, WrongColour

P = ParamSpec("P")
R = TypeVar("R")


class WorkflowBase(Generic[P, R]):
    is_async = False

    def __init__(self, fn: Callable[..., Any], name: str | None = None) -> None:
        self.fn = fn
        self.name: str = name or fn.__name__
        self._signature: Signature | None = None
        self._warned = False
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    @property
    def signature(self) -> Signature:
        if self._signature is None:
            self._signature = Signature(self.fn, f"workflow {self.name}")
        return self._signature

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def _warn_detached(self) -> None:
        """Once: a test may call a workflow as a plain function a thousand times."""
        if not self._warned:
            self._warned = True
            message = (
                f"workflow {self.name} was called outside every run: nothing is recorded, and a crash loses "
                f"it; execute it with `hf.run({self.name}, ...)` or `hf.start`"
            )
            warnings.warn(DetachedStep(message), stacklevel=3)

    def _scope(self) -> Scope | None:
        scope = current.get()
        if type(scope) is not Scope:
            return None
        if not on_this_thread(scope):
            raise WrongColour(f"workflow {self.name} was called on another thread than the one of its scope")
        if scope.execution.is_async != self.is_async:
            mine, theirs = ("async def", "def") if self.is_async else ("def", "async def")
            raise WrongColour(
                f"workflow {self.name} is `{mine}` and its parent run is `{theirs}`: use one colour"
            )
        return scope


class Workflow(WorkflowBase[P, R]):
    """A `def` workflow."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        scope = self._scope()
        if scope is None:
            self._warn_detached()
            plain: R = self.fn(*args, **kwargs)
            return plain
        from holdfast.engine.runs import child_run

        result: R = child_run.run(scope, self, args, kwargs)
        return result


class AsyncWorkflow(WorkflowBase[P, R]):
    """An `async def` workflow."""

    is_async = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        scope = self._scope()
        if scope is None:
            self._warn_detached()
            plain: Coroutine[Any, Any, R] = self.fn(*args, **kwargs)
            return plain
        from holdfast.engine.runs import child_run

        return child_run.run_async(scope, self, args, kwargs)


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncWorkflow[P, R]: ...  # type: ignore[overload-overlap]
@overload
def workflow(fn: Callable[P, R], /) -> Workflow[P, R]: ...
def workflow(fn: Callable[..., Any], /) -> Any:
    """Make a function of a module's top level a workflow."""
    if not isfunction(fn):
        raise BadInput("@workflow goes on a function written with def or async def")
    return (AsyncWorkflow if iscoroutinefunction(fn) else Workflow)(fn)
