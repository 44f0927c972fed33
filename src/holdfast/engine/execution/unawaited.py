"""Calls of an async workflow that were never awaited.

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
"""If more calls than this are remembered, those that have begun are dropped."""


class Unawaited:
    """One per async run."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, str, Coroutine[Any, Any, Any]]] = []

    def expect(self, kind: str, name: str, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        self._calls.append((kind, name, call))
        if len(self._calls) > _KEPT:
            self._calls = [one for one in self._calls if _is_new(one[2])]
        return call

    def forgotten(self, tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
        """The calls that are still not awaited when the function has ended, by kind and name. Closes them,
        so that Python does not warn. A call that was given to a task belongs to that task."""
        # Python 3.12 crashes if it is asked for the coroutine of an eager task that is done.
        given = {id(task.get_coro()) for task in tasks if not task.done()}
        left = [one for one in self._calls if _is_new(one[2]) and id(one[2]) not in given]
        self._calls = []
        for _, _, call in left:
            call.close()
        return [f"{kind} {name}".strip() for kind, name, _ in left]


def _is_new(call: Any) -> bool:
    """Whether it has neither begun nor been closed."""
    return call.cr_frame is not None and not call.cr_suspended and not call.cr_running
