"""Whether an event loop runs in this thread: what blocks must not be called there."""

from __future__ import annotations

import sys

from holdfast.errors import WrongColour


def in_loop() -> bool:
    """Whether an event loop runs in this thread, without importing asyncio to find out."""
    asyncio = sys.modules.get("asyncio")
    running_loop = getattr(asyncio, "_get_running_loop", None)  # another thread may be loading it
    return running_loop is not None and running_loop() is not None


def refuse_in_loop(what: str, instead: str) -> None:
    if in_loop():
        raise WrongColour(f"{what}, and an event loop runs in this thread: write `{instead}`")
