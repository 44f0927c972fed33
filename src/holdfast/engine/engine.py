"""The engine: starts, resumes and recovers runs on a store it knows only by its port."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.clock import Clock
from holdfast.colour import in_loop
from holdfast.engine.execution import step_output
from holdfast.engine.execution.arguments import own_copies
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.flusher import Flusher
from holdfast.engine.execution.notices import print_stopping
from holdfast.engine.execution.scope import current
from holdfast.engine.files.workspaces import Files
from holdfast.engine.outside.event_callback import EventCallback
from holdfast.engine.outside.records import LogEvent
from holdfast.engine.outside.unknown_run import gone, missing
from holdfast.engine.ownership.claim_locks import ClaimLocks
from holdfast.engine.ownership.heartbeat import Heartbeat
from holdfast.engine.ownership.owners import Owner
from holdfast.engine.ownership.unreleased import Unreleased
from holdfast.engine.runs import code as codes
from holdfast.engine.runs import launching, recovery
from holdfast.engine.runs.ancestry import Ancestry
from holdfast.engine.runs.attaching import Attaching
from holdfast.engine.runs.claim import ID_TAKEN, begin, check_creation, claim, claim_fresh, claim_fresh_soon
from holdfast.engine.runs.code_location import Location
from holdfast.engine.runs.follower import Follower
from holdfast.engine.runs.lifecycle import in_one_piece
from holdfast.engine.runs.loop_thread import LoopThread
from holdfast.engine.runs.run import Run, resumable, warn_if_unasked
from holdfast.engine.runs.workflow import WorkflowBase
from holdfast.errors import BadInput, RunInterrupted, StoreClosed, WrongColour
from holdfast.kernel import codec
from holdfast.kernel import commands as c
from holdfast.kernel.events import NOTHING, Code, RunClaimed
from holdfast.kernel.identity import check_run_id
from holdfast.redaction import Redactor
from holdfast.store.port import Append, Store
from holdfast.thread_pool import ThreadPool

if TYPE_CHECKING:
    from holdfast.engine.execution.mailbox import Mailbox
    from holdfast.engine.runs.workflow import AsyncWorkflow, Workflow
    from holdfast.kernel.state import RunState
    from holdfast.store.port import Companion, NewEvent

    AnyWorkflow = Workflow[Any, Any] | AsyncWorkflow[Any, Any]


_LOOK_EVERY_S = 0.1
_ID_DIGITS = 16


Companions = Callable[[str, "RunState", Sequence["NewEvent"]], Sequence["Companion"]]
"""(run, its state, events to append) → what is committed with them. It must not refuse."""


class Options(msgspec.Struct, frozen=True):
    """The settings that the engine needs."""

    flush_after_s: float = 0.005
    blob_over: int = 32 * 1024
    resume: bool = True
    checkpoint_every: int = 0
    recover_limit: int = 8
    crash_loop_after: int = 5
    tool_repeats: int = 20
    capture_output: bool = True


def _finish_none(_engine: Engine, _operation: str) -> bool:
    return False


def _no_handler(_engine: Engine, name: str) -> Any:
    raise BadInput(f"this engine was opened without a {name}")


class Engine:
    """Executes runs in this process. Closing it stops them at their next step boundary."""

    def __init__(
        self,
        store: Store,
        home: Path,
        clock: Clock,
        redactor: Redactor,
        options: Options,
        on_event: Callable[[LogEvent], None] | None = None,
        on_output: Callable[[str, str, str, str], None] | None = None,
        files: Files | None = None,
        location: Location | None = None,
        finish_operation: Callable[[Engine, str], bool] = _finish_none,
        after_work: Callable[[Engine], None] | None = None,
        companions: Companions | None = None,
        handlers: Callable[[Engine, str], Any] = _no_handler,
    ) -> None:
        """`companions` gives what is committed with an append of a run that was started for a task.
        `finish_operation` brings an operation on a run that was cut off to its end; it returns False if
        another process is at it. `after_work` is called when the engine closes, if runs have worked on
        files. `handlers` gives the governor, the router and their like, by name."""
        if options.capture_output:
            step_output.begin(self)
        self.store = store
        self.home = home
        self.clock = clock
        self.redactor = redactor
        self.options = options
        self.event_callback = None if on_event is None else EventCallback(self, on_event)
        self.on_output = on_output
        """(run id, step, stdout or stderr, text) of commands, live; beside the log, not instead of it."""
        self.files = files or Files(home, None)
        self.location = location or Location(home, None)
        self.finish_operation = partial(finish_operation, self)
        self._after_work = after_work
        self.companions = companions
        self.handler = partial(handlers, self)
        self.heartbeat = Heartbeat(self)
        self.flusher = Flusher(self, options.flush_after_s)
        self.follower = Follower(self)
        self.attaching = Attaching(self)
        self.live: dict[str, tuple[Execution, Run[Any]]] = {}
        self.claim_locks = ClaimLocks()
        self.unreleased = Unreleased(self)
        self.ancestry = Ancestry(self)
        self.unasked: set[Run[Any]] = set()
        """Runs that were started in an event loop: `hf.start(...)` without `await` loses their errors."""
        self.replays: Counter[str] = Counter()
        """How often the replay of a run began again because threads of its code blocked each other."""
        self.lock = threading.Lock()
        self._owner: Owner | None = None
        self._threads: ThreadPool | None = None
        self._claimers: ThreadPool | None = None
        self._mailboxes: dict[int, Mailbox] = {}
        self._loop_thread: LoopThread | None = None
        self._closed = False
        self.left_open = False
        """A second Ctrl-C did not wait for steps that were running: the process still holds their runs."""
        self.closing = ""
        """Why runs may not continue, once they may not."""
        self._pid = os.getpid()

    # Starting

    def start(
        self,
        workflow: AnyWorkflow,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        run_id: str | None = None,
        code: Code | None = None,
        task: str = "",
        budget: str = "",
    ) -> Run[Any]:
        """Start a run of the workflow in the background; an id that exists resumes that run. `code`
        says how the run is called and found again, where the workflow itself does not (a command). `task` is
        what it is started for, and `budget` pays for its steps."""
        self._check_open()
        _check_workflow(workflow)
        args, kwargs = own_copies(args, kwargs)
        create, blobs = self.creation(workflow, args, kwargs, run_id, code, task, budget)
        attached = self.attached(create)
        if attached is not None:
            return attached
        run: Run[Any] = Run(self, create.run_id)
        if run_id is not None:
            claim_it = partial(claim, self, run_id, create=create, blobs=blobs)
            return launching.launch(self, run, workflow, (args, kwargs), claim_it)
        claim_it = partial(claim_fresh, self, run, create, blobs)
        # The first claim of a Holdfast makes its owner, and waits for the disk to do so.
        claim_soon = partial(claim_fresh_soon, self, run, create, blobs) if self._owner is not None else None
        return launching.launch(self, run, workflow, (args, kwargs), claim_it, claim_soon)

    def check_start(
        self, workflow: AnyWorkflow, args: Sequence[Any], kwargs: dict[str, Any], run_id: str, task: str
    ) -> None:
        """Raise what `start` would raise with these arguments, and `RunExists` for a run that was started for
        another task, as far as that can be known before anything is written."""
        self._check_open()
        create, _ = self.creation(workflow, args, kwargs, run_id, task=task)
        check_creation(self, create)

    def run(
        self,
        workflow: AnyWorkflow,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        run_id: str | None = None,
        task: str = "",
        budget: str = "",
    ) -> Any:
        """Execute the workflow and give its result. A `def` workflow runs in the caller's thread."""
        self._check_open()
        _check_workflow(workflow)
        if workflow.is_async:
            return self.start(workflow, args, kwargs, run_id, task=task, budget=budget).result()
        if run_id is not None:
            return self._run(workflow, args, kwargs, run_id, task=task, budget=budget)
        while True:
            minted = self.mint_id()
            try:
                return self._run(workflow, args, kwargs, minted, is_new=True, budget=budget)
            except ID_TAKEN:
                if not self._is_taken(minted):
                    raise
                # Nothing of it was recorded, as if this process had died before that: it begins again.

    def _is_taken(self, run_id: str) -> bool:
        """Whether the run of this id is, or was, another one than this owner tried to begin."""
        if gone(self.store, run_id) is not None:
            return True
        claims = [event for event, *_ in self.store.history(run_id) if isinstance(event, RunClaimed)]
        return bool(claims) and not any(self.owns(claim.owner) for claim in claims)

    def _run(
        self,
        workflow: AnyWorkflow,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        run_id: str,
        *,
        is_new: bool = False,
        task: str = "",
        budget: str = "",
    ) -> Any:
        args, kwargs = own_copies(args, kwargs)
        create, blobs = self.creation(workflow, args, kwargs, run_id, task=task, budget=budget, is_new=is_new)
        attached = self.attached(create)
        if attached is not None:
            return attached.result()
        birth: Append | None = None
        run: Run[Any] = Run(self, create.run_id)
        try:
            with in_one_piece(self, run):
                if is_new:
                    claimed, birth = begin(self, create, blobs)
                else:
                    # This commit need not wait for the disk: the run is not known outside before its result,
                    # and the first commit that does wait takes this one with it.
                    claimed = claim(self, run_id, create=create, blobs=blobs, durable=False)
                launching.run_here(self, run, workflow, (args, kwargs), claimed, birth)
        except KeyboardInterrupt as error:  # while it waited at a gate
            raise resumable(error, run.id) from None
        try:
            return run.result()
        except RunInterrupted as error:
            # Ctrl-C and sys.exit belong to the caller, in whose thread the workflow ran.
            if isinstance(error.__cause__, (KeyboardInterrupt, SystemExit)):
                raise resumable(error.__cause__, run.id) from None
            raise

    def resume(
        self,
        run_id: str,
        *,
        take_over: bool = False,
        keep_files: bool = False,
        stay: bool = True,
        known: RunState | None = None,
    ) -> Run[Any]:
        """Continue a run; a failed one tries its failed step again. `keep_files` keeps what earlier
        attempts of its `workspace` steps did. Without `stay` it is left to others when it is parked: its
        handle raises `RunWaiting`. `known` is its state at some version, and the engine's from now on: only
        what came after it is read."""
        self._check_open()
        run_id = check_run_id(run_id) if in_loop() else self.known(run_id)
        run: Run[Any] = Run(self, run_id)
        claim_it = partial(
            recovery.claim_to_resume, self, run_id, take_over=take_over, keep_files=keep_files, known=known
        )
        return launching.launch(self, run, None, None, claim_it, stay=stay)

    def attach(self, run_id: str) -> Run[Any]:
        """A handle that follows a run and never executes it. In a running event loop, `await` raises
        `RunNotFound` if there is no such run."""
        self._check_open()
        return self.attaching.attach(check_run_id(run_id) if in_loop() else self.known(run_id))

    def recover(self) -> list[Run[Any]]:
        """Drive every run that no process executes, a few at a time, to its end or to where it waits; returns
        their handles."""
        return recovery.recover(self)

    def creation(
        self,
        workflow: AnyWorkflow,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        run_id: str | None,
        code: Code | None = None,
        task: str = "",
        budget: str = "",
        *,
        is_new: bool = False,
    ) -> tuple[c.CreateRun, Sequence[tuple[str, bytes]]]:
        """The command that creates the run, its arguments encoded. `is_new`: no run has the id yet."""
        if run_id is None:
            run_id, is_new = self.mint_id(), True
        else:
            check_run_id(run_id)
        digested = workflow.signature.digest(args, kwargs)
        where = f"an argument of workflow {workflow.name}"
        value, blob, blobs = self.store_value((tuple(args), kwargs), where)
        code = self.location.record(code or codes.code_of_call(workflow, args, kwargs))
        older = () if is_new else codes.older_digests(workflow, args, kwargs)
        create = c.CreateRun(
            run_id, code, digested.digest, value, blob, older=older, task=task, budget=budget
        )
        return create, blobs

    def mint_id(self) -> str:
        """A random id for a new run, 16 hex digits, which no live run of this process has. Whether the store
        has it shows when the run is written: a read before each run would cost more than it is worth."""
        while True:
            minted = self.clock.uuid().hex[:_ID_DIGITS]
            if minted not in self.live:
                return minted

    def attached(self, create: c.CreateRun) -> Run[Any] | None:
        """The handle of the run if this very process executes it already."""
        with self.lock:
            live = self.live.get(create.run_id)
        if live is None:
            return None
        from holdfast.kernel.decide import decide

        decide(live[0].state, create)
        return live[1]

    # Values

    def store_value(self, value: object, where: str) -> tuple[msgspec.Raw, str, Sequence[tuple[str, bytes]]]:
        """(inline, blob hash, blobs to write): a large value goes beside the log, in the same commit."""
        data = codec.encode(value, where)
        if len(data) <= self.options.blob_over:
            return msgspec.Raw(data), "", ()
        name = hashlib.sha256(data).hexdigest()
        return NOTHING, name, ((name, data),)

    def load_value(self, inline: msgspec.Raw, blob: str) -> Any:
        return codec.decode(self.store.blob(blob) if blob else inline)

    # Ownership

    @property
    def owner_id(self) -> str:
        """This process as an owner; born at the first claim."""
        owner = self._owner
        if owner is None:
            with self.lock:
                if self._owner is None:
                    self._owner = Owner(self.home, self.store, self.clock)
                owner = self._owner
        return owner.id

    def owns(self, owner_id: str) -> bool:
        """Whether that owner is this process, which may not have been born as one."""
        return self._owner is not None and self._owner.id == owner_id

    def beat(self) -> None:
        """Leave a sign of life of this owner."""
        if self._owner is not None:
            self._owner.beat()

    # Finding runs

    def known(self, run_id: str) -> str:
        """The id itself, if there is such a run. Programs name runs in full; the CLI takes prefixes."""
        if self.store.run(check_run_id(run_id)) is None:
            raise missing(self.store, run_id)
        return run_id

    # Callbacks

    def report(self, append: Append) -> None:
        """Report an acknowledged append to the program's callback."""
        if self.event_callback is not None:
            self.event_callback.report(append)

    def note(self, append: Append) -> None:
        """Report it a moment later, by the flusher, without waiting. One that was refused or failed has a
        version, too: that of what the log has, or will have, in its place."""
        if self.event_callback is not None and append.error is None:
            self.event_callback.note(append)

    def report_up_to(self, run_id: str, version: int) -> None:
        """Report what others have written to a run of this process."""
        if self.event_callback is not None:
            self.event_callback.report_up_to(run_id, version)

    # Threads and loops

    def threads(self) -> ThreadPool:
        """Where `def` bodies of async workflows run."""
        with self.lock:
            if self._threads is None:
                self._threads = ThreadPool(64, "holdfast-body")
            return self._threads

    def claimers(self) -> ThreadPool:
        """Where runs of an event loop are claimed: never behind a program's own work."""
        with self.lock:
            if self._claimers is None:
                self._claimers = ThreadPool(4, "holdfast-claim")
            return self._claimers

    def mailbox(self) -> Mailbox:
        """The mailbox of the running loop."""
        import asyncio

        from holdfast.engine.execution.mailbox import Mailbox

        loop = asyncio.get_running_loop()
        box = self._mailboxes.get(id(loop))
        if box is None or box.loop is not loop:
            box = Mailbox(loop)
            with self.lock:
                boxes = [one for one in self._mailboxes.values() if not one.loop.is_closed()]
                self._mailboxes = {id(one.loop): one for one in (*boxes, box)}
        return box

    def loop_thread(self) -> LoopThread:
        """The event loop for async workflows that are started from plain code."""
        with self.lock:
            if self._loop_thread is None:
                self._loop_thread = LoopThread()
            return self._loop_thread

    # Closing

    def stop(self, why: str) -> list[Run[Any]]:
        """Make all runs, also those that are still being claimed, stop at their next step boundary, and
        continue none that is parked; returns the handles of those that are live."""
        with self.lock:
            self.closing = why
            live = list(self.live.values())
        for execution, _ in live:
            execution.interrupt(why)
        self.follower.close()
        return [run for _, run in live]

    def close(self, *, interrupted: bool | None = None) -> None:
        """Stop the runs, wait for them, and release everything. `interrupted` says whether Ctrl-C closes it;
        by default, whether the caller handles one."""
        if interrupted is None:
            interrupted = isinstance(sys.exception(), KeyboardInterrupt)
        if self._closed or os.getpid() != self._pid:
            return  # in a forked child there is nothing of its own to close
        self.refuse_to_block_own_runs()
        self._closed = True
        self.attaching.close()  # a live run may wait for one that is attached
        self._wait_for_runs(self.stop("its Holdfast was closed"), interrupted=interrupted)
        if not self.left_open:
            self.release()

    def _wait_for_runs(self, runs: Sequence[Run[Any]], *, interrupted: bool) -> None:
        """Wait until they have ended here. If Ctrl-C closes this engine, a second one does not wait: then all
        stays open, and the lock of this owner is held, until the process ends."""
        try:
            if interrupted and not all(run.done() for run in runs):
                print_stopping()
            for run in runs:
                while not run._ended.wait(_LOOK_EVERY_S):
                    pass  # Ctrl-C wakes no thread that waits for ever
        except KeyboardInterrupt:
            if not interrupted:
                raise
            self.left_open = True
        with self.lock:
            self.left_open |= any(execution.left_behind for execution, _ in self.live.values())

    def refuse_to_block_own_runs(self) -> None:
        """Raises `WrongColour` where closing would wait for the code that closes."""
        if os.getpid() != self._pid:
            return
        scope = current.get()
        inside = None if scope is None else scope.execution
        mine = self.mailbox() if in_loop() else None
        with self.lock:
            live = [execution for execution, _ in self.live.values()]
        for execution in live:
            if execution.left_behind:
                continue
            if mine is not None and execution.mailbox is mine:
                raise WrongColour(
                    f"closing waits for run {execution.id}, which runs in this very event loop: "
                    "open it with `async with Holdfast(...)`"
                )
            is_own_thread = execution.mailbox is None and execution.thread == threading.get_ident()
            if execution is inside or is_own_thread:
                raise WrongColour(f"closing waits for run {execution.id}, and is called from inside it")

    def release(self) -> None:
        """After the last run has stopped: give everything back."""
        self._closed = True
        for run in self.unasked:
            warn_if_unasked(run)
        self.unasked.clear()
        step_output.end(self)
        self.follower.close()
        if self._loop_thread is not None:
            self._loop_thread.close()
        self.flusher.close()
        self.heartbeat.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        if self._claimers is not None:
            self._claimers.shutdown()  # abandoned claims are released before the store closes
        if self._owner is not None:
            self._owner.close()
        if self._after_work is not None and self.files.worked:
            self._after_work(self)
        self.files.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("this Holdfast is closed; open another one")
        codes.refuse_while_loading()


def _check_workflow(given: object) -> None:
    if not isinstance(given, WorkflowBase):
        name = getattr(given, "__name__", None) or repr(given)
        raise BadInput(f"{name} is no workflow, so it could not be found again: put @workflow above it")
