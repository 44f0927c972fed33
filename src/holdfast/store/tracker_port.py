"""The part of the store port that reads tasks, links and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from holdfast.kernel.author import Author
    from holdfast.kernel.task import TaskFields
    from holdfast.store.rows import Entry


class TaskRow(msgspec.Struct, frozen=True):
    """A task as `task list` shows it. `number` is that of its last claim; `open_blockers` is how many tasks
    that it needs are neither completed nor archived."""

    id: str
    fields: TaskFields
    number: int
    session: str
    open_blockers: int
    created_at: int
    updated_at: int
    version: int
    place: int = 0
    """Its short number, which it shares the sequence of with runs (`RunRow.number`)."""


class TaskFilter(msgspec.Struct, frozen=True):
    """Which tasks. What is left as it is lets all through, but for archived ones."""

    status: tuple[str, ...] = ()
    label: str | None = None
    assignee: str | None = None
    session: str | None = None
    ids: tuple[str, ...] | None = None
    archived: bool = False
    blocked: bool = False
    """Only open tasks that are blocked or need something that is open."""


class LinkRow(NamedTuple):
    """A link: `task` needs `on`, or is a part of it, as `kind` says."""

    task: str
    on: str
    kind: str


class DecisionRow(NamedTuple):
    """A note of a task that is a decision; `number` is the short number of the task, `version` that of the
    note's event in its history."""

    task: str
    name: str
    number: int
    text: str
    author: Author
    at: int
    version: int


class SessionRow(msgspec.Struct, frozen=True):
    """A session; `ended_at` is 0 while it is open."""

    id: str
    actor: str
    started_at: int
    ended_at: int
    summary: str


class TrackerStore(Protocol):
    """The queries of a store on the tracker; every answer is of one moment."""

    def task(self, task: str) -> TaskRow | None: ...

    def tasks(self, which: TaskFilter, limit: int | None = None) -> list[TaskRow]:
        """The tasks that the filter lets through: the most urgent first, of equally urgent ones the
        oldest."""
        ...

    def session_tasks(self, session: str, status: str, limit: int) -> list[TaskRow]:
        """The tasks of a session with that status, archived or not: the ones that ended last first, of
        equal ones the newest. What it costs does not grow with those beyond the limit."""
        ...

    def count_session_tasks(self, session: str, status: str) -> int:
        """How many there are of them."""
        ...

    def ready_tasks(
        self, limit: int | None = None, label: str | None = None, assignee: str | None = None
    ) -> list[TaskRow]:
        """Tasks that are pending, not blocked and not archived, and need nothing that is open, in the order
        of `tasks`; with `label`, those that have it; with `assignee`, those for them or for no one. What it
        costs does not grow with the tasks that are not ready."""
        ...

    def count_ready_tasks(self) -> int:
        """How many `ready_tasks` there are."""
        ...

    def waiting_tasks(self, limit: int) -> list[TaskRow]:
        """Tasks that failed, and pending ones that are blocked or need something that is open; none that is
        archived; in the order of `tasks`."""
        ...

    def count_waiting_tasks(self) -> int:
        """How many `waiting_tasks` there are."""
        ...

    def claimed_tasks(self, *, workable: bool = True) -> list[TaskRow]:
        """Tasks that are in progress and not archived, in the order of `tasks`. If `workable`, those that are
        not blocked and need nothing that is open: the ones of them whose claim is dead are ready, too."""
        ...

    def decisions(self, limit: int | None = None, runs: Sequence[str] | None = None) -> list[DecisionRow]:
        """The notes of tasks that are decisions, whatever became of the task, the newest first; with `runs`,
        those that these runs wrote. What it costs does not grow with the tasks, nor without `runs` with the
        decisions beyond the limit."""
        ...

    def count_decisions(self) -> int:
        """How many `decisions` there are."""
        ...

    def runs_that_left_decisions(self) -> list[str]:
        """The runs that wrote a decision and of whose history a part may not count, the oldest first: they
        were rewound, or are children of a generation that was left."""
        ...

    def task_ids(self, prefix: str, limit: int) -> list[str]:
        """Ids with that beginning, in order."""
        ...

    def last_task_change(self, by: str, after: int) -> Entry | None:
        """The last event of a task after that position of the log that this person wrote outside every run;
        None if there is none."""
        ...

    def links(self, tasks: Sequence[str]) -> list[LinkRow]:
        """Every link from or to one of these tasks, in the order of their creation."""
        ...

    def links_of(self, task: str) -> tuple[int, list[LinkRow]]:
        """The version of the stream of links, and the links that lead from a task: what it needs, what it
        is a part of. What it costs does not grow with those that lead to it."""
        ...

    def all_links(self) -> list[LinkRow]: ...

    def is_linked(self, task: str, on: str, kind: str) -> tuple[int, bool]:
        """The version of the stream of links, and whether a chain of links of that kind leads from `task` to
        `on` at that version."""
        ...

    def sessions(self, limit: int | None = None) -> list[SessionRow]:
        """Sessions, the newest first."""
        ...

    def session_ids(self, prefix: str, limit: int) -> list[str]:
        """Ids with that beginning, in order."""
        ...
