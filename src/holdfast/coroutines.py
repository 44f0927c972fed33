"""The base of `hf.aio`: how a method of a Holdfast becomes a coroutine. Coroutines that are more than a call
in a thread are written here by hand; all others are in `async_handle`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from holdfast.engine.runs.run import Run
    from holdfast.engine.runs.workflow import AsyncWorkflow, Workflow
    from holdfast.handle import Holdfast

P = ParamSpec("P")
R = TypeVar("R")


class Coroutines:
    """Those that execute runs do so as `hf.start` does in an event loop: an async workflow in the running
    loop, a `def` workflow in a thread."""

    def __init__(self, holdfast: Holdfast) -> None:
        self._holdfast = holdfast

    async def _call(self, method: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a blocking method in a thread, and wait for it."""
        import asyncio

        return await asyncio.to_thread(method, *args, **kwargs)

    async def run(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Execute a workflow and return its result."""
        return await self._holdfast.start(workflow, *args, **kwargs)

    async def start(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]:
        """Start a run that executes in the background. What keeps it from starting is raised when the run is
        awaited."""
        return self._holdfast.start(workflow, *args, **kwargs)

    def with_id(self, run_id: str) -> AsyncWithId:
        """`await hf.aio.with_id("kelp-1").run(...)`: the same under an id, as `hf.with_id` has it."""
        return AsyncWithId(self._holdfast, run_id)

    async def resume(
        self,
        run_id: str,
        take_over: bool = False,
        keep_files: bool = False,
        root: str | os.PathLike[str] | None = None,
    ) -> Run[Any]:
        """Resume a run; returns its handle. Raises `RunNotFound`; what else keeps it from continuing is
        raised when the handle is awaited."""
        known = await self._call(self._holdfast._known, run_id)
        return self._holdfast.resume(known, take_over, keep_files, root)


class AsyncWithId:
    """A Holdfast that starts its next run under a given id."""

    def __init__(self, holdfast: Holdfast, run_id: str) -> None:
        self._with_id = holdfast.with_id(run_id)

    async def run(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return await self._with_id.start(workflow, *args, **kwargs)

    async def start(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]:
        return self._with_id.start(workflow, *args, **kwargs)
