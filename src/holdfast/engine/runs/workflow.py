"""`@workflow`: what a run executes.

    @workflow
    def report(topics: list[str]) -> str: ...

Started through a `Holdfast` it becomes a run. Called inside a run it is a child run; called outside,
a plain call. A child may have the other colour than its parent: `.aio(...)` gives the coroutine of any
workflow, for async parents; `.sync(...)` waits for any workflow and gives its result, for `def` parents.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Sequence
from inspect import iscoroutinefunction, isfunction
from typing import Any, Generic, ParamSpec, TypeVar, overload

from holdfast.colour import in_loop
from holdfast.engine.execution.arguments import Signature
from holdfast.engine.execution.scope import Scope, current, require_thread
from holdfast.engine.runs.module_place import place_of
from holdfast.errors import BadInput, DetachedStep, WrongColour

P = ParamSpec("P")
R = TypeVar("R")


class WorkflowBase(Generic[P, R]):
    is_async = False

    def __init__(self, fn: Callable[..., Any], name: str | None = None) -> None:
        self.fn = fn
        self.place = place_of(fn)
        self.name: str = name or fn.__name__
        self.title: Callable[P, str] | None = None
        """The title made of its arguments, shown instead of its name."""
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
            warnings.warn(DetachedStep(message), stacklevel=4)

    def _scope(self, instead: str, *, in_async: bool) -> Scope | None:
        """The scope of the parent; None outside a run. `instead` is what a parent of the other colour than
        the call is for must write."""
        scope = current.get()
        if type(scope) is not Scope:
            return None
        require_thread(scope, f"workflow {self.name}")
        if scope.execution.is_async != in_async:
            if in_async:
                raise WrongColour(
                    f"workflow {self.name} was called asynchronously in a `def` workflow: write `{instead}`"
                )
            raise WrongColour(f"workflow {self.name} would block its async parent: write `{instead}`")
        return scope

    def _wait_for(self, args: Sequence[Any], kwargs: dict[str, Any], instead: str) -> Any:
        """Call it and block until it has ended."""
        scope = self._scope(instead, in_async=False)
        if scope is not None:
            from holdfast.engine.runs import child_run

            return child_run.run(scope, self, args, kwargs)
        self._warn_detached()
        if not self.is_async:
            return self.fn(*args, **kwargs)
        if in_loop():
            raise WrongColour(
                f"{self.name}.sync() blocks, and an event loop runs in this thread: write `{instead}`"
            )
        import asyncio

        return asyncio.run(self.fn(*args, **kwargs))

    def _coroutine(
        self, args: Sequence[Any], kwargs: dict[str, Any], instead: str
    ) -> Coroutine[Any, Any, Any]:
        """Call it; the result is what the coroutine gives."""
        scope = self._scope(instead, in_async=True)
        if scope is not None:
            from holdfast.engine.runs import child_run

            return child_run.run_async(scope, self, args, kwargs)
        self._warn_detached()
        if self.is_async:
            plain: Coroutine[Any, Any, Any] = self.fn(*args, **kwargs)
            return plain
        import asyncio

        return asyncio.to_thread(self.fn, *args, **kwargs)


class Workflow(WorkflowBase[P, R]):
    """A `def` workflow. In an async workflow, write `await child.aio(...)`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._wait_for(args, kwargs, f"await {self.name}.aio(...)")
        return result

    sync = __call__

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """The same call for async workflows: the child runs in a thread of its own."""
        return self._coroutine(args, kwargs, f"{self.name}(...)")


class AsyncWorkflow(WorkflowBase[P, R]):
    """An `async def` workflow. In a `def` workflow, write `child.sync(...)`."""

    is_async = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self._coroutine(args, kwargs, f"{self.name}.sync(...)")

    aio = __call__

    def sync(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same call for `def` workflows: waits for the child, which runs in an event loop that the
        engine keeps in a thread."""
        result: R = self._wait_for(args, kwargs, f"await {self.name}(...)")
        return result


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncWorkflow[P, R]: ...  # type: ignore[overload-overlap]
@overload
def workflow(fn: Callable[P, R], /) -> Workflow[P, R]: ...
def workflow(fn: Callable[..., Any], /) -> Any:
    """Make a function of a module's top level a workflow."""
    if not isfunction(fn):
        raise BadInput("@workflow decorates a function written with def or async def")
    return (AsyncWorkflow if iscoroutinefunction(fn) else Workflow)(fn)
