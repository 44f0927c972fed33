"""`Holdfast`: what a program opens to start, steer and read runs.

    with Holdfast() as hf:
        text = hf.run(report, ["kelp"])

One open Holdfast is one owner of runs. It belongs to the process that opened it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from holdfast import wiring
from holdfast.engine import steering
from holdfast.engine.code import refuse_while_loading
from holdfast.engine.reading import Reading
from holdfast.engine.records import LogEvent, LogLine, RunInfo, StepInfo
from holdfast.engine.run import Run, refuse_in_loop
from holdfast.engine.settling import settle
from holdfast.engine.steering import user
from holdfast.errors import BadInput, RunNotFound
from holdfast.kernel.identity import check_run_id

if TYPE_CHECKING:
    from typing import Self

    from holdfast.async_handle import AsyncHoldfast
    from holdfast.clock import Clock
    from holdfast.engine.workflow import AsyncWorkflow, Workflow
    from holdfast.operations.checkpoints import CheckpointInfo
    from holdfast.operations.diffing import FileDiff
    from holdfast.operations.forking import Fork
    from holdfast.operations.journal import OperationInfo
    from holdfast.operations.rewinding import Rewind
    from holdfast.operations.undoing import Undo

P = ParamSpec("P")
R = TypeVar("R")

UNSET: Any = object()
PATIENCE_S = 10.0


class Holdfast:
    """An open store with its engine; a context manager, sync and async.

    home        the store's directory (default: the project's, as the CLI finds it)
    workspace   the directory whose files runs work on, saved and put back with them (default: the project's
                root, or none where `home` is given and no setting names one)
    durability  "full": what is acknowledged survives a power cut; "process": it survives kill -9
    on_event    called with every event of the runs that this Holdfast executes, once it is in the log,
                redacted as `events()` gives it; those of a run one after the other, in the log's order. It
                must not wait for its run
    """

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        workspace: str | os.PathLike[str] | None = None,
        durability: Literal["full", "process"] | None = None,
        on_event: Callable[[LogEvent], None] | None = None,
        on_output: Callable[[str, str, str, str], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        refuse_while_loading()
        flags = {
            "home": None if home is None else os.fspath(home),
            "workspace": None if workspace is None else os.fspath(workspace),
            "durability": durability,
        }
        self._place = wiring.find_place(flags, project_files=home is None)
        self.home = self._place.home
        wiring.tell_of_other_store(self._place)
        self._store = wiring.open_store(self._place)
        try:
            self._engine = wiring.open_engine(
                self._place, self._store, clock=clock, on_event=on_event, on_output=on_output
            )
        except BaseException:
            self._store.close()
            raise
        self._reading = Reading(self._store, self.home, lambda: self._engine.redactor)

    # Executing

    def start(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]:
        """Start a run that goes on by itself; durable when this returns.

        In a running event loop it returns at once: the run is durable, and `RunHeld` or `RunExists`
        raised, at the first `await`.
        """
        return self._engine.start(workflow, args, kwargs)

    def run(self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Execute a workflow and return its result."""
        refuse_in_loop("hf.run() blocks", "await hf.start(...)")
        result: R = self._engine.run(workflow, args, kwargs)
        return result

    def with_id(self, run_id: str) -> WithId:
        """`hf.with_id("kelp-1").run(...)`: an id that exists goes on with that run, or gives its result
        or its error. With other arguments it raises `RunExists`; a run that a person paused `RunPaused`."""
        return WithId(self, check_run_id(run_id))

    def resume(self, run_id: str, take_over: bool = False, keep_files: bool = False) -> Run[Any]:
        """Go on with a run: an interrupted one where it stopped, a failed one with its failed step.

        The changes of a failed or cut-off attempt of a `workspace` step to files and git repository are
        rolled back before the step runs again; `keep_files` keeps them. Raises `RunHeld` if a live process
        executes it; `take_over` goes past one that hangs.
        """
        return self._engine.resume(run_id, take_over=take_over, keep_files=keep_files)

    def recover(self) -> list[Run[Any]]:
        """Drive every run whose owner is dead to its end, a few at a time. Opening alone never does.

        A run whose code would mix its modules with those of this process is not executed: its handle
        raises `CodeClash`, which names the command that resumes it.
        """
        refuse_in_loop("hf.recover() blocks", "await hf.aio.recover()")
        return self._engine.recover()

    def settle(
        self,
        run_id: str,
        step: str,
        *,
        done: Any = UNSET,
        retry: bool = False,
        fail: str | None = None,
        by: str = "",
    ) -> str:
        """Say what became of a step in doubt: `done=VALUE`, `retry=True` or `fail="why"`."""
        refuse_in_loop("hf.settle() blocks", "await hf.aio.settle(...)")
        if (done is not UNSET) + retry + (fail is not None) != 1:
            raise BadInput("settle takes exactly one of done=VALUE, retry=True, fail='why'")
        outcome: Literal["done", "retry", "fail"] = (
            "retry" if retry else "fail" if fail is not None else "done"
        )
        value = None if done is UNSET else done
        return settle(self._engine, self._engine.known(run_id), step, outcome, value, fail or "", by)

    # Steering: from any process, whether or not somebody executes the run

    def approve(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
    ) -> str:
        """Approve what a run shows; returns the gate's identity. `gate` is needed if several are open;
        `digest`, or its first characters, is that of what you have seen. Raises `GateError`."""
        refuse_in_loop("hf.approve() blocks", "await hf.aio.approve(...)")
        return self._decide(run_id, "approved", gate, digest, by, comment)

    def reject(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
    ) -> str:
        """The same, with the other answer."""
        refuse_in_loop("hf.reject() blocks", "await hf.aio.reject(...)")
        return self._decide(run_id, "rejected", gate, digest, by, comment)

    def _decide(
        self,
        run_id: str,
        outcome: Literal["approved", "rejected"],
        gate: str | None,
        digest: str | None,
        by: str | None,
        comment: str | None,
    ) -> str:
        by = user() if by is None else by
        known = self._engine.known(run_id)
        return steering.decide_gate(self._engine, known, outcome, gate or "", digest or "", by, comment or "")

    def signal(self, run_id: str, name: str, value: Any = None, *, by: str | None = None) -> bool:
        """Give a run the value that its `wait_for(name)` waits for; returns whether one did. Otherwise it
        is kept for the next one."""
        refuse_in_loop("hf.signal() blocks", "await hf.aio.signal(...)")
        by = user() if by is None else by
        return steering.send_signal(self._engine, self._engine.known(run_id), name, value, by)

    def pause(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        """Let a run stop at its next step boundary, until it is resumed; returns its status, which is
        `paused` unless its owner took longer than `patience` seconds to come there."""
        refuse_in_loop("hf.pause() blocks", "await hf.aio.pause(...)")
        by = user() if by is None else by
        return steering.pause(self._engine, self._engine.known(run_id), reason, by, patience)

    def cancel(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        """End a run, the commands and async steps that run in it, and its child runs; returns its status,
        which is `cancelled` unless its owner took longer than `patience` seconds to end it."""
        refuse_in_loop("hf.cancel() blocks", "await hf.aio.cancel(...)")
        by = user() if by is None else by
        return steering.cancel(self._engine, self._engine.known(run_id), reason, by, patience)

    # Going back

    def rewind(
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
        """Go back to the checkpoint or step `to`, which is kept: what was recorded after it no longer counts,
        and runs again, with other idempotency keys, when the run is resumed. The files of the workspace go
        back with it, but for what somebody else changed. Nothing is lost: `undo` brings it back.

        only        patterns as in .gitignore: only these files go back, and the run stays where it is
        theirs      also take back what somebody else changed
        files       False leaves the files as they are
        partial     go on without files whose saved content is damaged
        git         take back what the run did to the git repository, too
        rerun_once  `once` steps that were done after that point may run again
        dry_run     nothing is written, and what would be done returned

        Raises `RunHeld` if a live process executes the run.
        """
        refuse_in_loop("hf.rewind() writes to the store", "await hf.aio.rewind(...)")
        known, me = self._engine.known(run_id), user()
        from holdfast.operations.rewinding import rewind

        return rewind(
            self._engine, known, to, by=me, only=tuple(only or ()), theirs=theirs, files=files,
            partial=partial, git=git, rerun_once=rerun_once, dry_run=dry_run,
        )  # fmt: skip

    def undo(
        self,
        operation: str | None = None,
        *,
        partial: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
    ) -> Undo:
        """Take back an operation, also an undo, with its files; without its id, your own last one."""
        refuse_in_loop("hf.undo() writes to the store", "await hf.aio.undo(...)")
        from holdfast.operations.undoing import undo

        return undo(
            self._engine, operation, by=user(), partial=partial, rerun_once=rerun_once, dry_run=dry_run
        )

    def operations(self, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
        """What was done to runs and can be taken back, the newest first."""
        refuse_in_loop("hf.operations() reads the store", "await hf.aio.operations(...)")
        from holdfast.operations import journal

        return journal.log(self._store, run_id=run_id, limit=limit)

    def fork(
        self,
        run_id: str,
        at: str,
        into: str | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
    ) -> Fork:
        """A new run, paused, that has the results of all that `run_id` had done before the step `at`, or up
        to and with the checkpoint `at`. Its id is `into`, or a new one; `resume` lets it go on."""
        refuse_in_loop("hf.fork() writes to the store", "await hf.aio.fork(...)")
        from holdfast.operations.forking import fork

        place = None if directory is None else Path(directory)
        return fork(self._engine, self._engine.known(run_id), at, by=user(), into=into, directory=place)

    # Reading

    def get(self, run_id: str) -> RunInfo:
        """What the store knows of a run. Raises `RunNotFound`."""
        refuse_in_loop("hf.get() reads the store", "await hf.aio.get(...)")
        found = self._reading.run(self._engine.known(run_id))
        if found is None:
            raise RunNotFound(run_id)
        return found

    def runs(
        self, status: str | None = None, resumable: bool | None = None, limit: int | None = None
    ) -> list[RunInfo]:
        """Runs, the newest first."""
        refuse_in_loop("hf.runs() reads the store", "await hf.aio.runs(...)")
        return self._reading.runs(status=(status,) if status else (), resumable=resumable, limit=limit)

    def steps(self, run_id: str) -> list[StepInfo]:
        """A run's steps, in the order in which they were last changed."""
        refuse_in_loop("hf.steps() reads the store", "await hf.aio.steps(...)")
        return self._reading.steps(self._engine.known(run_id))

    def events(self, run_id: str) -> list[LogEvent]:
        """Everything that happened to a run, in order."""
        refuse_in_loop("hf.events() reads the store", "await hf.aio.events(...)")
        return list(self._reading.events(self._engine.known(run_id)))

    def logs(self, run_id: str, step: str | None = None) -> list[LogLine]:
        """What the run's commands printed, redacted."""
        refuse_in_loop("hf.logs() reads the store", "await hf.aio.logs(...)")
        return [line for _, line in self._reading.logs(self._engine.known(run_id), step)]

    def diff(self, run_id: str, a: str, b: str | None = None) -> list[FileDiff]:
        """What changed in the files from `a` to `b`, or to what is on the disk. Each is a checkpoint, a step
        (as it left the files), `before:STEP`, or `disk`."""
        refuse_in_loop("hf.diff() reads files", "await hf.aio.diff(...)")
        from holdfast.operations.diffing import diff

        return diff(self._engine, self._engine.known(run_id), a, b)

    def checkpoints(self, run_id: str, *, every: bool = False) -> list[CheckpointInfo]:
        """The named points to which the run can be rewound, in order; `every` one, also those of generations
        that were left, whose `live` is False."""
        refuse_in_loop("hf.checkpoints() reads the store", "await hf.aio.checkpoints(...)")
        from holdfast.operations.checkpoints import checkpoints

        known = self._engine.known(run_id)
        return checkpoints(self._store, self._engine.redactor, known, every=every)

    # Keeping

    def backup(
        self, path: str | os.PathLike[str] | None = None, *, force: bool = False, files: bool | None = None
    ) -> Path:
        """Copy the store while runs continue, verify the copy, and return its path. The files that runs have
        saved are in it, unless `files` or the setting `backup_files` says otherwise.

        `path` is a directory or a file; without it the backup goes to the backup directory, and the
        oldest ones there are removed. A file that is there and is no backup is overwritten only with
        `force`. Raises `StoreFull` if there is no room; then there is no file.
        """
        refuse_in_loop("hf.backup() copies the store", "await hf.aio.backup(...)")
        made, _ = wiring.back_up(
            self._place, self._store, path, force=force, files=files, clock=self._engine.clock
        )
        return made.path

    @property
    def aio(self) -> AsyncHoldfast:
        """Every method that reads or writes, for use in an event loop."""
        from holdfast.async_handle import AsyncHoldfast

        return AsyncHoldfast(self)

    # Opening and closing

    def close(self) -> None:
        """Stop the live runs at their next step boundary, release them, and close the store."""
        self._engine.close()
        if not self._engine.left_open:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from holdfast.engine.aio import in_thread

        await in_thread(self.close)


class WithId:
    """A Holdfast that starts its next run under a given id."""

    def __init__(self, holdfast: Holdfast, run_id: str) -> None:
        self._holdfast = holdfast
        self._run_id = run_id

    def start(
        self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]:
        return self._holdfast._engine.start(workflow, args, kwargs, self._run_id)

    def run(self, workflow: Workflow[P, R] | AsyncWorkflow[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        refuse_in_loop("run() blocks", "await hf.with_id(...).start(...)")
        result: R = self._holdfast._engine.run(workflow, args, kwargs, self._run_id)
        return result
