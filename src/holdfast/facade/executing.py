"""The executing side of `Holdfast`: runs are started, resumed and recovered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

from holdfast.colour import refuse_in_loop
from holdfast.errors import BadInput
from holdfast.facade.open_store import OpenStore, blocking, texts
from holdfast.kernel.identity import check_run_id

if TYPE_CHECKING:
    from holdfast.engine.runs.run import Run
    from holdfast.engine.runs.workflow import AsyncWorkflow, Workflow
    from holdfast.facade.delivering import Delivering
    from holdfast.kernel.events import Effect
    from holdfast.views.run_detail import RunDetail

P = ParamSpec("P")
R = TypeVar("R")


class Executing(OpenStore):
    """Methods that execute runs in this process."""

    def start(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]:
        """Start a run that executes in the background; durable when this returns.

        In a running event loop it returns at once: the run is durable, and `RunHeld` or `RunExists`
        raised, when its result is awaited; `await hf.aio.start(...)` waits until it is durable.
        """
        return self._to_write().start(workflow, args, kwargs)

    def run(self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Execute a workflow and return its result."""
        refuse_in_loop("hf.run() blocks", "await hf.start(...)")
        result: R = self._to_write().run(workflow, args, kwargs)
        return result

    def with_id(self, run_id: str, *, task: str | None = None) -> WithId:
        """`hf.with_id("kelp-1").run(...)`: if the id exists, that run is resumed, or its result or error
        returned. With other arguments it raises `RunExists`. `task` is claimed for the run, as by
        `with_task`."""
        return WithId(self, check_run_id(run_id), task)

    def with_task(self, task: str) -> WithId:
        """`hf.with_task(ID).run(...)`: the task is claimed for the run until that ends. The end of the run
        completes the task, fails it or gives it back, in one commit. Raises `TaskHeld`, `Refused`."""
        return WithId(self, None, task)

    def with_budget(self, budget: str) -> WithId:
        """`hf.with_budget("team").run(...)`: that budget pays for the steps of the run, and of its child
        runs. It is recorded with the run."""
        return WithId(self, None, None, _named(budget))

    def _claimed_for(self, run_id: str | None, task: str | None) -> str | None:
        """The id of the run, for which the task is claimed now, if one is named. Raises `BadRunId` before
        that."""
        if task is None:
            return run_id
        if run_id is not None:
            check_run_id(run_id)
        from holdfast.tracker.claiming import claim_for_run

        run_id = run_id or self._to_write().mint_id()
        claim_for_run(self._open_tracker(), task, run_id)
        return run_id

    def start_command(
        self,
        argv: Sequence[str],
        *,
        run_id: str | None = None,
        task: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        title: str = "",
        effect: Effect | None = None,
        timeout: float | None = None,
        writes: Sequence[str] = (),
        isolate: Literal["copy"] | None = None,
        output_limit: int | None = None,
        budget: str | None = None,
    ) -> Run[Any]:
        """Start a run that is one command, as `holdfast run -- CMD` does.

        effect   what a crash in the middle means: `workspace` (default, where there is a workspace), `once`
                 or `idempotent`
        timeout  after so many seconds its whole process tree is ended
        writes   patterns of what it writes; other changes are a person's
        isolate  "copy": it works in a copy of the workspace
        output_limit  so many bytes of its output are kept, and its end (default: 16 MB)
        task     claimed for the run, as by `with_task`
        budget   pays for it, as by `with_budget`
        """
        from holdfast.engine.execution.step_options import check_files
        from holdfast.engine.primitives.command import start_command

        words, patterns = texts(argv, "start_command()"), texts(writes, "writes=")
        if not words:
            raise BadInput("start_command() takes the program and its arguments: ['make', 'test']")
        if output_limit is not None and output_limit < 0:
            raise BadInput(f"start_command(output_limit={output_limit}): not less than 0 bytes")
        check_files("a command", effect or "workspace", patterns, isolate)
        where = os.getcwd() if cwd is None else os.fspath(cwd)
        how: tuple[Any, ...] = (timeout, effect, patterns, isolate)
        if output_limit is not None:  # it counts for the run's identity only where it is given
            how = (*how, output_limit)
        engine = self._to_write()
        run_id = self._claimed_for(run_id, task)
        paying = "" if budget is None else _named(budget)
        return start_command(engine, list(words), where, how, run_id, title, task or "", paying)

    def resume(
        self,
        run_id: str,
        take_over: bool = False,
        keep_files: bool = False,
        root: str | os.PathLike[str] | None = None,
        known: RunDetail | None = None,
    ) -> Run[Any]:
        """Resume a run: an interrupted one where it stopped, a failed one with its failed step.

        The changes of a failed or cut-off attempt of a `workspace` step to files and git repository are
        rolled back before the step runs again; `keep_files` keeps them. `root` is where the project of its
        code is now. `known` is what `get` returned for it: its history is read only from there on. Raises
        `RunHeld` if a live process executes it; `take_over` takes it from one that hangs.
        """
        engine = self._to_write()
        if root is not None:
            engine.location.look_in(Path(root))
        state = known.take_state() if known is not None and known.id == run_id else None
        return engine.resume(run_id, take_over=take_over, keep_files=keep_files, known=state)

    @blocking
    def recover(self) -> list[Run[Any]]:
        """Drive every run whose owner is dead to its end, a few at a time. Opening alone never does.

        A run whose code would mix its modules with those of this process is not executed: its handle
        raises `CodeClash`, which names the command that resumes it.
        """
        return self._to_write().recover()

    def stop(self, why: str = "") -> None:
        """Make the runs of this Holdfast stop at their next step boundary, and `serve` return; `close` waits
        for the runs."""
        why = why or "its Holdfast was stopped"
        for call in list(self._serve_calls):
            call.stop(why)
        if self._opened_engine is not None:
            self._opened_engine.stop(why)


def _named(budget: str) -> str:
    """The name of a budget, if it can be one."""
    from holdfast.kernel.amounts import check_name

    return check_name(budget)


def wrap_streams() -> None:
    """Keep what steps print after a program has replaced `sys.stdout` and `sys.stderr`."""
    from holdfast.engine.execution import step_output

    step_output.wrap()


class WithId:
    """A Holdfast that starts its next run under a given id, for a task, or with a budget."""

    def __init__(
        self, holdfast: Executing, run_id: str | None, task: str | None = None, budget: str = ""
    ) -> None:
        self._holdfast = holdfast
        self._run_id = run_id
        self._task = task
        self._budget = budget

    def with_id(self, run_id: str) -> WithId:
        """The same under an id: `hf.with_task(ID).with_id("kelp-1")`."""
        return WithId(self._holdfast, check_run_id(run_id), self._task, self._budget)

    def with_task(self, task: str) -> WithId:
        """The same for a task: `hf.with_id("kelp-1").with_task(ID)`."""
        return WithId(self._holdfast, self._run_id, task, self._budget)

    def with_budget(self, budget: str) -> WithId:
        """The same with a budget: `hf.with_id("kelp-1").with_budget("team")`."""
        return WithId(self._holdfast, self._run_id, self._task, _named(budget))

    def deliver(self, goal: str, **options: Any) -> Run[dict[str, Any]]:
        """`hf.deliver(goal, ...)` under that id, for that task, with that budget."""
        delivering = cast("Delivering", self._holdfast)
        return delivering.deliver(goal, run_id=self._run_id, task=self._task, budget=self._budget, **options)

    def start(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]:
        if self._task is not None:
            refuse_in_loop("claiming a task blocks", "await hf.aio.with_task(...).start(...)")
        engine = self._holdfast._to_write()
        run_id = self._holdfast._claimed_for(self._run_id, self._task)
        return engine.start(workflow, args, kwargs, run_id, task=self._task or "", budget=self._budget)

    def run(self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        refuse_in_loop("run() blocks", "await hf.with_id(...).start(...)")
        engine = self._holdfast._to_write()
        run_id = self._holdfast._claimed_for(self._run_id, self._task)
        result: R = engine.run(workflow, args, kwargs, run_id, self._task or "", self._budget)
        return result
