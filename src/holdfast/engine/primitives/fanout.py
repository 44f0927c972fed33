"""Fan-out and fan-in: `parallel` for `def` workflows, `gather` for async ones.

When one branch fails, its siblings continue to their ends and are recorded; the failure is raised
after that. Several failures are raised as one ExceptionGroup, in the order of the arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from threading import get_ident
from typing import Any, TypeVar, overload

from holdfast.engine.execution.call import Call, Outcome
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.crew import Work, attempt, run_all, run_in_turns
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.scope import Scope, current, refuse_in_async, require_thread
from holdfast.engine.execution.thread_delivery import call_branch
from holdfast.engine.execution.thread_driver import barrier, drive
from holdfast.engine.primitives.slots import Slots, limited
from holdfast.engine.primitives.step import AsyncStep, BoundStep, Step
from holdfast.engine.runs.workflow import AsyncWorkflow, WorkflowBase
from holdfast.errors import BadInput, WrongColour
from holdfast.kernel.state import OVER

A = TypeVar("A")
R = TypeVar("R")


@overload
def parallel(branch: Step[[A], R], items: Iterable[A], *, limit: int = 8) -> list[R]: ...
@overload
def parallel(branch: AsyncWorkflow[[A], R], items: Iterable[A], *, limit: int = 8) -> list[R]: ...
@overload
def parallel(branch: Callable[[A], R], items: Iterable[A], *, limit: int = 8) -> list[R]: ...
def parallel(branch: Any, items: Iterable[Any], *, limit: int = 8) -> list[Any]:
    """Call `branch` with every item, at most `limit` at a time, and return the results in order.

    `branch` is a step, or a workflow of either colour, or a function that calls steps: then each item is a
    scope of its own.
    """
    if limit < 1:
        raise BadInput(f"parallel(limit={limit}): at least 1")
    if isinstance(branch, AsyncStep):
        raise WrongColour(
            f"parallel() is for `def` steps; in an async workflow `await gather(...)` {branch.name}"
        )
    if isinstance(branch, AsyncWorkflow):
        branch = branch.sync
    scope = current.get()
    if type(scope) is not Scope:
        return _results(run_all([_plain(branch, item) for item in items], limit))
    require_thread(scope, "parallel()")
    run = scope.execution
    refuse_in_async(run, "parallel", "gather")
    assert run.threads_delivery is not None
    if not isinstance(branch, (Step, BoundStep)):
        return _results(run_in_turns(run, [_branch(scope, branch, item) for item in items], limit))
    calls = [branch.call(scope, _arguments(branch, item), {}) for item in items]
    if run.threads_delivery.crews:
        return _results(run_in_turns(run, [_call(call) for call in calls], limit))
    return _results(_run_calls(run, calls, limit))


def _plain(branch: Callable[..., Any], item: Any) -> Work:
    return lambda: branch(item)


def _arguments(branch: Step[Any, Any] | BoundStep, item: Any) -> Sequence[Any]:
    return (branch._instance, item) if isinstance(branch, BoundStep) else (item,)


def _call(call: Call) -> Work:
    return lambda: drive(call, call.recall())


def _branch(scope: Scope, branch: Any, item: Any) -> Work:
    """The work of one item, with its scope fixed now, in the caller's order."""
    named = getattr(branch, "__self__", None)  # `child.sync` is named after the child
    if not isinstance(named, WorkflowBase):
        named = branch
    child = scope.child(getattr(named, "__name__", type(named).__name__))

    def work() -> Any:
        child.thread = get_ident()
        current.set(child)
        value = call_branch(branch, item)
        child.execution.check_all_visited(child.counters)
        return value

    return work


def _run_calls(run: Execution, calls: Sequence[Call], limit: int) -> list[Outcome]:
    """Steps alone: no code of the workflow runs between them, so nothing depends on their order. What is
    recorded is taken first: it needs no thread."""
    assert run.threads_delivery is not None
    new: list[Call] = []
    recorded: list[Call] = []
    for call in calls:
        past = call.recall()
        (new if past is None or past.status not in OVER else recorded).append(call)
    run.threads_delivery.replayed_together(call.key for call in recorded)
    outcomes = {call: attempt(_call(call)) for call in recorded}
    if new:
        barrier(run, new[0].key, new[0].spec.name)
        outcomes.update(zip(new, run_all([_call(call) for call in new], limit, run), strict=True))
    return [outcomes[call] for call in calls]


async def gather(*awaitables: Awaitable[R], limit: int | None = None) -> list[R]:
    """Await all, at most `limit` at a time, and return the results in order."""
    if limit is not None and limit < 1:
        raise BadInput(f"gather(limit={limit}): at least 1")
    if limit is None:
        return _results(await _gather(awaitables, None))
    with limited(limit) as slots:
        return _results(await _gather(awaitables, slots))


async def _gather(awaitables: Sequence[Awaitable[R]], slots: Slots | None) -> list[Outcome]:
    import asyncio
    import inspect

    async def one(awaitable: Awaitable[R]) -> Outcome:
        try:
            if slots is None:
                return Outcome(await awaitable)
            async with slots:
                return Outcome(await awaitable)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return Outcome(None, error)

    def branch(awaitable: Awaitable[R]) -> asyncio.Task[Outcome]:
        coroutine = one(awaitable)
        # The branch's scope is named after what it runs, as plain asyncio.gather would name it.
        coroutine.__qualname__ = getattr(  # type: ignore[attr-defined]
            awaitable, "__qualname__", type(awaitable).__name__
        )
        return asyncio.ensure_future(coroutine)

    tasks = [branch(awaitable) for awaitable in awaitables]
    try:
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    finally:
        for awaitable in awaitables:  # a branch that was cancelled before it began
            if (
                inspect.iscoroutine(awaitable)
                and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED
            ):
                awaitable.close()
    return [one if isinstance(one, Outcome) else Outcome(None, one) for one in outcomes]


def _results(outcomes: Sequence[Outcome]) -> list[Any]:
    """All values, or what went wrong: a control signal before any failure."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    for error in errors:
        if isinstance(error, Control):
            raise error
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} of {len(outcomes)} branches failed", errors)
    return [outcome.value for outcome in outcomes]
