"""A task as the tracker shows it: in a list, and with everything that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from holdfast.clock import instant, optional_instant
from holdfast.json_view import View
from holdfast.kernel import links as kernel_links
from holdfast.kernel import task_rules
from holdfast.kernel.task import ClaimState, Note, TaskFields
from holdfast.store.tracker_port import LinkRow, TaskRow
from holdfast.views.work import TaskRun

LINK_KINDS = kernel_links.KINDS
NOTE_KINDS = task_rules.NOTE_KINDS


class TaskClaim(View, frozen=True):
    """The claim of a task. `until` is None for a run, which holds the task until it ends."""

    number: int
    actor: str
    session: str = ""
    run: str = ""
    until: datetime | None = None
    pid: int = 0
    since: datetime | None = None

    JSON: ClassVar = {
        "number": "counts the claims of the task; what is done under a claim names it",
        "actor": "who has it",
        "session": "in which session, or null",
        "run": "the run that has it, or null",
        "until": "when the lease ends; null for a run, which has it until it ends",
        "pid": "the process that has it, or null: with its death the claim is free",
        "since": "when it was claimed",
    }
    JSON_NULL: ClassVar = ("session", "run", "pid")

    @classmethod
    def of(cls, claim: ClaimState) -> TaskClaim:
        return cls(
            claim.number,
            claim.actor,
            claim.session,
            claim.run,
            None if claim.run else optional_instant(claim.until),
            claim.holder.pid if claim.holder else 0,
            optional_instant(claim.at),
        )


class Task(View, frozen=True):
    """A task. `JSON` says what each field is."""

    id: str
    name: str
    status: str
    created_at: datetime
    updated_at: datetime
    version: int
    body: str = ""
    priority: int = 2
    labels: tuple[str, ...] = ()
    assignee: str = ""
    due: datetime | None = None
    checks: tuple[str, ...] = ()
    meta: dict[str, Any] = msgspec.field(default_factory=dict)
    blocked: str = ""
    open_blockers: int = 0
    summary: str = ""
    evidence: Any = None
    error: str = ""
    unchecked: str = ""
    archived: bool = False
    claim: TaskClaim | None = None
    attempts: int = 0
    session: str = ""
    started_at: datetime | None = None
    completed_at: datetime | None = None
    number: int = 0

    JSON: ClassVar = {
        "id": "a UUID",
        "number": "its short number in the store: `#42` is accepted wherever an id is",
        "name": "in one line",
        "body": "what is to be done, or null",
        "status": "`pending`, `in_progress`, `completed` or `failed`",
        "priority": "0 is the most urgent, 4 the least",
        "labels": "texts",
        "assignee": "who is to do it, or null",
        "due": "until when, or null",
        "checks": "commands that must succeed before it counts as completed",
        "meta": "an object of the user's own",
        "blocked": "why it cannot be worked on now, or null",
        "open_blockers": "how many of the tasks that it needs are open",
        "summary": "what was done, or null",
        "evidence": "what shows it, as it was given; else null",
        "error": "why it failed, or null",
        "unchecked": "why its checks were left out, or null",
        "archived": "true: it is not listed, and holds up nothing",
        "claim": "who works on it, or null: `number`, `actor`, `session`, `run`, `until`, `pid`, `since`",
        "attempts": "how often it was claimed",
        "session": "of its last claim, or in which it was created; else null",
        "created_at": "when it was created",
        "updated_at": "when it last changed",
        "started_at": "its first claim, or null",
        "completed_at": "when it was completed or failed; else null",
        "duration_seconds": "from `started_at` to `completed_at`, or null",
        "version": "of its last event",
    }
    JSON_FROM: ClassVar = {"duration_seconds": "duration_s"}
    JSON_NULL: ClassVar = ("body", "assignee", "blocked", "summary", "error", "unchecked", "session")

    @classmethod
    def of(cls, row: TaskRow) -> Task:
        fields: TaskFields = row.fields
        return cls(
            id=row.id,
            name=fields.name,
            status=fields.status,
            created_at=instant(row.created_at),
            updated_at=instant(row.updated_at),
            version=row.version,
            body=fields.body,
            priority=fields.priority,
            labels=fields.labels,
            assignee=fields.assignee,
            due=optional_instant(fields.due),
            checks=fields.checks,
            meta=fields.meta,
            blocked=fields.blocked,
            open_blockers=row.open_blockers,
            summary=fields.summary,
            evidence=fields.evidence,
            error=fields.error,
            unchecked=fields.unchecked,
            archived=fields.archived,
            claim=TaskClaim.of(fields.claim) if fields.claim else None,
            attempts=row.number,
            session=row.session,
            started_at=optional_instant(fields.started_at),
            completed_at=optional_instant(fields.ended_at),
            number=row.place,
        )

    @property
    def duration_s(self) -> float | None:
        """From its first claim to its end, in seconds; None if it has not ended."""
        if self.started_at is None or self.completed_at is None:
            return None
        return (self.completed_at - self.started_at).total_seconds()


class TaskLink(View, frozen=True):
    """A link of a task to another, as seen from the task: `relation` is `needs`, `needed-by`, `parent`,
    `child`, `discovered-from`, `discovered` or `related`."""

    relation: str
    task: str
    name: str
    status: str

    JSON: ClassVar = {
        "relation": "`needs`, `needed-by`, `parent`, `child`, `discovered-from`, `discovered` or `related`",
        "task": "the id of the other task",
        "name": "its name",
        "status": "its status",
    }


_RELATIONS = {
    "blocks": ("needs", "needed-by"),
    "parent": ("parent", "child"),
    "discovered-from": ("discovered-from", "discovered"),
    "related": ("related", "related"),
}


def links_of(task: str, links: Sequence[LinkRow], others: dict[str, TaskRow]) -> tuple[TaskLink, ...]:
    """The links of one task, from its side."""
    found = []
    for link in links:
        ours, theirs = _RELATIONS.get(link.kind, (link.kind, link.kind))
        relation, other = (ours, link.on) if link.task == task else (theirs, link.task)
        row = others.get(other)
        if row is not None:
            found.append(TaskLink(relation, other, row.fields.name, row.fields.status))
    return tuple(found)


class TaskNote(View, frozen=True):
    """Something that was written down while a task was worked on."""

    kind: str
    text: str
    by: str
    at: datetime

    JSON: ClassVar = {
        "kind": "`note`, `decision`, `scope`, `file`, `plan`, `review`, `verification` or `log`",
        "text": "the note",
        "by": "who wrote it",
        "at": "when",
    }

    @classmethod
    def of(cls, note: Note) -> TaskNote:
        return cls(note.kind, note.text, note.author.by, instant(note.at))


class TaskDetail(msgspec.Struct, frozen=True):
    """A task with its links, its notes and the runs that worked on it, as `task show` gives it."""

    task: Task
    links: tuple[TaskLink, ...] = ()
    notes: tuple[TaskNote, ...] = ()
    runs: tuple[TaskRun, ...] = ()

    JSON: ClassVar = {
        "links": "an object for each: `relation`, `task`, `name`, `status`",
        "notes": "an object for each: `kind`, `text`, `by`, `at`",
        "runs": "the last 10 runs that claimed it, the last one at the end; an object for each: `run`, "
        "`number`, `status`",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            **self.task.to_json(),
            "links": [link.to_json() for link in self.links],
            "notes": [note.to_json() for note in self.notes],
            "runs": [run.to_json() for run in self.runs],
        }


class TaskEvent(View, frozen=True):
    """One event of a task's history."""

    version: int
    type: str
    at: datetime
    by: str
    data: dict[str, Any]

    JSON: ClassVar = {
        "version": "in the task's history: 1, 2, 3, ...",
        "type": "such as `TaskClaimed`",
        "at": "when",
        "by": "who did it",
        "data": "the fields of the event, with its `author`",
    }


class TaskNode(msgspec.Struct, frozen=True):
    """A task in a tree: `depth` is 0 for the one that was asked for."""

    task: Task
    depth: int

    JSON: ClassVar = {"depth": "0 for the task that was asked for, 1 for its children, and so on"}

    def to_json(self) -> dict[str, Any]:
        return {**self.task.to_json(), "depth": self.depth}
