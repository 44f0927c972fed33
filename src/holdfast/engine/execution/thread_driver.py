"""The synchronous driver: does what `perform` asks for, in the caller's thread."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from holdfast.clock import Clock
from holdfast.engine.execution.call import Body, Call, InStore, Outcome, Pause, Request
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.execution import OutcomeAppend
from holdfast.engine.execution.perform import completion, perform
from holdfast.engine.execution.scope import current, in_body
from holdfast.engine.execution.thread_delivery import ThreadTurn
from holdfast.errors import NotStorable, OwnershipLost, StepTimeout, StoreError
from holdfast.kernel.state import OVER, StepState
from holdfast.store.port import Append

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution


def drive(call: Call, past: StepState | None) -> Any:
    """Perform the call and return its value or raise its error."""
    run = call.execution
    if past is not None and past.status in OVER:
        run.refuse_given_up(call.key)
        if past.secret:
            run.reach(call.key)
            return _perform_again(call, past)
        replayed(run, call.key)
        return _perform(call, past)
    threads = run.threads_delivery
    if threads is not None:
        if threads.guarded:
            threads.barrier_here(call.key, call.spec.name, "" if past else call.digested.digest)
        if threads.crews:
            with aside(run):
                return _perform(call, past)
    if past is None and call.is_straight() and not run.checkpoint_every:
        return _go_straight(call)
    return _perform(call, past)


def _perform_again(call: Call, past: StepState) -> Any:
    """Run the body of a recorded secret again; its outcome keeps its place in the order."""
    run, threads = call.execution, call.execution.threads_delivery
    turn = None if threads is None else threads.hold(call.key)
    if threads is None or turn is None:
        replayed(run, call.key)
        return _perform(call, past)
    try:
        return _perform(call, past)
    finally:
        threads.receive(turn)


@contextmanager
def aside(run: Execution) -> Iterator[None]:
    """Around something that takes time: other branches of a `parallel` run their code meanwhile."""
    threads = run.threads_delivery
    if threads is None or not threads.crews:
        yield
        return
    threads.leave()
    try:
        yield
    finally:
        threads.rejoin()


def replayed(run: Execution, key: str) -> None:
    """Return when the recorded outcome is delivered."""
    threads = run.threads_delivery
    if threads is not None and threads.replaying:
        threads.replayed_here(key)


def barrier(run: Execution, key: str, name: str, digest: str = "") -> None:
    """Return when the call may do something; `digest` is that of a new one."""
    threads = run.threads_delivery
    if threads is not None and threads.guarded:
        threads.barrier_here(key, name, digest)


def _perform(call: Call, past: StepState | None) -> Any:
    straight = past is None and call.is_straight()
    value = _go_straight(call) if straight else _drive(call, perform(call, past))
    run = call.execution
    if run.checkpoint_every and not (run.threads_delivery is not None and run.threads_delivery.crews):
        run.engine.files.take_due_checkpoint(run)
    return value


def _go_straight(call: Call) -> Any:
    """The path of nearly every step: what `perform` would request, without the generator. Code after a wait
    for the disk runs cold, at a third of its speed: this saves 30 of 550 µs per step."""
    run = call.execution
    token = None
    failed: Outcome | None = None
    try:
        call.watch()
        call.begin()
        token = current.set(call)
        own = call.own()
        value = call.spec.body(*own.args, **own.kwargs)
        if own is not call:
            own.warn_of_changes()
    except BaseException as error:
        failed = Outcome(None, error)
    finally:
        if token is not None:
            current.reset(token)
        call.end()
    if failed is not None and token is None and isinstance(failed.error, Control):
        raise failed.error  # the body has not begun
    if failed is None:
        try:
            commit(run, completion(call, value))
            return value
        except NotStorable:
            failed = Outcome(value)
        except KeyboardInterrupt as error:  # the run's state may have it already, and the log not
            run.interrupted(error)
            raise
    return _drive(call, perform(call, None, failed))


def _drive(call: Call, performing: Generator[Request, Outcome | None, Outcome]) -> Any:
    run = call.execution
    answer: Outcome | None = None
    try:
        while True:
            request = performing.send(answer)
            answer = None
            if isinstance(request, Append):
                commit(run, request)
            elif type(request) is Body:
                answer = run_body(call, request)
            elif type(request) is InStore:
                answer = _in_store(run, request)
            else:
                assert type(request) is Pause
                pause(run, *request)
    except StopIteration as stop:
        outcome: Outcome = stop.value
    finally:
        performing.close()
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _in_store(run: Execution, request: InStore) -> Outcome:
    try:
        return outcome_of(request.work)
    except BaseException as error:
        run.interrupted(error)
        raise


def outcome_of(work: Callable[[], Any]) -> Outcome:
    """Do the work and return its outcome; an interrupt is raised."""
    try:
        return Outcome(work())
    except Exception as error:
        return Outcome(None, error)


def commit(run: Execution, append: Append) -> None:
    """Wait until the append is acknowledged; the run cannot continue without it."""
    engine = run.engine
    try:
        engine.store.append(append)
    except Exception as error:
        raise run.lose(error) from None
    except BaseException as error:
        run.interrupted(error)
        raise
    if engine.event_callback is not None:
        engine.report(append)
    if isinstance(append, OutcomeAppend):
        assert run.threads_delivery is not None
        if run.checkpoint_every:
            run.engine.files.take_due_checkpoint(run)  # before the turn is taken: it waits for the disk
        assert isinstance(append.turn, ThreadTurn)
        run.threads_delivery.receive(append.turn)


def pause(run: Execution, until_us: int | None, most_s: float = math.inf) -> None:
    """Wait until a wall time, but at most `most_s` seconds, or until the run is stopped. The clock is read
    again, because it may jump. If another process has taken the run meanwhile, nothing of it may begin
    here."""
    left_of = time_left(run.engine.clock, until_us, most_s)
    waited = False
    while (left := left_of()) > 0:
        waited = True
        if run.stopping.wait(min(left, 60.0)):
            break
    if waited and run.control is None:
        look_for_takeover(run)
    if run.control is not None:
        raise run.control


def time_left(clock: Clock, until_us: int | None, most_s: float) -> Callable[[], float]:
    """A function that returns how many seconds of a pause are left."""
    if until_us is None:
        ends = time.monotonic() + most_s
        return lambda: ends - time.monotonic()
    until, limit = until_us, clock.monotonic() + most_s
    return lambda: min(clock.wait(until), limit - clock.monotonic())


def look_for_takeover(run: Execution) -> None:
    """Stop the run if another owner has it by now, or if that cannot be determined. No other owner knows a
    run that the log does not have yet."""
    try:
        row = run.engine.store.run(run.id)
    except StoreError as error:
        run.lose(error)
        return
    if row is not None and row.epoch != run.epoch:
        run.lose(OwnershipLost(run.id))


def run_body(call: Call, request: Body) -> Outcome:
    """Run the function. With a limit it runs in a thread of its own, which Python cannot kill: the
    next attempt waits until an overdue one has returned."""
    body = request.hook or call.spec.body
    if request.timeout_s is None:
        return _run(body, call)
    if call.overdue is not None:
        call.overdue.join()
    box: list[Outcome] = []
    context = copy_context()
    thread = threading.Thread(
        target=lambda: box.append(context.run(_run, body, call)),
        name=f"holdfast-{call.key}",
        daemon=True,
    )
    try:
        thread.start()
    except RuntimeError as error:  # no thread is left, or the interpreter ends
        raise call.execution.interrupt(f"no thread for step {call.key}: {error}") from None
    thread.join(request.timeout_s)
    if box:
        return box[0]
    call.overdue = thread
    return Outcome(None, StepTimeout(call.key, request.timeout_s))


def _run(body: Callable[..., Any], call: Call) -> Outcome:
    with in_body(call):
        try:
            own = call.own()
            value = body(*own.args, **own.kwargs)
            own.warn_of_changes()
            return Outcome(value)
        except BaseException as error:
            return Outcome(None, error)
