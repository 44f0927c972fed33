"""`hf.aio`: the methods of a Holdfast that do I/O, for use in an event loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from holdfast.handle import PATIENCE_S, UNSET, Holdfast

if TYPE_CHECKING:
    from holdfast.engine.records import LogEvent, LogLine, RunInfo, StepInfo
    from holdfast.engine.run import Run
    from holdfast.engine.workflow import AsyncWorkflow, Workflow
    from holdfast.operations.checkpoints import CheckpointInfo
    from holdfast.operations.diffing import FileDiff
    from holdfast.operations.forking import Fork
    from holdfast.operations.journal import OperationInfo
    from holdfast.operations.rewinding import Rewind
    from holdfast.operations.undoing import Undo

P = ParamSpec("P")
R = TypeVar("R")


class AsyncHoldfast:
    """Coroutines. Those that execute runs do so as `hf.start` does in an event loop: an async workflow in the
    running loop, a `def` workflow in a thread. Each of the others runs its method in a thread."""

    def __init__(self, holdfast: Holdfast) -> None:
        self._holdfast = holdfast

    async def _call(self, method: Callable[..., R], *args: Any, **kwargs: Any) -> R:
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
        """Start a run that continues by itself. What keeps it from starting is raised when the run is
        awaited."""
        return self._holdfast.start(workflow, *args, **kwargs)

    def with_id(self, run_id: str) -> AsyncWithId:
        """`await hf.aio.with_id("kelp-1").run(...)`: the same under an id, as `hf.with_id` has it."""
        return AsyncWithId(self._holdfast, run_id)

    async def resume(self, run_id: str, take_over: bool = False, keep_files: bool = False) -> Run[Any]:
        """Continue a run; returns its handle. Raises `RunNotFound`; what else keeps it from continuing is
        raised when the handle is awaited."""
        known = await self._call(self._holdfast._engine.known, run_id)
        return self._holdfast.resume(known, take_over=take_over, keep_files=keep_files)

    async def recover(self) -> list[Run[Any]]:
        return await self._call(self._holdfast.recover)

    async def settle(
        self,
        run_id: str,
        step: str,
        *,
        done: Any = UNSET,
        retry: bool = False,
        fail: str | None = None,
        by: str = "",
    ) -> str:
        return await self._call(self._holdfast.settle, run_id, step, done=done, retry=retry, fail=fail, by=by)

    async def approve(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
    ) -> str:
        return await self._call(self._holdfast.approve, run_id, gate, digest, by, comment)

    async def reject(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
    ) -> str:
        return await self._call(self._holdfast.reject, run_id, gate, digest, by, comment)

    async def signal(self, run_id: str, name: str, value: Any = None, *, by: str | None = None) -> bool:
        return await self._call(self._holdfast.signal, run_id, name, value, by=by)

    async def pause(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        return await self._call(self._holdfast.pause, run_id, reason, by=by, patience=patience)

    async def cancel(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        return await self._call(self._holdfast.cancel, run_id, reason, by=by, patience=patience)

    async def rewind(
        self,
        run_id: str,
        to: str,
        *,
        only: Sequence[str] | None = None,
        theirs: bool = False,
        files: bool = True,
        partial: bool = False,
        git: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
    ) -> Rewind:
        return await self._call(
            self._holdfast.rewind, run_id, to, only=only, theirs=theirs, files=files, partial=partial,
            git=git, rerun_once=rerun_once, dry_run=dry_run,
        )  # fmt: skip

    async def undo(
        self,
        operation: str | None = None,
        *,
        partial: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
    ) -> Undo:
        return await self._call(
            self._holdfast.undo, operation, partial=partial, rerun_once=rerun_once, dry_run=dry_run
        )

    async def operations(self, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
        return await self._call(self._holdfast.operations, run_id, limit)

    async def fork(
        self,
        run_id: str,
        at: str,
        into: str | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
    ) -> Fork:
        return await self._call(self._holdfast.fork, run_id, at, into, directory=directory)

    async def diff(self, run_id: str, a: str, b: str | None = None) -> list[FileDiff]:
        return await self._call(self._holdfast.diff, run_id, a, b)

    async def checkpoints(self, run_id: str, *, every: bool = False) -> list[CheckpointInfo]:
        return await self._call(self._holdfast.checkpoints, run_id, every=every)

    async def get(self, run_id: str) -> RunInfo:
        return await self._call(self._holdfast.get, run_id)

    async def runs(
        self, status: str | None = None, resumable: bool | None = None, limit: int | None = None
    ) -> list[RunInfo]:
        return await self._call(self._holdfast.runs, status, resumable, limit)

    async def steps(self, run_id: str) -> list[StepInfo]:
        return await self._call(self._holdfast.steps, run_id)

    async def events(self, run_id: str) -> list[LogEvent]:
        return await self._call(self._holdfast.events, run_id)

    async def logs(self, run_id: str, step: str | None = None) -> list[LogLine]:
        return await self._call(self._holdfast.logs, run_id, step)

    async def backup(
        self, path: str | os.PathLike[str] | None = None, *, force: bool = False, files: bool | None = None
    ) -> Path:
        return await self._call(self._holdfast.backup, path, force=force, files=files)


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
