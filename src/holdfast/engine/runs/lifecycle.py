"""A run from claim to end, in either colour.

The two `execute` functions run the function and write down what `ending.conclude` says about its end.
Whatever way a driver ends, its run is released. One that is parked is handed to the follower, which lets it
be claimed and executed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.execution.call import Outcome
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.parking import Parked
from holdfast.engine.execution.scope import NEVER, Deadline, Scope, current, live_runs
from holdfast.engine.files import file_windows
from holdfast.engine.outside import steering
from holdfast.engine.runs import code as codes
from holdfast.engine.runs.claim import Claimed, give_back, release_quietly
from holdfast.engine.runs.ending import conclude, ended, failed_at
from holdfast.engine.runs.run import Run
from holdfast.errors import (
    HoldfastError,
    NotAwaited,
    Refused,
    RunInterrupted,
)
from holdfast.kernel import commands as c
from holdfast.kernel.identity import Counters
from holdfast.store.port import Append
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

Arguments = tuple[Sequence[Any], dict[str, Any]]
OnPark = Callable[[Parked], None]
"""A callback for a run that was parked, called when it is released."""


class Ended(NamedTuple):
    """How an execution ended, and whether the log is known to say that no process executes the run."""

    outcome: Outcome
    released: bool


_DIED = Outcome(None, HoldfastError("the driver died"))


def _cancel_descendants(engine: Engine, cancel: c.CancelRun) -> None:
    """Before the run ends: if this process dies in between, it is still to be cancelled, and they with it."""
    steering.cancel_children(engine, cancel.run_id, cancel.reason, cancel.by)


def _enlist(
    engine: Engine, run: Run[Any], claimed: Claimed, *, is_async: bool, birth: Append | None = None
) -> Execution:
    execution = Execution(
        engine,
        run.id,
        claimed.state,
        is_async=is_async,
        birth=birth,
        forced=claimed.forced,
        was_live=claimed.was_live,
        keeps_files=claimed.keeps,
    )
    with engine.lock:
        engine.live[run.id] = (execution, run)
        closing = engine.closing
        parent = engine.live.get(claimed.state.parent)
    if closing:  # it was claimed meanwhile: no step of it may begin
        execution.interrupt(closing)
    if parent is not None and parent[0].control is not None:
        execution.stop_with(parent[0].control)
    live_runs.add(execution)
    engine.claim_locks.leave(run.id)
    if engine.event_callback is not None:
        engine.event_callback.begin(run.id, claimed.state.version if birth is None else 0)
    if execution.birth is not None:
        engine.flusher.watch(execution.birth)
    return execution


def follow_handle(run: Run[Any], attached: Run[Any]) -> None:
    """Another thread executes the run: this handle ends as that one does."""
    attached._when_ended(lambda: run.finish(attached._outcome))


def _dismiss(engine: Engine, run_id: str, *, released: bool) -> None:
    """No process executes the run here any more. Can be repeated: the run is live until all else is done. If
    it is not known that the log has it, too, it is released later."""
    engine.claim_locks.leave(run_id)
    live = engine.live.get(run_id)
    if live is not None:
        if not released:
            engine.unreleased.add(run_id, live[0].epoch)
        live[0].forget_birth()
        live_runs.discard(live[0])
    with engine.lock:
        engine.live.pop(run_id, None)


def _cut_off(run_id: str, by: BaseException) -> Outcome:
    """Something, Ctrl-C most likely, came outside the function: before it began, or while its end was
    written. Whatever of it is written, the run is to be released."""
    if isinstance(by, Exception):
        return Outcome(None, by)
    error = RunInterrupted(run_id, f"it was interrupted ({type(by).__name__})")
    error.__cause__ = by
    return Outcome(None, error)


@contextmanager
def in_one_piece(engine: Engine, run: Run[Any]) -> Iterator[None]:
    """Around a claim and the execution that follows it in this thread. Ctrl-C can fall between any two lines
    of them: wherever it does, the run is released, and no thread here takes it for claimed or executed."""
    try:
        yield
    except BaseException as error:
        live = engine.live.get(run.id)
        executes = live is not None and live[0].mailbox is None and live[0].thread == threading.get_ident()
        if executes and live is not None and live[0].left_behind:
            raise  # it is released when its threads have ended
        if engine.claim_locks.cut_off(run.id) or executes:
            _dismiss(engine, run.id, released=release_quietly(engine, run.id))
            if not run.done():
                run.finish(_cut_off(run.id, error))
        raise


# Synchronous


def execute(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claimed: Claimed,
    on_park: OnPark,
    deadline: Deadline = NEVER,
    birth: Append | None = None,
) -> None:
    """Execute a claimed run in this thread, to its end or to where it stops. `deadline` is the parent's;
    `birth` is what the log does not have of it yet."""
    state = claimed.state
    if claimed.attached is not None:
        follow_handle(run, claimed.attached)
        return
    if state.ended:
        run.finish(ended(engine, run.id, state), failed_at(state))
        return
    outcome, released, alias = _DIED, False, None
    execution: Execution | None = None
    try:
        execution = _enlist(engine, run, claimed, is_async=False, birth=birth)
        alias = codes.enter(state.code, workflow)
        outcome, released = _execute(execution, workflow, arguments, deadline)
    except BaseException as error:
        outcome = _cut_off(run.id, error)
        released = not _has_left_behind(execution) and release_quietly(engine, run.id)
    finally:
        codes.leave(alias)
        if execution is not None and _has_left_behind(execution):
            _release_when_idle(execution)
        else:
            _dismiss(engine, run.id, released=released)
        _finish(engine, run, outcome, on_park)


def _has_left_behind(execution: Execution | None) -> bool:
    return execution is not None and bool(execution.left_behind)


def _release_when_idle(execution: Execution) -> None:
    """Release the run when the last thread that a second Ctrl-C left behind has ended. If the process ends
    before, its lock falls, and the run can be resumed as after a crash."""
    engine = execution.engine

    def wait() -> None:
        for crew in execution.left_behind:
            crew.wait_idle()
        _dismiss(engine, execution.id, released=release_quietly(engine, execution.id))

    with suppress(RuntimeError):  # no thread is left: the run is released when the process ends
        threading.Thread(target=wait, name=f"holdfast-left-{execution.id}", daemon=True).start()


def _finish(engine: Engine, run: Run[Any], outcome: Outcome, on_park: OnPark) -> None:
    if isinstance(outcome.error, Parked):
        on_park(outcome.error)
        run.rested.set()
    elif engine.event_callback is None:
        run.finish(outcome)
    else:
        engine.event_callback.when_reported(run.id, partial(run.finish, outcome))


def _execute(execution: Execution, workflow: Any, arguments: Arguments | None, deadline: Deadline) -> Ended:
    engine = execution.engine
    scope = Scope(execution, Counters(), threading.get_ident(), deadline)
    try:
        # In a context of its own: wherever Ctrl-C falls, this thread is outside the run again.
        outcome = Outcome(copy_context().run(_play, scope, workflow, arguments))
    except BaseException as error:
        outcome = Outcome(None, error)
    if execution.left_by is not None:
        return Ended(_cut_off(execution.id, execution.left_by), False)
    ending = conclude(execution, scope, outcome)
    parked = ending.outcome.error
    with file_windows.stopping(execution) if execution.state.files else nullcontext(()) as saved:
        if isinstance(parked, Parked):
            try:
                return _stopped(_release(execution, parked, saved))
            except Control as control:
                return Ended(Outcome(None, control.error), False)
        if ending.commands:
            try:
                if ending.cancel is not None:
                    _cancel_descendants(engine, ending.cancel)
                entry = execution.append_of((*saved, *ending.commands), blobs=ending.blobs)
                engine.store.append(entry)
                engine.report(entry)
            except HoldfastError as error:
                return Ended(ending.unwritten(error), False)
    return Ended(ending.outcome, bool(ending.commands))


def _release(execution: Execution, parked: Parked, saved: Sequence[c.Command]) -> Control:
    """Let go of a parked run, and end it with its descendants if it is cancelled just then."""
    control = execution.release_parked(parked, saved)
    for command in control.commands:
        if isinstance(command, c.CancelRun):
            try:
                steering.cancel(execution.engine, execution.id, command.reason, command.by, 0.0)
            except Refused:
                pass  # another process has continued it, and ended it
    return control


def _play(scope: Scope, workflow: Any, arguments: Arguments | None) -> Any:
    current.set(scope)
    file_windows.begin(scope.execution)
    args, kwargs = arguments or scope.execution.arguments()
    return workflow.fn(*args, **kwargs)


def _stopped(control: Control) -> Ended:
    """A parked run continues as it is; any other stop is its outcome."""
    return Ended(Outcome(None, control if isinstance(control, Parked) else control.error), True)


# Asynchronous


def _with_forgotten(execution: Execution, outcome: Outcome) -> Outcome:
    """A function that returns without having awaited all that it called has failed."""
    delivery = execution.tasks_delivery
    assert delivery is not None
    forgotten = execution.unawaited.forgotten(delivery.tasks)
    if not forgotten or execution.control is not None or not isinstance(outcome.error, Exception | None):
        return outcome
    what = ", ".join(forgotten[:4]) + (" ..." if len(forgotten) > 4 else "")
    was = "was" if len(forgotten) == 1 else "were"
    text = f"{what} {was} called without `await` in workflow {execution.state.code.name}: nothing was done"
    if outcome.error is None:
        return Outcome(None, NotAwaited(f"{text}; write `await`, then {quoted(Way('resume', execution.id))}"))
    outcome.error.add_note(text)
    return outcome


async def execute_async(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claimed: Claimed,
    on_park: OnPark,
    deadline: Deadline = NEVER,
) -> None:
    """The same in the running event loop, which never waits for the disk."""
    import asyncio

    from holdfast.engine.execution.task_factory import install_task_factory
    from holdfast.engine.runs.run_task import RunTask

    state = claimed.state
    if claimed.attached is not None:
        follow_handle(run, claimed.attached)
        return
    if state.ended:
        read = partial(copy_context().run, ended, engine, run.id, state)
        outcome = await asyncio.get_running_loop().run_in_executor(engine.claimers(), read)
        run.finish(outcome, failed_at(state))
        return
    install_task_factory(asyncio.get_running_loop())
    outcome, released, alias = _DIED, False, None
    try:
        execution = _enlist(engine, run, claimed, is_async=True)
        driver = asyncio.current_task()
        if isinstance(driver, RunTask):
            driver.execution = execution
        alias = codes.enter(state.code, workflow)
        outcome, released = await _execute_async(execution, workflow, arguments, deadline)
    except BaseException as error:
        outcome = _cut_off(run.id, error)
        give_back(engine, run.id, claimed)
        raise
    finally:
        codes.leave(alias)
        _dismiss(engine, run.id, released=released)
        _finish(engine, run, outcome, on_park)


async def _execute_async(
    execution: Execution, workflow: Any, arguments: Arguments | None, deadline: Deadline
) -> Ended:
    from holdfast.engine.execution import task_driver

    scope = Scope(execution, Counters(), threading.get_ident(), deadline)
    token = current.set(scope)
    try:
        if execution.state.files:
            await task_driver.in_store(execution, partial(file_windows.begin, execution))
        args, kwargs = arguments or execution.arguments()
        assert execution.tasks_delivery is not None
        execution.tasks_delivery.begin()
        outcome = Outcome(await workflow.fn(*args, **kwargs))
    except BaseException as error:
        outcome = Outcome(None, error)
    finally:
        current.reset(token)
    outcome = _with_forgotten(execution, outcome)
    await task_driver.settle_down(execution, outcome.error)
    ending = conclude(execution, scope, outcome)
    parked = ending.outcome.error
    with ExitStack() as held:
        saved: list[c.Command] = []
        if execution.state.files:
            stopping = file_windows.stopping(execution)
            saved.extend(
                await task_driver.in_store_to_the_end(execution, partial(held.enter_context, stopping))
            )
        if isinstance(parked, Parked):
            try:
                release = partial(_release, execution, parked, saved)
                return _stopped(await task_driver.in_store(execution, release))
            except Control as control:
                return Ended(Outcome(None, control.error), False)
        if ending.commands:
            try:
                if ending.cancel is not None:
                    end = partial(_cancel_descendants, execution.engine, ending.cancel)
                    await task_driver.in_store(execution, end)
                commands = (*saved, *ending.commands)
                await task_driver.commit(execution, execution.append_of(commands, blobs=ending.blobs))
            except Control as control:
                return Ended(ending.unwritten(control.error), False)
            except HoldfastError as error:
                return Ended(ending.unwritten(error), False)
    return Ended(ending.outcome, bool(ending.commands))
