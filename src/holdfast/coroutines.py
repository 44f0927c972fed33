"""The base of `hf.aio`: how a method of a Holdfast becomes a coroutine. Coroutines that are more than a call
in a thread are written here by hand; all others are in `async_handle`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.engine.runs.run import Run
    from holdfast.engine.runs.workflow import AsyncWorkflow, Workflow
    from holdfast.facade.namespace import Namespace
    from holdfast.handle import Holdfast
    from holdfast.views.run_detail import RunDetail

P = ParamSpec("P")
R = TypeVar("R")


class Coroutines:
    """Those that execute runs do so as `hf.start` does in an event loop: an async workflow in the running
    loop, a `def` workflow in a thread."""

    def __init__(self, holdfast: Holdfast) -> None:
        self._holdfast = holdfast

    async def _call(self, method: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a blocking method in a thread, and wait for it. A service is a step in the code of a run."""
        from holdfast.wiring import code_here

        if hasattr(method, "__service__") and code_here() is not None:
            from holdfast.engine.primitives.service_call import await_service

            plain = method.__wrapped__.__get__(self._holdfast)  # type: ignore[attr-defined]
            result: R = await await_service(method.__name__, plain, args, dict(kwargs))
            return result
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
        """Start a run that executes in the background; durable when this returns. Raises what keeps it from
        starting."""
        return await _begun(self._holdfast.start(workflow, *args, **kwargs))

    def with_id(self, run_id: str, *, task: str | None = None) -> AsyncWithId:
        """`await hf.aio.with_id("kelp-1").run(...)`: the same under an id, as `hf.with_id` has it."""
        return AsyncWithId(self._holdfast, run_id, task)

    def with_task(self, task: str) -> AsyncWithId:
        """`await hf.aio.with_task(ID).run(...)`: the same for a task, as `hf.with_task` has it."""
        return AsyncWithId(self._holdfast, None, task)

    def with_budget(self, budget: str) -> AsyncWithId:
        """`await hf.aio.with_budget("team").run(...)`: that budget pays, as `hf.with_budget` has it."""
        return AsyncWithId(self._holdfast, None, None, budget)

    async def get(self, run_id: str, *, at: int | datetime | str | None = None) -> RunDetail:
        """A run, as `hf.get` has it. Its history is read before this returns, not later in the loop."""
        return await self._call(_whole, self._holdfast, run_id, at)

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


class AsyncNamespace:
    """`hf.aio.NAMESPACE`: the methods of a namespace as coroutines; in the code of a workflow, as steps."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace: Any = namespace

    async def _call(self, method: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a blocking method in a thread, and wait for it."""
        from holdfast.wiring import code_here

        if code_here() is None:
            import asyncio

            return await asyncio.to_thread(method, *args, **kwargs)
        from holdfast.engine.primitives.service_call import await_service

        name = method.__name__
        service, made_of = self._namespace._service(name)
        named = f"{self._namespace.NAMESPACE}.{name}"
        result: R = made_of(await await_service(named, service, args, dict(kwargs)))
        return result


def _whole(holdfast: Holdfast, run_id: str, at: int | datetime | str | None) -> RunDetail:
    """A run with what it would read later."""
    detail = holdfast.get(run_id, at=at)
    _ = detail.state, detail.whole_input, detail.result
    return detail


async def _begun(run: Run[R]) -> Run[R]:
    """The run, once it is durable. The code of a run waits for nothing that is not recorded."""
    from holdfast.wiring import code_here

    if code_here() is None:
        await run.begin()
    return run


class AsyncWithId:
    """A Holdfast that starts its next run under a given id, for a task, or with a budget."""

    def __init__(
        self, holdfast: Holdfast, run_id: str | None, task: str | None = None, budget: str = ""
    ) -> None:
        from holdfast.kernel.amounts import check_name
        from holdfast.kernel.identity import check_run_id

        self._holdfast = holdfast
        self._run_id = None if run_id is None else check_run_id(run_id)
        self._task = task
        self._budget = check_name(budget) if budget else ""

    def with_id(self, run_id: str) -> AsyncWithId:
        """The same under an id."""
        return AsyncWithId(self._holdfast, run_id, self._task, self._budget)

    def with_task(self, task: str) -> AsyncWithId:
        """The same for a task."""
        return AsyncWithId(self._holdfast, self._run_id, task, self._budget)

    def with_budget(self, budget: str) -> AsyncWithId:
        """The same with a budget."""
        return AsyncWithId(self._holdfast, self._run_id, self._task, budget)

    async def run(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        result: R = await (await self._start(workflow, args, kwargs))
        return result

    async def start(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]:
        return await self._start(workflow, args, kwargs)

    async def deliver(self, goal: str, **options: Any) -> Run[dict[str, Any]]:
        """`hf.aio.deliver(goal, ...)` under that id, for that task, with that budget."""
        return await self._holdfast.aio.deliver(
            goal, run_id=self._run_id, task=self._task, budget=self._budget, **options
        )

    async def _start(self, workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run[Any]:
        engine, run_id = self._holdfast._to_write(), self._run_id
        if self._task is not None:
            import asyncio

            run_id = await asyncio.to_thread(self._holdfast._claimed_for, run_id, self._task)
        run = engine.start(workflow, args, kwargs, run_id, task=self._task or "", budget=self._budget)
        return await _begun(run)
