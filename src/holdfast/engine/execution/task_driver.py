"""The asynchronous driver: does what `perform` asks for without ever blocking the event loop.

Commits happen in a thread of the store; one wake-up of the loop serves all that have finished since
the last one. A cancel from outside (a TaskGroup, `asyncio.timeout`) does not interrupt a started body: the
body finishes and is recorded, then the cancel is raised.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from holdfast.engine.execution import thread_driver
from holdfast.engine.execution.body_task import StraightBody, run_body
from holdfast.engine.execution.call import Body, Call, InStore, Outcome, Pause, Request
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.execution import OutcomeAppend
from holdfast.engine.execution.mailbox import Mailbox, Waiter
from holdfast.engine.execution.perform import perform
from holdfast.engine.execution.task_delivery import TaskDelivery, TaskTurn
from holdfast.engine.execution.wakeup import WakeUp
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.state import GATES, OVER, StepState
from holdfast.store.port import Append

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.execution import Execution

T = TypeVar("T")


async def perform_call(call: Call) -> Any:
    """The outcome of a call whose identity is fixed."""
    run, key, past = call.execution, call.key, call.recall()
    delivery = run.tasks_delivery
    assert delivery is not None
    if past is None or past.status not in OVER:
        cancelled = None
        if delivery.guarded:
            cancelled = await delivery.barrier(key)
            if past is None:
                run.refuse_twin(key, call.spec.name, call.digested.digest)
        return await drive(call, past, cancelled)
    if past.status == "completed" and not past.secret and not past.blob:
        if not delivery.take_now(key):
            cancelled = await delivery.replayed(key)
            if cancelled is not None:
                raise cancelled
        return call.value_of(past)
    if past.status == "abandoned":
        await run.give_up_again(key)
    return await _recorded(call, delivery, past)


async def perform_keyed(call: Call) -> Any:
    """The same for a key of the user's choice, which can be called twice at once."""
    keyed = call.execution.keyed
    if keyed.setdefault(call.key, call) is not call:
        raise call.twice()
    try:
        return await perform_call(call)
    finally:
        keyed.pop(call.key, None)


async def _recorded(call: Call, delivery: TaskDelivery, past: StepState) -> Any:
    """Deliver a recorded outcome that must be loaded first: an error, a large value, or a secret, whose body
    runs again."""
    run = call.execution
    turn = delivery.hold(call.key)
    value: Any = None
    failed: BaseException | None = None
    try:
        if past.status == "completed" and not past.secret:
            value, failed = await shielded(run, partial(run.value_of, past))
        else:
            if past.secret:
                run.reach(call.key)
            value = await drive(call, past)
    except (Exception, asyncio.CancelledError, Control) as error:
        failed = error
    turn.acknowledge()
    cancelled = await delivery.received(turn)
    if cancelled is not None:
        raise cancelled
    if failed is not None:
        raise failed
    return value


async def plain(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A call outside every run."""
    if inspect.iscoroutinefunction(fn):
        return await fn(*args, **kwargs)
    return await asyncio.to_thread(fn, *args, **kwargs)


async def drive(call: Call, past: StepState | None, cancelled: asyncio.CancelledError | None = None) -> Any:
    """Perform the call and return its value or raise its error, or else the cancel that came before."""
    run = call.execution
    run.under_way += 1
    run.steps_begun += 1
    try:
        if past is None and call.spec.is_async and call.is_straight() and not run.checkpoint_every:
            return await _go_straight(run, call, cancelled)
        return await _drive(run, call, perform(call, past), cancelled)
    finally:
        run.end_call()


async def _go_straight(run: Execution, call: Call, before: asyncio.CancelledError | None) -> Any:
    """The path of nearly every step, as in `thread_driver`."""
    assert run.tasks_delivery is not None
    body = StraightBody(run.tasks_delivery, call)
    body.begin()
    try:
        cancelled = await body.wait() or before
    finally:
        body.end()
    append, body.append = body.append, None  # no cycle of garbage
    if append is None:
        return await _drive(run, call, perform(call, None, body.outcome()), cancelled)
    if append.error is not None:
        raise run.lose(append.error) from None
    if run.engine.event_callback is not None:
        run.engine.report(append)
    if cancelled is not None:
        raise cancelled
    return body.value


async def _drive(
    run: Execution,
    call: Call,
    performing: Generator[Request, Outcome | None, Outcome],
    cancelled: asyncio.CancelledError | None = None,
) -> Any:
    answer: Outcome | None = None
    try:
        while True:
            request = performing.send(answer)
            answer = None
            if isinstance(request, Append):
                cancelled = await commit(run, request) or cancelled
            elif type(request) is Body:
                answer, cancel = await run_body(call, request)
                cancelled = cancel or cancelled
            elif type(request) is InStore:
                answer, cancel = await shielded(run, partial(thread_driver.outcome_of, request.work))
                cancelled = cancel or cancelled
            else:
                assert type(request) is Pause
                await _until_next_attempt(run, call.key, request, cancelled)
    except StopIteration as stop:
        outcome: Outcome = stop.value
    finally:
        performing.close()
    if cancelled is not None:
        raise cancelled
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


async def _until_next_attempt(
    run: Execution, key: str, request: Pause, cancelled: asyncio.CancelledError | None
) -> None:
    """Wait for the next attempt. A cancel before it, also one that was raised already, gives it up."""

    async def wait() -> None:
        if cancelled is not None:
            raise cancelled
        await pause(run, *request)

    await abandonable(run, key, wait)


async def submit(engine: Engine, mailbox: Mailbox, append: Append) -> asyncio.CancelledError | None:
    """Wait until the append is acknowledged or refused; returns a cancel that came meanwhile."""
    waiter = Waiter(mailbox.loop)
    engine.store.append_soon(append, lambda _: mailbox.deliver(waiter))
    return await waiter.wait()


async def commit(run: Execution, append: Append) -> asyncio.CancelledError | None:
    """The same for an append that the run cannot continue without."""
    assert run.mailbox is not None
    if isinstance(append, OutcomeAppend):
        cancelled = await _commit_outcome(run, run.mailbox, append)
    else:
        cancelled = await submit(run.engine, run.mailbox, append)
    if append.error is not None:
        raise run.lose(append.error) from None
    if run.engine.event_callback is not None:
        run.engine.report(append)
    return cancelled


async def _commit_outcome(
    run: Execution, mailbox: Mailbox, append: OutcomeAppend
) -> asyncio.CancelledError | None:
    """The same for an outcome: the code continues when that is delivered."""
    turn = append.turn
    assert isinstance(turn, TaskTurn)
    if run.checkpoint_every:
        cancelled = await submit(run.engine, mailbox, append)
        if append.error is not None:
            turn.delivery.withdraw(turn)
            return cancelled
        try:
            await run.engine.files.take_due_checkpoint_soon(run)
        except BaseException:
            turn.delivery.withdraw(turn)
            raise
        turn.acknowledge()
        return await turn.wait() or cancelled

    def acknowledged(append: Append) -> None:
        turn.lost = append.error is not None
        mailbox.deliver(turn)

    try:
        run.engine.store.append_soon(append, acknowledged)
    except BaseException:
        turn.delivery.withdraw(turn)
        raise
    return await turn.wait()


async def in_store(run: Execution, work: Callable[[], T]) -> T:
    """Do work that waits for the disk without blocking the loop; a cancel meanwhile is raised after it."""
    done, cancelled = await shielded(run, work)
    if cancelled is not None:
        raise cancelled
    return done


async def in_store_to_the_end(run: Execution, work: Callable[[], T]) -> T:
    """The same for the end of a run, which a cancel must not keep from being written."""
    return (await shielded(run, work))[0]


async def shielded(run: Execution, work: Callable[[], T]) -> tuple[T, asyncio.CancelledError | None]:
    """The same, with the cancel that came meanwhile. The end of the run is recorded after it."""
    loop = asyncio.get_running_loop()
    waiter = Waiter(loop)
    run.under_way += 1
    try:
        try:
            doing = loop.run_in_executor(run.engine.claimers(), work)
        except RuntimeError as error:  # no thread is left, or the interpreter ends
            raise run.interrupt(f"no thread for it: {error}") from None
        doing.add_done_callback(waiter.finish)
        cancelled = await waiter.wait()
    finally:
        run.end_call()
    return doing.result(), cancelled


async def abandonable(run: Execution, key: str, wait: Callable[[], Awaitable[T]]) -> T:
    """The outcome of the gate, the sleep or the pause before the next attempt of the step `key`. If the code
    gives it up (a race, a TaskGroup, a plain timeout), that is recorded before the cancel is raised, so that
    every replay gives it up, too."""
    try:
        return await wait()
    except asyncio.CancelledError as cancel:
        # A signal that stops the whole run gives up nothing: the run waits again when it is resumed.
        step = run.state.steps.get(key)
        if not run.is_stopping() and not run.over and step and step.status != "abandoned":
            later = await _abandon(run, step)
            if later is not None:
                raise later from cancel
        raise


async def _abandon(run: Execution, step: StepState) -> asyncio.CancelledError | None:
    """Returns the last cancel that came meanwhile: anyio knows its own by their text."""
    command, delivery = c.AbandonWait(step.key), run.tasks_delivery
    assert delivery is not None
    cancelled = None
    if delivery.guarded:
        cancelled = await delivery.barrier(step.key)
    if step.kind not in GATES:
        return await delivery.noted(command, step.key) or cancelled
    # Written at once: no person should be asked for a decision that no code awaits, and another gate may wait
    # for what this one has taken.
    run.under_way += 1
    try:
        _, cancel = await shielded(run, partial(run.transact, lambda: [command]))
        cancelled = cancel or cancelled
        return await delivery.noted(c.Record(e.OutcomeDelivered(step.key)), step.key) or cancelled
    finally:
        run.end_call()


async def until_stopped(run: Execution) -> NoReturn:
    """Wait until the run is stopped, and raise the signal that stops it."""
    wake_up = WakeUp(asyncio.get_running_loop())
    run.on_stop.append(wake_up.set)
    try:
        while run.control is None:
            await wake_up.wait(60.0)
    finally:
        run.on_stop.remove(wake_up.set)
    raise run.control


async def in_thread(work: Callable[[], None]) -> None:
    """Do the work in a thread of its own: the loop's executor may be full of what it waits for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        failed = None
        try:
            work()
        except BaseException as error:
            failed = error
        try:
            loop.call_soon_threadsafe(settle, failed)
        except RuntimeError:
            pass  # the loop is closed: no caller waits any more

    threading.Thread(target=run, name="holdfast-aside", daemon=True).start()
    await done


async def settle_down(run: Execution, error: BaseException | None) -> None:
    """The function has ended, perhaps with this error: wait until the steps that are still running (when one
    raises, `asyncio.gather` leaves its siblings) have ended and are recorded."""
    if run.control is None:
        try:
            run.check_history_left(error)
        except Control:
            pass  # it is in run.control now, and nothing begins
    run.over = True
    if run.tasks_delivery is not None:
        run.tasks_delivery.end()
    while run.under_way:  # a call that waited for the history to be delivered begins only now
        run.all_ended = Waiter(asyncio.get_running_loop())
        await run.all_ended.wait()


async def pause(run: Execution, until_us: int | None, most_s: float = math.inf) -> None:
    """As `thread_driver.pause`, without blocking the loop."""
    left_of = thread_driver.time_left(run.engine.clock, until_us, most_s)
    wake_up = WakeUp(asyncio.get_running_loop())
    run.on_stop.append(wake_up.set)
    waited = False
    try:
        while run.control is None and (left := left_of()) > 0:
            waited = True
            await wake_up.wait(min(left, 60.0))
    finally:
        run.on_stop.remove(wake_up.set)
    if waited and run.control is None:
        try:
            await in_thread(partial(thread_driver.look_for_takeover, run))
        except RuntimeError as error:  # no thread is left, or the interpreter ends
            run.interrupt(f"no thread after a pause: {error}")
    if run.control is not None:
        raise run.control
