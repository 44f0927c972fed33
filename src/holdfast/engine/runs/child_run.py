"""Child runs: a workflow called inside a run is a run of its own, recorded in the parent as a step.

`_run_child` waits for a child in the parent's thread, `_run_child_async` in the parent's event loop. A child
of the parent's colour is executed there, too. An async child of a `def` parent is executed in the engine's
loop thread, a `def` child of an async parent in a thread of its own; the parent waits until that has ended,
whatever stops it meanwhile, so that no process executes the child of a parent that was released.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any

import msgspec

from holdfast.engine.execution.arguments import own_copies
from holdfast.engine.execution.call import Call, Spec
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.notices import print_stopping
from holdfast.engine.execution.parking import Parked, Wait
from holdfast.engine.execution.reserving import pause_command
from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.execution.thread_driver import drive
from holdfast.engine.runs import code as codes
from holdfast.engine.runs import lifecycle
from holdfast.engine.runs.claim import Claimed, claim, give_back
from holdfast.engine.runs.follower import Parking
from holdfast.engine.runs.lifecycle import Arguments
from holdfast.engine.runs.run import Run
from holdfast.errors import (
    BudgetReached,
    HoldfastError,
    NeedsAttention,
    OwnershipLost,
    RunCancelled,
    RunHeld,
    RunInterrupted,
    RunPaused,
    StoreError,
)
from holdfast.kernel import commands as c
from holdfast.kernel.events import Waits


def run(scope: Scope, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    args, kwargs = own_copies(args, kwargs)

    def body() -> Any:
        return _run_child(call, workflow, args, kwargs, make_claim)

    call = _call(scope, workflow, args, kwargs, body)
    make_claim = _claimer(call, workflow, args, kwargs)
    return drive(call, call.recall())


def run_async(
    scope: Scope, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Coroutine[Any, Any, Any]:
    from holdfast.engine.execution import task_driver

    args, kwargs = own_copies(args, kwargs)

    async def body() -> Any:
        return await _run_child_async(call, workflow, args, kwargs, make_claim)

    call = _call(scope, workflow, args, kwargs, body, is_async=True)
    make_claim = _claimer(call, workflow, args, kwargs)
    return scope.execution.unawaited.expect("workflow", workflow.name, task_driver.perform_call(call))


def _call(
    scope: Scope,
    workflow: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    body: Callable[[], Any],
    *,
    is_async: bool = False,
) -> Call:
    digested = workflow.signature.digest(args, kwargs)
    key = scope.counters.key(workflow.name)
    execution = scope.execution
    past = execution.state.steps.get(key)
    # One that a rewind has kept is the run that it was, whatever the generation is called now.
    child = past.child if past is not None else child_id(execution.id, execution.state.generation, key)
    older = partial(workflow.signature.older, args, kwargs)
    spec = Spec(
        workflow.name, body, kind="child", child=child, intent_first=True, is_async=is_async, older=older
    )
    return Call(
        execution, spec, key, scope.counters.ordinal, digested, deadline=scope.deadline, budget=scope.budget
    )


def child_id(parent: str, generation: int, key: str) -> str:
    """The child's id: readable, stable, and never longer than an id may be."""
    tail = re.sub(r"[^A-Za-z0-9._-]+", "-", key)
    if generation:
        tail = f"g{generation}-{tail}"
    whole = f"{parent}.{tail}"
    if len(whole) <= 100 and re.sub(r"[#\[\]/]", "-", key) == tail:
        return whole
    mark = hashlib.sha256(f"{parent}\0{generation}\0{key}".encode()).hexdigest()[:12]
    return f"{whole[:100]}-{mark}"


_LOOK_EVERY_S = 0.1

Claimer = Callable[[], Claimed]
_STOPPED = (NeedsAttention, RunHeld, RunInterrupted, RunPaused, OwnershipLost, StoreError)
"""The signals that stop a child before it ends."""


def _claimer(call: Call, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Claimer:
    """How to claim the child, decided on what the history has of it when it is called.

    Only if the parent was resumed to try this child again does a failed one continue; a replay after a
    crash takes its error. And who took the parent over by force takes its children from that owner.
    """
    execution = call.execution
    engine = execution.engine
    past = execution.state.steps.get(call.key)
    reopen = past is not None and past.status == "reopened"
    force = past is not None and execution.forced
    paying = execution.state.budget if call.budget is None else call.budget.name

    def make_claim() -> Claimed:
        if call.budget is not None and call.budget.limits is not None:
            engine.handler("governor").open(call.budget)  # the child has its name only
        where = f"an argument of workflow {workflow.name}"
        value, blob, blobs = engine.store_value((tuple(args), kwargs), where)
        code = engine.location.record(codes.code_of_call(workflow, args, kwargs))
        # One directory per family: a child that is begun by another process is not begun elsewhere.
        code = msgspec.structs.replace(code, cwd=execution.state.code.cwd or code.cwd)
        create = c.CreateRun(
            call.spec.child, code, call.digested.digest, value, blob, execution.id, call.key,
            tuple(call.older_digests()), budget=paying,
        )  # fmt: skip
        claimed = claim(
            engine, call.spec.child, create=create, blobs=blobs, reopen=reopen, force=force, durable=False
        )
        return claimed._replace(keeps=execution.keeps_until > 0)

    return make_claim


@contextmanager
def _stopped_with_parent(call: Call) -> Iterator[None]:
    """While the child runs: what takes the parent away or interrupts it interrupts the child too."""
    run = call.execution

    def stop() -> None:
        live = run.engine.live.get(call.spec.child)
        if live is not None and run.control is not None:
            live[0].stop_with(run.control)

    run.on_stop.append(stop)
    try:
        yield
    finally:
        run.on_stop.remove(stop)


@contextmanager
def _parked(call: Call, parked: Parked) -> Iterator[Wait]:
    """While its child is parked, the parent waits until the child can continue."""
    engine = call.execution.engine
    ready = threading.Event()

    def go() -> None:
        ready.set()
        call.execution.inbox.wake()

    row = engine.store.run(call.spec.child)
    waits: Waits = "sleeping" if row is not None and row.status == "sleeping" else "waiting"
    parking = Parking(parked.until, go)
    engine.follower.park(call.spec.child, parking)
    try:
        yield Wait(parked.until, ready.is_set, waits)
    finally:
        engine.follower.forget(call.spec.child, parking)


def _claim_again(call: Call) -> Claimed:
    """Claim a child that was parked. One that a person paused or rewound meanwhile waits for a person."""
    engine, child = call.execution.engine, call.spec.child
    row = engine.store.run(child)
    if row is not None and row.status == "paused":
        raise RunPaused(child, row.reason)
    return claim(engine, child)


@contextmanager
def _outside_parent(call: Call) -> Iterator[None]:
    """Around the child: no scope of the parent is current, and what stops the child stops the parent."""
    token = current.set(None)
    try:
        yield
    except _STOPPED as error:
        control = _stop_parent(call, error)
        control.add_cause(error)
        raise control from None
    except RunCancelled:
        if call.execution.control is not None:  # they end together: no failure of the parent's step
            raise call.execution.control from None
        raise
    finally:
        current.reset(token)


def _run_child(
    call: Call, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any], make_claim: Claimer
) -> Any:
    with _outside_parent(call):
        engine = call.execution.engine
        handle: Run[Any] = Run(engine, call.spec.child)
        parks: list[Parked] = []
        with lifecycle.in_one_piece(engine, handle), _stopped_with_parent(call):
            _execute(call, handle, workflow, (args, kwargs), make_claim(), parks)
            while parks:
                with _parked(call, parks.pop()) as wait:
                    call.execution.waiting.wait(wait)
                _execute(call, handle, workflow, None, _claim_again(call), parks)
            handle._ended.wait()  # at once, unless another thread of this process executes it
        return handle._take()


async def _run_child_async(
    call: Call, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any], make_claim: Claimer
) -> Any:
    with _outside_parent(call):
        handle: Run[Any] = Run(call.execution.engine, call.spec.child)
        parks: list[Parked] = []
        claimed = await _claim_soon(call, make_claim)
        with _stopped_with_parent(call):
            await _execute_soon(call, handle, workflow, (args, kwargs), claimed, parks)
            while parks:
                call.execution.under_way -= 1
                try:
                    with _parked(call, parks.pop()) as wait:
                        await call.execution.waiting.wait_async(wait)
                finally:
                    call.execution.under_way += 1
                claimed = await _claim_soon(call, partial(_claim_again, call))
                await _execute_soon(call, handle, workflow, None, claimed, parks)
        return handle._take() if handle.done() else await handle


# Where a child is executed


def _execute(
    call: Call,
    handle: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claimed: Claimed,
    parks: list[Parked],
) -> None:
    """Execute a claimed child until it ends, stops or is parked."""
    engine = call.execution.engine
    if not workflow.is_async:
        lifecycle.execute(engine, handle, workflow, arguments, claimed, parks.append, call.deadline)
        return
    if claimed.attached is not None or claimed.state.ended:
        lifecycle.execute(engine, handle, workflow, arguments, claimed, parks.append)
        return

    begun = False

    async def take_over() -> None:
        nonlocal begun
        begun = engine.claim_locks.take_over(
            handle.id
        )  # unless Ctrl-C has cut off the thread that claimed it
        if begun:
            await lifecycle.execute_async(
                engine, handle, workflow, arguments, claimed, parks.append, call.deadline
            )

    try:
        loop_thread = engine.loop_thread()
    except RuntimeError as error:  # no thread is left, or the interpreter ends
        give_back(engine, handle.id, claimed)
        raise call.execution.interrupt(f"no thread for its child run {handle.id}: {error}") from None
    executing: Future[None] | None = None
    try:
        executing = loop_thread.spawn(handle.id, take_over())
        _wait_for(executing)
    except BaseException as error:
        call.execution.interrupted(error)  # and so the child, see `_stopped_with_parent`
        if executing is not None:
            if isinstance(error, KeyboardInterrupt) and not executing.done():
                print_stopping()
            _wait_for(executing)  # a second Ctrl-C leaves the child to the loop thread, which releases it
        raise
    if not begun:
        raise RunInterrupted(handle.id, "the task that was to execute it was cancelled")


def _wait_for(executing: Future[None]) -> None:
    """Return when it has ended, however it did. It looks again and again: a wait without an end may sleep
    through Ctrl-C."""
    while not futures.wait([executing], _LOOK_EVERY_S).done:
        pass


async def _execute_soon(
    call: Call,
    handle: Run[Any],
    workflow: Any,
    arguments: Arguments | None,
    claimed: Claimed,
    parks: list[Parked],
) -> None:
    """The same in an event loop, which it does not block."""
    engine = call.execution.engine
    if workflow.is_async:
        await lifecycle.execute_async(
            engine, handle, workflow, arguments, claimed, parks.append, call.deadline
        )
        return
    import asyncio

    from holdfast.engine.execution.mailbox import Waiter

    loop = asyncio.get_running_loop()
    waiter = Waiter(loop)

    def execute() -> None:
        try:
            lifecycle.execute(engine, handle, workflow, arguments, claimed, parks.append, call.deadline)
        finally:
            with suppress(RuntimeError):  # the loop is closed: no caller waits any more
                loop.call_soon_threadsafe(waiter.finish)

    # Not one of a pool: a child can wait for others that need a thread, too.
    name = f"holdfast-run-{handle.id}"
    thread = threading.Thread(target=copy_context().run, args=(execute,), name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # no thread is left
        give_back(engine, handle.id, claimed)
        raise call.execution.interrupt(f"no thread for its child run {handle.id}: {error}") from None
    cancelled = await waiter.wait()
    if cancelled is not None and call.execution.control is None:
        raise cancelled


async def _claim_soon(call: Call, make_claim: Claimer) -> Claimed:
    """Without blocking the loop. A cancel that comes meanwhile gives the child back: the parent must not end
    while another process still claims it."""
    from holdfast.engine.execution.task_driver import shielded

    claimed, cancelled = await shielded(call.execution, make_claim)
    if cancelled is not None:
        give_back(call.execution.engine, call.spec.child, claimed)
        raise cancelled
    return claimed


def _stop_parent(call: Call, error: HoldfastError) -> Control:
    """A child that stops before its end stops its parent too; the error names the child."""
    run = call.execution
    if isinstance(error, NeedsAttention):
        reason = f"its child run {call.spec.child} does: {error.reason}"
        return run.stop(Control(NeedsAttention(run.id, reason), [c.AttendRun(error.code, reason, call.key)]))
    if isinstance(error, BudgetReached):
        return run.stop(Control(error.of_parent(run.id), [pause_command(run.id, error)]))
    if isinstance(error, RunPaused):
        return run.pause(f"its child run {call.spec.child} is paused", "")
    return run.stop(Control(error))
