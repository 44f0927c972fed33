"""A change of a task, a link or the memory in a word or two, as `op log` and refusals print it."""

from __future__ import annotations

from typing import Final

from holdfast.kernel import events as e
from holdfast.kernel import task as t

_WORDS: Final[dict[type[e.Event], str]] = {
    t.TaskCreated: "created",
    t.TaskCompleted: "completed",
    t.TaskFailed: "failed",
    t.TaskReopened: "reopened",
    t.TaskArchived: "archived",
    t.TaskClaimed: "claimed",
    t.ClaimRenewed: "claim renewed",
    t.ClaimReleased: "released",
    t.TaskNoted: "note added",
    t.TaskReverted: "restored",
}


def change_of(event: e.Event) -> str:
    """`edited name, labels`, `completed`, `claimed` and the like."""
    if isinstance(event, t.TaskEdited):
        return f"edited {', '.join(event.changes)}"
    if isinstance(event, t.TaskBlocked):
        return "blocked" if event.reason else "unblocked"
    return _WORDS.get(type(event), "changed")
