"""`tasks/sessions/ID.json`, and `tasks/current.json` for the session that was active last."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.clock import instant
from holdfast.kernel import session as sessions
from holdfast.kernel import task as tasks
from holdfast.mirror.memory_file import SessionMemory, in_session
from holdfast.store.port import MemoryFilter

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Store
    from holdfast.store.tracker_port import TaskRow

DIRECTORY: Final = "sessions"
CURRENT: Final = "current.json"
MOST: Final = 200
"""How many ended tasks are listed, the newest; the history has all of them."""


class TaskContext(msgspec.Struct, frozen=True):
    """The context of the task so far: by notes on it, by memories of it, by its run."""

    files_modified: list[str]
    decisions: list[str]
    scope_changes: list[str]


class CurrentTask(msgspec.Struct, frozen=True):
    """The task that the session works on."""

    id: str
    name: str
    status: tasks.TaskStatus
    started_at: datetime | None
    context: TaskContext
    body: str = ""
    run: str = ""


class CompletedTask(msgspec.Struct, frozen=True):
    """A task that the session has completed."""

    id: str
    name: str
    completed_at: datetime
    duration_seconds: float
    summary: str = ""


class FailedTask(msgspec.Struct, frozen=True):
    """A task that the session has given up."""

    id: str
    name: str
    failed_at: datetime
    duration_seconds: float
    error: str = ""


class SessionFile(msgspec.Struct, frozen=True):
    """A session: the task that it works on, what it has done, and what it knows.

    session_id       empty if tasks were worked on outside any session
    current_task     null if it works on none
    completed_tasks  the newest ones, the oldest of them first; `completed_count` is how many there are
    """

    session_id: str
    actor: str
    started_at: datetime | None
    ended_at: datetime | None
    summary: str
    current_task: CurrentTask | None
    completed_tasks: list[CompletedTask]
    completed_count: int
    failed_tasks: list[FailedTask]
    memory: SessionMemory
    sha256: str


def render(
    store: Store,
    redactor: Redactor,
    session: str,
    project_type: str,
    files_of: Callable[[str], list[str]],
) -> dict[str, Any]:
    """The file of a session; `files_of(run)` are the files that a run has changed."""
    state = sessions.fold(store.load(sessions.stream_of(session))) if session else None
    completed = store.session_tasks(session, "completed", MOST)
    failed = store.session_tasks(session, "failed", MOST)
    working = max(store.session_tasks(session, "in_progress", MOST), key=_claimed_at, default=None)
    found = SessionFile(
        session,
        state.actor if state else "",
        instant(state.started_at) if state else None,
        instant(state.ended_at) if state and state.ended_at else None,
        state.summary if state else "",
        None if working is None else _current(store, working, files_of),
        [
            CompletedTask(
                row.id, row.fields.name, instant(row.fields.ended_at), _duration(row), row.fields.summary
            )
            for row in reversed(completed)
        ],
        store.count_session_tasks(session, "completed"),
        [
            FailedTask(
                row.id, row.fields.name, instant(row.fields.ended_at), _duration(row), row.fields.error
            )
            for row in reversed(failed)
        ],
        in_session(store, session, project_type),
        "",
    )
    redacted: dict[str, Any] = redactor.redact_value(msgspec.to_builtins(found))
    return redacted


def _current(store: Store, row: TaskRow, files_of: Callable[[str], list[str]]) -> CurrentTask:
    state = tasks.fold(store.load(tasks.stream_of(row.id)))
    notes = () if state is None else state.notes
    run = row.fields.claim.run if row.fields.claim else ""
    decided = store.memories(MemoryFilter(kind="decision", scope=f"task:{row.id}"), limit=MOST)
    texts = {
        kind: [note.text for note in notes if note.kind == kind] for kind in ("file", "decision", "scope")
    }
    return CurrentTask(
        row.id,
        row.fields.name,
        row.fields.status,
        instant(row.fields.started_at) if row.fields.started_at else None,
        TaskContext(
            list(dict.fromkeys([*texts["file"], *(files_of(run) if run else ())])),
            list(dict.fromkeys([*texts["decision"], *(one.text for one in reversed(decided))])),
            texts["scope"],
        ),
        row.fields.body,
        run,
    )


def _claimed_at(row: TaskRow) -> tuple[int, str]:
    return (row.fields.claim.at if row.fields.claim else row.updated_at, row.id)


def _duration(row: TaskRow) -> float:
    return max(0, row.fields.ended_at - row.fields.started_at) / 1e6
