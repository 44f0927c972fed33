"""The synchronous driver: does what `perform` asks for, in the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from holdfast.engine.perform import Body, Call, Outcome, Pause, perform
from holdfast.engine.scope import InsideStep, current
from holdfast.errors import StepTimeout
from holdfast.kernel.state import StepState
from holdfast.store.port import Append


def drive(call: Call, past: StepState | None) -> Any:
    """Perform the call and return its value or raise its error."""
    run = call.execution
    engine = run.engine
    performing = perform(call, past)
    answer: Outcome | None = None
    try:
        while True:
            request = performing.send(answer)
            answer = None
            if type(request) is Append:
                try:
                    engine.store.append(request)
                except Exception as error:
                    raise run.lose(error) from None
                except BaseException as error:
                    run.interrupted(error)
                    raise
                if engine.on_event is not None:
                    engine.tell(request)
            elif type(request) is Body:
                answer = run_body(call, request)
            else:
                assert type(request) is Pause
                pause(run, request.until_us)
    except StopIteration as stop:
        outcome: Outcome = stop.value
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def pause(run: Any, until_us: int) -> None:
    """Wait until a wall time, or until the run is stopped. The clock may jump: it is asked again."""
    while (left := run.engine.clock.wait(until_us)) > 0:
        if run.stopping.wait(min(left, 60.0)):
            raise run.control
    if run.control is not None:
        raise run.control


def run_body(call: Call, request: Body) -> Outcome:
    """Run the function. With a limit it runs in a thread of its own, which Python cannot kill: the
    next attempt waits until an overdue one has returned."""
    body = request.hook or call.spec.body
    inside = InsideStep(call.execution, call.key, call.attempt)
    if request.timeout_s is None:
        return _run(body, call, inside)
    _join(call.overdue)
    box: list[Outcome] = []
    context = copy_context()
    thread = threading.Thread(
        target=lambda: box.append(context.run(_run, body, call, inside)),
        name=f"holdfast-{call.key}",
        daemon=True,
    )
    thread.start()
    thread.join(request.timeout_s)
    if box:
        return box[0]
    call.overdue = thread
    return Outcome(None, StepTimeout(call.key, request.timeout_s))


def _join(overdue: threading.Thread | None) -> None:
    if overdue is not None:
        overdue.join()


def _run(body: Callable[..., Any], call: Call, inside: InsideStep) -> Outcome:
    token = current.set(inside)
    try:
        return Outcome(body(*call.args, **call.kwargs))
    except BaseException as error:
        return Outcome(None, error)
    finally:
        current.reset(token)
