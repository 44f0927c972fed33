"""A run from claim to end, in either colour.

`conclude` says, without I/O, what the end of the function means for the log; the two `execute`
functions run the function and write that down. Whatever way a driver ends, its run is released.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine import code as codes
from holdfast.engine import step as steps
from holdfast.engine.claim import Claimed, give_back, leave, release_quietly
from holdfast.engine.control import Control
from holdfast.engine.execution import Execution
from holdfast.engine.perform import Outcome, as_recorded, steps_behind
from holdfast.engine.run import Run, in_loop
from holdfast.engine.scope import NEVER, Deadline, Scope, current
from holdfast.errors import HoldfastError, NotStorable, RunCancelled, RunInterrupted
from holdfast.kernel import commands as c
from holdfast.kernel.failure import rebuild
from holdfast.kernel.identity import Counters
from holdfast.kernel.state import RunState
from holdfast.store.port import Append

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from holdfast.engine.engine import Engine

Arguments = tuple[Sequence[Any], dict[str, Any]]


class Ending(NamedTuple):
    """What to write at the end of a run, and what `result()` gives."""

    commands: Sequence[c.Command]
    outcome: Outcome
    blobs: Sequence[tuple[str, bytes]] = ()
    final: bool = False
    """The run ends with this: if it cannot be written, the run has not ended."""

    def unwritten(self, error: BaseException) -> Outcome:
        """The outcome when writing failed. What stopped a run says more than that its release failed."""
        return Outcome(None, error if self.final else self.outcome.error or error)


def conclude(execution: Execution, scope: Scope, outcome: Outcome) -> Ending:
    """What it means that the function returned or raised this."""
    error = outcome.error
    if execution.control is None and error is None:
        try:
            execution.check_all_visited(scope.counters.ordinal)
        except Control:
            pass  # it is in execution.control now
    control = execution.control or (error if isinstance(error, Control) else None)
    release = c.ReleaseRun(execution.id, execution.engine.owner_id)
    if control is not None:
        commands = () if execution.forget_lost() else control.commands
        return Ending(() if control.silent else (*commands, release), Outcome(None, control.error))
    if error is None:
        try:
            where = f"the result of workflow {execution.state.code.name}"
            value, blob, blobs = execution.engine.store_value(outcome.value, where)
            return Ending((c.CompleteRun(value, blob),), outcome, blobs, final=True)
        except NotStorable as not_storable:
            error = not_storable
    if not isinstance(error, Exception):
        return Ending((release,), Outcome(None, execution.interrupted(error).error))
    failed = steps_behind(error)
    failure, error = as_recorded(error, execution.engine.redactor.redact)
    return Ending((c.FailRun(failure, failed),), Outcome(None, error), final=True)


def ended(engine: Engine, run_id: str, state: RunState) -> Outcome:
    """The outcome of a run that has ended before."""
    alias = codes.enter(state.code)
    try:
        if state.status == "completed":
            return Outcome(engine.load_value(state.result, state.blob))
        if state.status == "failed":
            assert state.error is not None
            return Outcome(None, rebuild(state.error))
        return Outcome(None, RunCancelled(run_id, state.reason))
    finally:
        codes.leave(alias)


def _enlist(
    engine: Engine, run: Run[Any], claimed: Claimed, *, is_async: bool, birth: Append | None = None
) -> Execution:
    execution = Execution(engine, run.id, claimed.state, is_async=is_async, birth=birth)
    execution.forced = claimed.forced
    with engine.lock:
        engine.live[run.id] = (execution, run)
        closing = engine.closing
    if closing:  # it was claimed meanwhile: no step of it may begin
        execution.interrupt(closing)
    steps.live_runs.add(execution)
    leave(engine, run.id)
    if execution.birth is not None:
        engine.flusher.watch(execution.birth)
    return execution


def _follow(run: Run[Any], attached: Run[Any]) -> None:
    """Another thread executes the run: this handle ends as that one does."""
    attached._when_ended(lambda: run.finish(attached._outcome))


def _dismiss(engine: Engine, run_id: str) -> None:
    leave(engine, run_id)
    with engine.lock:
        live = engine.live.pop(run_id, None)
    if live is not None:
        live[0].forget_birth()
        steps.live_runs.discard(live[0])


def _cut_off(engine: Engine, run_id: str, by: BaseException) -> Outcome:
    """Something, Ctrl-C most likely, came outside the function: before it began, or while its end was
    written. Whatever of it is written, the run is released."""
    release_quietly(engine, run_id)
    if isinstance(by, Exception):
        return Outcome(None, by)
    error = RunInterrupted(run_id, f"it was interrupted ({type(by).__name__})")
    error.__cause__ = by
    return Outcome(None, error)


def _arguments(engine: Engine, arguments: Arguments | None, state: RunState) -> Arguments:
    if arguments is not None:
        return arguments
    args, kwargs = engine.load_value(state.args, state.args_blob)
    return args, kwargs


# Synchronous


def execute(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claimed: Claimed,
    deadline: Deadline = NEVER,
    birth: Append | None = None,
) -> None:
    """Execute a claimed run in this thread, to its end or to where it stops. `deadline` is the parent's;
    `birth` is what the log does not have of it yet."""
    state = claimed.state
    if claimed.attached is not None:
        _follow(run, claimed.attached)
        return
    if state.ended:
        run.finish(ended(engine, run.id, state))
        return
    outcome, alias = Outcome(None, HoldfastError("the driver died")), None
    try:
        execution = _enlist(engine, run, claimed, is_async=False, birth=birth)
        alias = codes.enter(state.code)
        outcome = _execute(execution, workflow, arguments, deadline)
    except BaseException as error:
        outcome = _cut_off(engine, run.id, error)
    finally:
        codes.leave(alias)
        _dismiss(engine, run.id)
        run.finish(outcome)


def _execute(execution: Execution, workflow: Any, arguments: Arguments | None, deadline: Deadline) -> Outcome:
    engine = execution.engine
    scope = Scope(execution, Counters(), threading.get_ident(), deadline)
    token = current.set(scope)
    try:
        args, kwargs = _arguments(engine, arguments, execution.state)
        outcome = Outcome(workflow.fn(*args, **kwargs))
    except BaseException as error:
        outcome = Outcome(None, error)
    finally:
        current.reset(token)
    ending = conclude(execution, scope, outcome)
    if ending.commands:
        try:
            entry = execution.entry(ending.commands, blobs=ending.blobs)
            engine.store.append(entry)
            engine.tell(entry)
        except HoldfastError as error:
            return ending.unwritten(error)
    return ending.outcome


# Asynchronous


async def execute_async(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claimed: Claimed,
    deadline: Deadline = NEVER,
) -> None:
    """The same in the running event loop, which never waits for the disk."""
    import asyncio

    from holdfast.engine.scope import install_task_factory

    state = claimed.state
    if claimed.attached is not None:
        _follow(run, claimed.attached)
        return
    if state.ended:
        run.finish(await asyncio.to_thread(ended, engine, run.id, state))
        return
    install_task_factory(asyncio.get_running_loop())
    outcome, alias = Outcome(None, HoldfastError("the driver died")), None
    try:
        execution = _enlist(engine, run, claimed, is_async=True)
        alias = codes.enter(state.code)
        outcome = await _execute_async(execution, workflow, arguments, deadline)
    except BaseException:
        give_back(engine, run.id, claimed)
        raise
    finally:
        codes.leave(alias)
        _dismiss(engine, run.id)
        run.finish(outcome)


async def _execute_async(
    execution: Execution, workflow: Any, arguments: Arguments | None, deadline: Deadline
) -> Outcome:
    from holdfast.engine import aio

    scope = Scope(execution, Counters(), threading.get_ident(), deadline)
    token = current.set(scope)
    try:
        args, kwargs = _arguments(execution.engine, arguments, execution.state)
        outcome = Outcome(await workflow.fn(*args, **kwargs))
    except BaseException as error:
        outcome = Outcome(None, error)
    finally:
        current.reset(token)
    await aio.settle_down(execution)
    ending = conclude(execution, scope, outcome)
    if ending.commands:
        try:
            await aio.commit(execution, execution.entry(ending.commands, blobs=ending.blobs))
        except Control as control:
            return ending.unwritten(control.error)
    return ending.outcome


# Launching


def launch(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claim_it: Callable[[], Claimed],
    claim_soon: Callable[[], Awaitable[Claimed]] | None = None,
) -> Run[Any]:
    """Claim the run and let it go on: a `def` workflow in a thread, an `async def` one in the running
    loop, or in the engine's own. In a running loop the claim happens there too, without blocking it:
    what it raises, `await run` raises; `claim_soon` is a way that needs no thread. `workflow` is a list
    that `claim_it` fills when it must be found.
    """
    if in_loop():
        import asyncio

        task = asyncio.get_running_loop().create_task(
            _claim_and_go(engine, run, workflow, arguments, claim_it, claim_soon)
        )
        _keep(task)
        task.add_done_callback(partial(_finish_cancelled, run))
        return run
    with engine.lock:
        live = engine.live.get(run.id)
    if live is not None:
        return live[1]
    claimed = claim_it()
    if claimed.attached is not None:
        return claimed.attached
    if claimed.state.ended:
        run.finish(ended(engine, run.id, claimed.state))
        return run
    found = workflow[0] if isinstance(workflow, list) else workflow
    if found.is_async:
        engine.loop_thread().spawn(execute_async(engine, run, found, arguments, claimed))
    else:
        _execute_in_thread(engine, run, found, arguments, claimed)
    return run


def _execute_in_thread(
    engine: Engine, run: Run[Any], workflow: Any, arguments: Arguments | None, claimed: Claimed
) -> None:
    """A thread of its own: a run that sleeps must not take one that others need."""
    thread = threading.Thread(
        target=execute,
        args=(engine, run, workflow, arguments, claimed),
        name=f"holdfast-run-{run.id}",
        daemon=True,
    )
    try:
        thread.start()
    except BaseException:  # no thread is left, or Ctrl-C: the run goes to whoever has one
        release_quietly(engine, run.id)
        leave(engine, run.id)
        raise


async def _claim_in_thread(engine: Engine, run_id: str, claim_it: Callable[[], Claimed]) -> Claimed:
    """Claim without blocking the loop. A cancel does not wait for a claim that is under way: that is
    given back when it comes."""
    import asyncio

    def give_it_back(claiming: Future[Claimed]) -> None:
        if claiming.exception() is None:
            give_back(engine, run_id, claiming.result())

    claiming = engine.claimers().submit(claim_it)
    try:
        return await asyncio.wrap_future(claiming)
    except asyncio.CancelledError:
        if not claiming.cancel():
            claiming.add_done_callback(give_it_back)
        raise


async def _claim_and_go(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claim_it: Callable[[], Claimed],
    claim_soon: Callable[[], Awaitable[Claimed]] | None,
) -> None:
    import asyncio

    token = current.set(None)
    try:
        if claim_soon is not None:
            claimed = await claim_soon()
        else:
            claimed = await _claim_in_thread(engine, run.id, claim_it)
        if claimed.attached is not None:
            _follow(run, claimed.attached)
            return
        if claimed.state.ended:
            run.finish(await asyncio.to_thread(ended, engine, run.id, claimed.state))
            return
        found = workflow[0] if isinstance(workflow, list) else workflow
        if found.is_async:
            await execute_async(engine, run, found, arguments, claimed)
        else:
            _execute_in_thread(engine, run, found, arguments, claimed)
    except BaseException as error:
        if not run.done():
            run.finish(Outcome(None, error))
        if not isinstance(error, Exception):
            raise
    finally:
        current.reset(token)


def _finish_cancelled(run: Run[Any], task: asyncio.Task[None]) -> None:
    """A task that was cancelled before its first line could not do it itself."""
    if task.cancelled() and not run.done():
        from asyncio import CancelledError

        run.finish(Outcome(None, CancelledError()))


_tasks: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    """The loop itself keeps only weak references to tasks."""
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
