"""The tasks of a run: scopes by the place of their creation, and sets of them that have one order.

A task factory, chained before the one that is there, gives every task that is created inside a scope a
scope of its own, at its creation, in the parent's context. The numbers of the branches are those of the
program's text and never of memory addresses: `asyncio.as_completed` makes its tasks from a set, so they are
made here in the order of its argument; and the tasks of a run hash by their number, so that a TaskGroup
that cancels its tasks, or `asyncio.wait`, walks them in the same order in every process.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Coroutine, Iterable, Mapping, Sequence, Set, ValuesView
from contextvars import Context, copy_context
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from holdfast.engine.execution.anyio_order import order_cancel_scopes
from holdfast.engine.execution.scope import Scope, current
from holdfast.errors import BadInput

T = TypeVar("T")


class NumberedTask(asyncio.Task[Any]):
    """A task of a run's code: number 0 is the one of its function. Its hash is the same in every process, and
    so is the order of sets of such tasks. The low bits, which decide that order, are the number; the others
    keep the tasks of different runs apart."""

    def __init__(self, run_id: str, number: int, coro: Any, **kwargs: Any) -> None:
        self._hash = (zlib.crc32(run_id.encode()) << 24) + number
        if kwargs.get("name") is None:
            kwargs["name"] = f"Task-{number}"  # asyncio counts the tasks of all runs
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        order_cancel_scopes(NumberedTask)
        return self._hash


def install_task_factory(loop: asyncio.AbstractEventLoop) -> None:
    """Make every task that is created inside a scope a scope of its own. Once per loop."""
    previous = loop.get_task_factory()
    if not isinstance(previous, TaskFactory):
        loop.set_task_factory(TaskFactory(previous))


def body_task(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that does not belong to the run's code: `loop.create_task` without the factory below."""
    factory = loop.get_task_factory()
    if type(factory) is TaskFactory and factory.previous is None:
        return asyncio.Task(coro, loop=loop)
    return loop.create_task(coro)


class TaskFactory:
    def __init__(self, previous: Any) -> None:
        self.previous = previous
        self._made: dict[Any, Any] = {}
        """Tasks of `as_completed` that are made and not given out yet, by their coroutines."""

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> Any:
        scope = current.get()
        if type(scope) is not Scope or not scope.execution.is_async:
            return self._task(loop, coro, **kwargs)
        if self._made:
            made = self._made.pop(coro, None)
            if made is not None:
                return made
        maker = _maker()
        if maker is None or maker.name != "as_completed":
            return self._branch(loop, scope, coro, shared=maker is not None, **kwargs)
        for one in _in_order(maker.argument):
            if asyncio.iscoroutine(one) and one not in self._made:
                self._made[one] = self._branch(loop, scope, one, by_chance=True, **kwargs)
        if coro not in self._made:
            raise BadInput(
                "asyncio.as_completed() got awaitables that are neither coroutines nor tasks; make tasks"
            )
        return self._made.pop(coro)

    def _branch(
        self,
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
        coro: Coroutine[Any, Any, Any],
        *,
        shared: bool = False,
        by_chance: bool = False,
        context: Context | None = None,
        **kwargs: Any,
    ) -> Any:
        """`shared`: it runs in the scope of its caller, which waits for it. `by_chance`: an older holdfast
        gave such branches any number."""
        run = scope.execution
        delivery = run.tasks_delivery
        assert delivery is not None
        # A context that the caller passes may be shared by several tasks: never set it in place.
        context = copy_context() if context is None else context.copy()
        branch = scope if shared else scope.child(_name(coro))
        context.run(current.set, branch)
        run.task_number += 1
        if by_chance and run.state.loose:
            run.unordered.append(branch.counters.path)
        if self.previous is None:
            task: Any = NumberedTask(run.id, run.task_number, coro, loop=loop, context=context, **kwargs)
        else:
            delivery.eager += 1
            try:
                task = self.previous(loop, coro, context=context, **kwargs)
            finally:
                delivery.eager -= 1
        delivery.tasks.add(task)
        task.add_done_callback(partial(run.task_ended, None if shared else branch.counters))
        return task

    def _task(
        self, loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None, **kwargs: Any
    ) -> Any:
        if self.previous is None:
            return asyncio.Task(coro, loop=loop, context=context, **kwargs)
        # An older factory may not know `context`.
        return self.previous(loop, coro, **({"context": context} if context else {}), **kwargs)


def _name(coro: Any) -> str:
    name: str = getattr(coro, "__qualname__", "") or type(coro).__name__
    return name.rpartition(".")[2]


class _Maker(NamedTuple):
    """The function of asyncio that makes the task."""

    name: str
    argument: Any = None


_AS_COMPLETED = {"as_completed": "fs", "__init__": "aws"}
"""The function, or since Python 3.13 the iterator, → the name of its argument."""
_FRAMES = 6


def _maker() -> _Maker | None:
    """The caller, if it is `wait_for` or `as_completed`. Python 3.11's `wait_for` wraps its coroutine in a
    task, 3.12's does not: identity must not depend on that, so the wrapper shares the scope of its
    caller."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return None
        code = frame.f_code
        if code.co_filename == asyncio.tasks.__file__:
            if code.co_name == "wait_for" and sys.version_info < (3, 12):
                return _Maker("wait_for")
            argument = _AS_COMPLETED.get(code.co_name)
            if argument is not None and argument in code.co_varnames:
                return _Maker("as_completed", frame.f_locals.get(argument))
        frame = frame.f_back
    return None


def _in_order(given: Any) -> Iterable[Any]:
    if isinstance(given, (Sequence, Mapping, ValuesView)):
        return given
    for one in given if isinstance(given, Set) else ():
        if asyncio.iscoroutine(one):
            one.close()  # the error says enough
    raise BadInput(
        f"asyncio.as_completed() got coroutines in a {type(given).__name__}, which has no order that a "
        "resumed run can rely on; give it a list"
    )
