"""Calls of an async workflow that nobody awaited.

`ask(x)` without `await` does nothing, and Python says so, if at all, with the name of an inner function. The
run would end as if the step had not been there. So its function must have awaited what it called.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_KEPT = 64
"""So many calls are remembered before those that have begun are dropped."""


class Unawaited:
    """One per async run."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, Coroutine[Any, Any, Any]]] = []

    def expect(self, what: str, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        self._calls.append((what, call))
        if len(self._calls) > _KEPT:
            left = [one for one in self._calls if _is_new(one[1])]
            self._calls = left
        return call

    def forgotten(self, tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
        """The calls that nobody awaits, now that the function has ended. They are closed: Python need not
        warn of them. What was given to a task is that task's."""
        given = {id(task.get_coro()) for task in tasks}
        left = [(what, call) for what, call in self._calls if _is_new(call) and id(call) not in given]
        self._calls = []
        for _, call in left:
            call.close()
        return [what for what, _ in left]


def _is_new(call: Any) -> bool:
    """Whether it has neither begun nor been closed."""
    return call.cr_frame is not None and not call.cr_suspended and not call.cr_running
