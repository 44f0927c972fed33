"""Waits of the tasks of a run: for holdfast, each other, a primitive of asyncio, or something unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

from holdfast.package import ROOT

_ENGINE = str(ROOT / "engine")
_OWN_FILES = ("asyncio/locks.py", "asyncio/queues.py")

Kind = Literal["holdfast", "primitive", "unknown"]


class TaskWait(NamedTuple):
    kind: Kind
    place: str
    """File and line in the user's code; empty if unknown."""


def waits_of(tasks: Sequence[asyncio.Task[Any]], futures: set[int]) -> list[TaskWait]:
    """One for each task. `futures` are those that only holdfast sets. A task that waits for holdfast, or for
    other tasks among `tasks`, cannot continue by itself."""
    mine = {id(task) for task in tasks}
    return [_wait_of(task, mine, futures) for task in tasks]


def _wait_of(task: asyncio.Task[Any], mine: set[int], futures: set[int]) -> TaskWait:
    future = getattr(task, "_fut_waiter", None)
    frames = _frames(task)
    place = _place(frames)
    if future is None:
        return TaskWait("unknown", place)
    if id(future) in futures or _is_of(future, mine) or _joins(frames, mine) or _is_in_engine(frames):
        return TaskWait("holdfast", place)
    last = frames[-1].f_code.co_filename if frames else ""
    return TaskWait("primitive" if last.endswith(_OWN_FILES) else "unknown", place)


def _is_of(future: Any, mine: set[int]) -> bool:
    if id(future) in mine:
        return True
    children: Iterable[Any] | None = getattr(future, "_children", None)  # of asyncio.gather
    return children is not None and all(child.done() or _is_of(child, mine) for child in children)


def _joins(frames: Sequence[FrameType], mine: set[int]) -> bool:
    """Whether it waits in `asyncio.sleep`, or for tasks of the run in `asyncio.wait` or at the end of a
    TaskGroup."""
    if not frames:
        return False
    code, names = frames[-1].f_code, frames[-1].f_locals
    if code.co_filename.endswith("asyncio/tasks.py") and code.co_name == "sleep":
        return True  # a timer of its own, which comes after the history
    if code.co_filename.endswith("asyncio/tasks.py") and code.co_name == "_wait":
        return names.get("timeout") is None and all(
            one.done() or id(one) in mine for one in names.get("fs", ())
        )
    return code.co_filename.endswith("asyncio/taskgroups.py") and code.co_name == "__aexit__"


def _is_in_engine(frames: Sequence[FrameType]) -> bool:
    last = frames[-1].f_code.co_filename if frames else ""
    return last.startswith(_ENGINE) and not last.endswith("fanout.py")


def _frames(task: asyncio.Task[Any]) -> list[FrameType]:
    """Of the chain of coroutines that the task runs, the outermost first."""
    found = []
    at: Any = task.get_coro()
    while at is not None:
        frame = (
            getattr(at, "cr_frame", None) or getattr(at, "ag_frame", None) or getattr(at, "gi_frame", None)
        )
        if frame is not None:
            found.append(frame)
        at = (
            getattr(at, "cr_await", None)
            or getattr(at, "ag_await", None)
            or getattr(at, "gi_yieldfrom", None)
        )
    return found


def _place(frames: Sequence[FrameType]) -> str:
    """The innermost line that is neither asyncio's nor holdfast's."""
    for frame in reversed(frames):
        file = frame.f_code.co_filename
        if not file.startswith(_ENGINE) and "/asyncio/" not in file:
            return f"{Path(file).name}:{frame.f_lineno}"
    return ""
