"""The base of `hf.aio`: how a method of a Holdfast becomes a coroutine. Coroutines that are more than a call
in a thread are written here by hand; all others are in `async_handle`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from holdfast.handle import Holdfast

P = ParamSpec("P")
R = TypeVar("R")


class Coroutines:
    """Holds the Holdfast whose methods are called."""

    def __init__(self, holdfast: Holdfast) -> None:
        self._holdfast = holdfast

    async def _call(self, method: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a blocking method in a thread, and wait for it."""
        import asyncio

        return await asyncio.to_thread(method, *args, **kwargs)
