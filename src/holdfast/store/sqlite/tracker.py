"""Tasks, links and sessions as the embedded store reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast import typed_values
from holdfast.store.rows import Entry
from holdfast.store.sqlite.choice import array
from holdfast.store.tracker_port import DecisionRow, LinkRow, SessionRow, TaskFilter, TaskRow

_JSON = ("labels", "checks", "meta", "evidence", "claim")


class TrackerQueries:
    """The queries of `SqliteStore` for tasks, links and sessions."""

    _read: Callable[..., list[tuple[Any, ...]]]

    def task(self, task: str) -> TaskRow | None:
        rows = self._read("task", (task,))
        return _task_row(rows[0]) if rows else None

    def tasks(self, which: TaskFilter, limit: int | None = None) -> list[TaskRow]:
        values = (
            array(which.status) if which.status else None,
            which.label,
            which.assignee,
            which.session,
            int(which.archived),
            int(which.blocked),
            -1 if limit is None else limit,
        )
        if which.ids is None:
            return [_task_row(row) for row in self._read("tasks", values)]
        return [_task_row(row) for row in self._read("named_tasks", (array(which.ids), *values))]

    def session_tasks(self, session: str, status: str, limit: int) -> list[TaskRow]:
        return [_task_row(row) for row in self._read("session_tasks", (session, status, limit))]

    def count_session_tasks(self, session: str, status: str) -> int:
        count: int = self._read("count_session_tasks", (session, status))[0][0]
        return count

    def ready_tasks(
        self, limit: int | None = None, label: str | None = None, assignee: str | None = None
    ) -> list[TaskRow]:
        most = -1 if limit is None else limit
        if label is None and assignee is None:
            return [_task_row(row) for row in self._read("ready_tasks", (most,))]
        return [_task_row(row) for row in self._read("chosen_ready_tasks", (most, label, assignee))]

    def count_ready_tasks(self) -> int:
        count: int = self._read("count_ready_tasks")[0][0]
        return count

    def waiting_tasks(self, limit: int) -> list[TaskRow]:
        return [_task_row(row) for row in self._read("waiting_tasks", (limit,))]

    def count_waiting_tasks(self) -> int:
        count: int = self._read("count_waiting_tasks")[0][0]
        return count

    def claimed_tasks(self, *, workable: bool = True) -> list[TaskRow]:
        return [_task_row(row) for row in self._read("claimed_tasks", (workable,))]

    def decisions(self, limit: int | None = None, runs: Sequence[str] | None = None) -> list[DecisionRow]:
        from holdfast.kernel.author import Author

        author_of = typed_values.decoder(Author)
        values = (-1 if limit is None else limit, None if runs is None else array(runs))
        return [
            DecisionRow(task, name, number, text, author_of(author), at, version)
            for task, name, number, text, author, at, version in self._read("decisions", values)
        ]

    def count_decisions(self) -> int:
        count: int = self._read("count_decisions")[0][0]
        return count

    def runs_that_left_decisions(self) -> list[str]:
        return [row[0] for row in self._read("runs_that_left_decisions")]

    def task_ids(self, prefix: str, limit: int) -> list[str]:
        return [row[0] for row in self._read("task_ids", (prefix, limit))]

    def last_task_change(self, by: str, after: int) -> Entry | None:
        found = self._read("last_task_change", (by, after))
        return Entry(*found[0]) if found else None

    def links(self, tasks: Sequence[str]) -> list[LinkRow]:
        return [LinkRow(*row) for row in self._read("links", (array(tasks),))]

    def links_of(self, task: str) -> tuple[int, list[LinkRow]]:
        rows = self._read("links_of", (task,))
        return rows[0][0], [LinkRow(task, on, kind) for _, kind, on in rows if on is not None]

    def all_links(self) -> list[LinkRow]:
        return [LinkRow(*row) for row in self._read("all_links")]

    def is_linked(self, task: str, on: str, kind: str) -> tuple[int, bool]:
        version, found = self._read("is_linked", (task, on, kind))[0]
        return version, bool(found)

    def sessions(self, limit: int | None = None) -> list[SessionRow]:
        return [SessionRow(*row) for row in self._read("sessions", (-1 if limit is None else limit,))]

    def session_ids(self, prefix: str, limit: int) -> list[str]:
        return [row[0] for row in self._read("session_ids", (prefix, limit))]


def _task_row(row: Sequence[Any]) -> TaskRow:
    from holdfast.kernel.task import TaskFields  # not at the top: commands that look at runs need none

    names = TaskFields.__struct_fields__  # the queries have them in this order
    width = len(names)
    found = dict(zip(names, row[1 : width + 1], strict=True))
    for name in _JSON:
        found[name] = msgspec.json.decode(found[name])
    found["archived"] = bool(found["archived"])
    fields = typed_values.convert(found, TaskFields)
    return TaskRow(row[0], fields, *row[width + 1 :])
