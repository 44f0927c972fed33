"""Letting runs go: in the caller's thread, in one of their own, in an event loop; and again after a park."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.colour import in_loop
from holdfast.engine.execution.call import Outcome
from holdfast.engine.execution.notices import report_open_gates
from holdfast.engine.execution.parking import Parked
from holdfast.engine.execution.scope import current
from holdfast.engine.runs.claim import Claimed, claim, give_back, release_quietly
from holdfast.engine.runs.ending import ended, failed_at
from holdfast.engine.runs.follower import Parking
from holdfast.engine.runs.lifecycle import (
    Arguments,
    OnPark,
    execute,
    execute_async,
    follow_handle,
    in_one_piece,
)
from holdfast.engine.runs.run import Run
from holdfast.errors import NeedsAttention, RunHeld, RunInterrupted, RunPaused, RunWaiting
from holdfast.store.port import Append
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from holdfast.engine.engine import Engine

T = TypeVar("T")

_LOOK_EVERY_S = 0.1


def launch(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claim_it: Callable[[], Claimed],
    claim_soon: Callable[[], Awaitable[Claimed]] | None = None,
    *,
    stay: bool = True,
) -> Run[Any]:
    """Claim the run and let it continue: a `def` workflow in a thread, an `async def` one in the running
    loop, or in the engine's own. In a running loop the claim happens there too, without blocking it:
    what it raises, `await run` raises; `claim_soon` is a way that needs no thread. Without
    `workflow` it is the one that the claim found. Without `stay` a run that is parked is left to others.
    """
    if in_loop():
        engine.unasked.add(run)
        _spawn(engine, run, workflow, arguments, claim_it, claim_soon)
        return run
    with engine.lock:
        live = engine.live.get(run.id)
    if live is not None:
        return live[1]
    with in_one_piece(engine, run):
        claimed = claim_it()
        if claimed.attached is not None:
            return claimed.attached
        if claimed.state.ended:
            run.finish(ended(engine, run.id, claimed.state), failed_at(claimed.state))
            return run
        found = workflow or claimed.workflow
        if found.is_async:
            on_park = _park_async(engine, run, found) if stay else partial(_leave_parked, run)
            try:
                loop_thread = engine.loop_thread()
            except RuntimeError as error:
                raise _no_thread(run.id, error) from None
            loop_thread.spawn(run.id, _take_over(engine, run, found, arguments, claimed, on_park))
        else:
            on_park = _park_in_thread(engine, run, found) if stay else partial(_leave_parked, run)
            _execute_in_thread(engine, run, found, arguments, claimed, on_park)
    return run


async def _take_over(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claimed: Claimed,
    on_park: OnPark,
) -> None:
    """Execute what another thread has claimed, unless Ctrl-C has cut that off meanwhile."""
    if engine.claim_locks.take_over(run.id):
        await execute_async(engine, run, workflow, arguments, claimed, on_park)


def _leave_parked(run: Run[Any], parked: Parked) -> None:
    run.finish(Outcome(None, parked.error))


def _no_thread(run_id: str, error: RuntimeError) -> RunInterrupted:
    """The system has no thread left, or the interpreter ends: another process may continue the run."""
    return RunInterrupted(run_id, f"no thread for it: {error}")


# Plain code


def run_here(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments,
    claimed: Claimed,
    birth: Append | None = None,
) -> None:
    """Execute the run in this thread to its end; while it is parked the thread waits."""
    parks: list[Parked] = []
    execute(engine, run, workflow, arguments, claimed, parks.append, birth=birth)
    while parks:
        report_open_gates(engine, run.id)
        again = _await(engine, run, parks.pop().until)
        if again is not None:
            execute(engine, run, workflow, None, again, parks.append)


def _await(engine: Engine, run: Run[Any], until: int) -> Claimed | None:
    """Wait until the run can continue, and own it; None if there is nothing to continue: `run` says why."""
    while True:
        ready = threading.Event()
        parking = Parking(until, ready.set)
        engine.follower.park(run.id, parking)
        try:
            while not ready.wait(_LOOK_EVERY_S):
                pass  # Ctrl-C wakes no thread that waits for ever
        finally:
            engine.follower.forget(run.id, parking)
        try:
            claimed = _reclaim(engine, run.id)
        except Exception as error:
            run.finish(Outcome(None, error))
            return None
        if claimed is not None:
            return claimed
        until = 0


def _execute_in_thread(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claimed: Claimed,
    on_park: OnPark,
) -> None:
    """A thread of its own: a run that computes for long must not take one that others need."""

    def take_over() -> None:
        if engine.claim_locks.take_over(run.id):  # unless Ctrl-C has cut off the thread that claimed it
            execute(engine, run, workflow, arguments, claimed, on_park)

    thread = threading.Thread(target=take_over, name=f"holdfast-run-{run.id}", daemon=True)
    try:
        thread.start()
    except Exception as error:  # no thread is left: another process may have one
        release_quietly(engine, run.id)
        engine.claim_locks.leave(run.id)
        if isinstance(error, RuntimeError):
            raise _no_thread(run.id, error) from None
        raise


def _park_in_thread(engine: Engine, run: Run[Any], workflow: Any) -> OnPark:
    def go_on() -> None:
        try:
            claimed = _reclaim(engine, run.id)
        except BaseException as error:
            run.finish(Outcome(None, error))
            return
        if claimed is None:
            engine.follower.park(run.id, Parking(0, go))
        else:
            execute(engine, run, workflow, None, claimed, on_park)

    def go() -> None:
        thread = threading.Thread(target=go_on, name=f"holdfast-run-{run.id}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is left: the run stays where it is
            run.finish(Outcome(None, _no_thread(run.id, error)))

    def on_park(parked: Parked) -> None:
        engine.follower.park(run.id, Parking(parked.until, go))

    return on_park


def _reclaim(engine: Engine, run_id: str) -> Claimed | None:
    """Own a run that was parked; None if another process does. Raises what keeps it from continuing."""
    if engine.closing:
        raise _left_waiting(engine, run_id)
    row = engine.store.run(run_id)
    if row is not None and row.status == "paused":
        raise RunPaused(run_id, row.reason)
    if row is not None and row.status == "needs_attention":
        raise NeedsAttention(run_id, row.reason)
    try:
        return claim(engine, run_id)
    except RunHeld:
        return None


def _left_waiting(engine: Engine, run_id: str) -> RunWaiting:
    return RunWaiting(run_id, f"{engine.closing}; {quoted(Way('resume', run_id))} continues it")


# Event loops


def _spawn(
    engine: Engine,
    run: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claim_it: Callable[[], Claimed | None],
    claim_soon: Callable[[], Awaitable[Claimed]] | None = None,
) -> None:
    import asyncio

    from holdfast.engine.runs.run_task import RunTask

    loop = asyncio.get_running_loop()
    begun = run.begun = loop.create_future()
    going = _claim_and_go(engine, run, workflow, arguments, claim_it, claim_soon, begun)
    task = RunTask(run.id, going, loop=loop)
    _keep(task)
    task.add_done_callback(partial(_finish_task, run, begun))


def _park_async(engine: Engine, run: Run[Any], workflow: Any) -> OnPark:
    """Continues in the loop in which the run was parked."""

    def on_park(parked: Parked) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        spawn = partial(_spawn, engine, run, workflow, None, partial(_reclaim, engine, run.id))

        def go() -> None:
            if engine.closing:  # its loop may not run any more
                run.finish(Outcome(None, _left_waiting(engine, run.id)))
                return
            try:
                loop.call_soon_threadsafe(spawn)
            except RuntimeError:  # the loop is closed
                run.finish(Outcome(None, RunInterrupted(run.id, "its event loop was closed")))

        engine.follower.park(run.id, Parking(parked.until, go))

    return on_park


def _submit(engine: Engine, run_id: str, call: Callable[[], T]) -> Future[T]:
    """Call it in a thread. Raises `RunInterrupted` if there is none. The pool may have queued the call before
    it found that out: there it does nothing any more, unless a thread has taken it meanwhile."""
    from concurrent.futures import Future

    asked: Future[T] = Future()

    def work() -> None:
        if asked.set_running_or_notify_cancel():
            try:
                asked.set_result(call())
            except BaseException as error:
                asked.set_exception(error)

    try:
        engine.claimers().submit(work)
    except RuntimeError as error:
        if asked.cancel():
            why = f"no thread to claim it: {error}; a run that `holdfast list` does not name never was"
            raise RunInterrupted(run_id, why) from None
    return asked


async def _claim_in_thread(
    engine: Engine, run: Run[Any], claim_it: Callable[[], Claimed | None]
) -> Claimed | None:
    """Claim without blocking the loop. A cancel does not wait for a claim that is under way: that is
    released when it comes."""
    import asyncio

    def give_it_back(claiming: Future[Claimed | None]) -> None:
        if claiming.exception() is None and (claimed := claiming.result()) is not None:
            give_back(engine, run.id, claimed)

    claiming = _submit(engine, run.id, claim_it)
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
    claim_it: Callable[[], Claimed | None],
    claim_soon: Callable[[], Awaitable[Claimed]] | None,
    begun: asyncio.Future[bool],
) -> None:
    import asyncio

    token = current.set(None)
    try:
        claimed: Claimed | None
        if engine.closing:
            raise RunInterrupted(run.id, engine.closing)
        if claim_soon is not None:
            claimed = await claim_soon()
        else:
            claimed = await _claim_in_thread(engine, run, claim_it)
        begun.set_result(True)
        found = workflow if claimed is None else workflow or claimed.workflow
        if claimed is None:
            _park_async(engine, run, found)(Parked(run.id, 0))
        elif claimed.attached is not None:
            follow_handle(run, claimed.attached)
        elif claimed.state.ended:
            reading = _submit(engine, run.id, partial(ended, engine, run.id, claimed.state))
            outcome = await asyncio.wrap_future(reading)
            run.finish(outcome, failed_at(claimed.state))
        elif found.is_async:
            await execute_async(engine, run, found, arguments, claimed, _park_async(engine, run, found))
        else:
            on_park = _park_in_thread(engine, run, found)
            _execute_in_thread(engine, run, found, arguments, claimed, on_park)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if not run.done():
            run.finish(Outcome(None, error))
        if not isinstance(error, Exception):
            raise
    finally:
        current.reset(token)


def _finish_task(run: Run[Any], begun: asyncio.Future[bool], task: asyncio.Task[None]) -> None:
    """The end of a run's task. One that was cancelled before the run began there has left it unfinished."""
    if task.cancelled() and not run.done():
        why = "its event loop ended before it began; a run that `holdfast list` does not name never was"
        run.finish(Outcome(None, RunInterrupted(run.id, why)))
    if not begun.done():
        begun.set_result(False)


_tasks: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    """The loop itself keeps only weak references to tasks."""
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
