"""Links between tasks: which task needs which. All of them are one stream, so that no two can close a cycle.

Whether a link would close one is asked of the store before the command: the answer holds for a version of the
stream, and the command is decided only if that is still the last one (`tracker/linking.py`).
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import BadInput
from holdfast.kernel.author import NOBODY, Author
from holdfast.kernel.events import Event

STREAM: Final = "@links"
KIND: Final = "links"
"""The kind of the stream."""

KINDS: Final = ("blocks", "parent", "discovered-from", "related")
"""The kinds of links. `blocks`: the task is not ready before `on` is completed. `parent`: `on` is what the
task is a part of. `discovered-from`: it was found while `on` was worked on."""
ACYCLIC: Final = ("blocks", "parent")


class LinkAdded(Event, frozen=True, gc=False):
    """`task` was linked to `on`: with `blocks`, it needs `on`; with `parent`, `on` is its parent. `operation`
    is the one that did it, if one did."""

    task: str
    on: str
    kind: str = "blocks"
    author: Author = NOBODY
    operation: str = ""


class LinkRemoved(Event, frozen=True, gc=False):
    """The link from `task` to `on` of that kind is gone."""

    task: str
    on: str
    kind: str = "blocks"
    author: Author = NOBODY
    operation: str = ""


EVENTS: Final = (LinkAdded, LinkRemoved)


def add(task: str, on: str, kind: str, author: Author = NOBODY) -> LinkAdded:
    """Decide to link two tasks. Raises `BadInput` for a kind that there is not, and for a task on itself."""
    check_kind(kind)
    if task == on:
        raise BadInput(f"task {task} cannot be linked to itself; name another task")
    return LinkAdded(task, on, kind, author)


def check_kind(kind: str) -> None:
    """Raise `BadInput` if there is no such kind of link."""
    if kind not in KINDS:
        raise BadInput(f"{kind!r} is no kind of link; there are {', '.join(KINDS)}")
