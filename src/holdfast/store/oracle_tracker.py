"""Tasks, links and sessions as the oracle answers: each time from the whole log, without counters or
tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.kernel import events as e
from holdfast.kernel import links, session
from holdfast.kernel import task as tasks
from holdfast.kernel.author import NOBODY
from holdfast.store.tracker_port import DecisionRow, LinkRow, SessionRow, TaskFilter, TaskRow

if TYPE_CHECKING:
    import threading

    from holdfast.store.oracle import Stream
    from holdfast.store.rows import Entry, RunRow


class TrackerFolds:
    """The part of `OracleStore` that answers about the tracker."""

    streams: dict[str, Stream]
    _lock: threading.RLock

    if TYPE_CHECKING:

        def _open(self, name: str) -> Stream | None: ...

        def strays(self, run_ids: Sequence[str]) -> list[str]: ...

        def runs(self) -> list[RunRow]: ...

    def task(self, task: str) -> TaskRow | None:
        return self._rows().get(task)

    def tasks(self, which: TaskFilter, limit: int | None = None) -> list[TaskRow]:
        return _ordered([row for row in self._rows().values() if _passes(row, which)])[:limit]

    def session_tasks(self, session: str, status: str, limit: int) -> list[TaskRow]:
        rows = self._rows().values()
        found = [row for row in rows if (row.session, row.fields.status) == (session, status)]
        found.reverse()
        return sorted(found, key=lambda row: -row.fields.ended_at)[:limit]

    def count_session_tasks(self, session: str, status: str) -> int:
        return len(self.session_tasks(session, status, 1 << 62))

    def ready_tasks(
        self, limit: int | None = None, label: str | None = None, assignee: str | None = None
    ) -> list[TaskRow]:
        pending = [row for row in self._workable() if row.fields.status == "pending"]
        if label is not None:
            pending = [row for row in pending if label in row.fields.labels]
        if assignee is not None:
            pending = [row for row in pending if row.fields.assignee in ("", assignee)]
        return pending[:limit]

    def count_ready_tasks(self) -> int:
        return len(self.ready_tasks())

    def waiting_tasks(self, limit: int) -> list[TaskRow]:
        rows = self.tasks(TaskFilter(status=("pending", "failed")))
        ready = {row.id for row in self.ready_tasks()}
        return [row for row in rows if row.id not in ready][:limit]

    def count_waiting_tasks(self) -> int:
        return len(self.waiting_tasks(1 << 62))

    def claimed_tasks(self, *, workable: bool = True) -> list[TaskRow]:
        rows = self._workable() if workable else self.tasks(TaskFilter())
        return [row for row in rows if row.fields.status == "in_progress"]

    def decisions(self, limit: int | None = None, runs: Sequence[str] | None = None) -> list[DecisionRow]:
        rows = self._rows()
        with self._lock:
            found = [
                (entry.at, entry.position, stream, e.decode(entry.type, entry.payload), entry.version)
                for stream in self.streams.values()
                if stream.kind == tasks.KIND
                for entry in stream.log
                if entry.type == "TaskNoted"
            ]
        wanted = []
        for at, position, stream, event, version in found:
            assert isinstance(event, tasks.TaskNoted)
            if event.kind == "decision" and (runs is None or event.author.run in runs):
                row = rows[tasks.task_of(stream.log[0].stream)]
                decision = DecisionRow(
                    row.id, row.fields.name, row.place, event.text, event.author, at, version
                )
                wanted.append((at, position, decision))
        wanted.sort(key=lambda one: one[:2], reverse=True)
        return [decision for _, _, decision in wanted][:limit]

    def count_decisions(self) -> int:
        return len(self.decisions())

    def runs_that_left_decisions(self) -> list[str]:
        wrote = {one.author.run for one in self.decisions()}
        strays = set(self.strays(sorted(wrote)))
        return [
            run.id
            for run in reversed(self.runs())
            if run.id in wrote and (run.generation > 0 or run.id in strays)
        ]

    def task_ids(self, prefix: str, limit: int) -> list[str]:
        return sorted(task for task in self._rows() if task.startswith(prefix))[:limit]

    def last_task_change(self, by: str, after: int) -> Entry | None:
        with self._lock:
            self._open("")
            found = [
                entry
                for stream in self.streams.values()
                if stream.kind == tasks.KIND
                for entry in stream.log
                if entry.position > after and _is_by(entry, by)
            ]
            return max(found, key=lambda entry: entry.position, default=None)

    def links(self, tasks: Sequence[str]) -> list[LinkRow]:
        wanted = set(tasks)
        return [link for link in self.all_links() if wanted & {link.task, link.on}]

    def links_of(self, task: str) -> tuple[int, list[LinkRow]]:
        with self._lock:
            stream = self._open(links.STREAM)
            return stream.version if stream else 0, [one for one in self.all_links() if one.task == task]

    def all_links(self) -> list[LinkRow]:
        with self._lock:
            stream = self._open(links.STREAM)
            found: dict[LinkRow, None] = {}
            for event, _, _ in stream.recorded() if stream else ():
                if isinstance(event, links.LinkAdded):
                    found.setdefault(LinkRow(event.task, event.on, event.kind))
                elif isinstance(event, links.LinkRemoved):
                    found.pop(LinkRow(event.task, event.on, event.kind), None)
            there = {tasks.task_of(name) for name in self.streams}
            return [link for link in found if {link.task, link.on} <= there]

    def is_linked(self, task: str, on: str, kind: str) -> tuple[int, bool]:
        with self._lock:
            stream = self._open(links.STREAM)
            reached, frontier = {task}, [task]
            while frontier:
                last = frontier.pop()
                for link in self.all_links():
                    if link.kind == kind and link.task == last and link.on not in reached:
                        reached.add(link.on)
                        frontier.append(link.on)
            there = tasks.stream_of(task) in self.streams
            return stream.version if stream else 0, there and on in reached

    def sessions(self, limit: int | None = None) -> list[SessionRow]:
        with self._lock:
            self._open("")
            rows = []
            for name, stream in reversed(self.streams.items()):
                state = session.fold(stream.recorded()) if stream.kind == session.KIND else None
                if state is not None:
                    id = name.removeprefix(session.PREFIX)
                    rows.append(SessionRow(id, state.actor, state.started_at, state.ended_at, state.summary))
            return rows[:limit]

    def session_ids(self, prefix: str, limit: int) -> list[str]:
        return sorted(row.id for row in self.sessions() if row.id.startswith(prefix))[:limit]

    def _workable(self) -> list[TaskRow]:
        return _ordered(
            [
                row
                for row in self._rows().values()
                if not (row.fields.blocked or row.fields.archived or row.open_blockers)
            ]
        )

    def _rows(self) -> dict[str, TaskRow]:
        """Every task, in the order of their creation."""
        with self._lock:
            self._open("")
            states: dict[str, Any] = {}
            for name, stream in self.streams.items():
                state = tasks.fold(stream.recorded()) if stream.kind == tasks.KIND else None
                if state is not None:
                    states[tasks.task_of(name)] = state
            open_blockers = dict.fromkeys(states, 0)
            for link in self.all_links():
                if link.kind == "blocks" and not states[link.on].settled:
                    open_blockers[link.task] += 1
            return {
                task: TaskRow(
                    task,
                    state.fields,
                    state.number,
                    state.session,
                    open_blockers[task],
                    state.created_at,
                    state.updated_at,
                    state.version,
                    self.streams[tasks.stream_of(task)].number,
                )
                for task, state in states.items()
            }


def _ordered(rows: list[TaskRow]) -> list[TaskRow]:
    """By priority; of equal ones, as they were created."""
    return sorted(rows, key=lambda row: row.fields.priority)


def _passes(row: TaskRow, which: TaskFilter) -> bool:
    return (
        (not which.status or row.fields.status in which.status)
        and (which.label is None or which.label in row.fields.labels)
        and (which.assignee is None or row.fields.assignee == which.assignee)
        and (which.session is None or row.session == which.session)
        and (which.ids is None or row.id in which.ids)
        and (which.archived or not row.fields.archived)
        and (not which.blocked or _is_blocked(row))
    )


def _is_by(entry: Entry, person: str) -> bool:
    event = e.decode(entry.type, entry.payload)
    author = getattr(event, "author", NOBODY)
    return author.by == person and not (author.run or getattr(event, "run", ""))


def _is_blocked(row: TaskRow) -> bool:
    return row.fields.status in tasks.OPEN and bool(row.fields.blocked or row.open_blockers)
