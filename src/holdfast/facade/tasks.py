"""`hf.tasks`: what is to be done, by whom, and what it waits for."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any, ClassVar

from holdfast.errors import BadInput, NotFound, TaskNotFound
from holdfast.facade.claim import Claim
from holdfast.facade.namespace import Namespace
from holdfast.facade.open_store import blocking, texts
from holdfast.views.task import Task, TaskDetail, TaskEvent, TaskNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.facade.tracking import Tracking
    from holdfast.kernel import events as e
    from holdfast.kernel.author import Author
    from holdfast.kernel.task import TaskState
    from holdfast.tracker.exchange import Imported
    from holdfast.tracker.tracker import Tracker

LEASE_S = 3600.0
DAY_S = 86_400.0


class Tasks(Namespace):
    """Tasks. Each method names a task by its whole id; `find` completes what a person types."""

    NAMESPACE: ClassVar = "tasks"
    _holdfast: Tracking

    # Reading

    @blocking
    def get(self, id: str, *, at: int | datetime | str | None = None) -> Task:
        """A task by its id; with `at`, as it was at a version or a time. Raises `TaskNotFound`."""
        return self._get(id) if at is None else self._show(id, at).task

    @blocking
    def find(self, text: str) -> str:
        """The id that a person means: a whole id, or its beginning of at least four characters. `#42` is the
        task with that short number; so is `42`, if no id begins so. Raises `TaskNotFound`, and `BadInput` if
        several begin so."""
        from holdfast.kernel import task
        from holdfast.kernel.naming import find_id, number_of
        from holdfast.tracker.tracker import missing

        store = self._holdfast._store
        begins = store.task_ids(text, 1) if len(text) >= 4 else []
        number = None if begins else number_of(text)
        stream = "" if number is None else store.numbered(number) or ""
        name = task.task_of(stream)
        if stream and not name:
            error = TaskNotFound(text)
            error.args = (f"{text} is no task but run {stream}; `holdfast show {stream}` shows it",)
            raise error
        if name and store.task(name) is None:
            raise missing(store, name)
        if name:
            return name
        ids = self._holdfast._store.task_ids(text, 20) if len(text) >= 4 else []
        return find_id(text, ids, "tasks", lambda: missing(store, text))

    @blocking
    def list(
        self,
        status: str | Sequence[str] | None = None,
        label: str | None = None,
        assignee: str | None = None,
        session: str | None = None,
        limit: int | None = None,
        archived: bool = False,
        blocked: bool = False,
    ) -> builtins.list[Task]:
        """Tasks, the most urgent first, of equally urgent ones the oldest. `archived` adds those that are.
        `blocked` leaves only open ones that are blocked or need an open task."""
        from holdfast.kernel.task import STATUSES
        from holdfast.store.tracker_port import TaskFilter

        wanted = (status,) if isinstance(status, str) else tuple(status or ())
        for one in wanted:
            if one not in STATUSES:
                raise BadInput(f"{one!r} is no status of a task; there are {', '.join(STATUSES)}")
        which = TaskFilter(wanted, label, assignee, session, None, archived, blocked)
        return [Task.of(row) for row in self._holdfast._store.tasks(which, limit)]

    @blocking
    def ready(
        self, limit: int | None = 50, label: str | None = None, assignee: str | None = None
    ) -> builtins.list[Task]:
        """Tasks that can be claimed now, the most urgent first: pending, not blocked, without an open task
        that they need; and those whose claim is dead. With `label`, those that have it; with `assignee`,
        those for that person or agent, or for no one."""
        from holdfast.tracker.claiming import ready

        return [Task.of(row) for row in ready(self._holdfast._tracker, limit, label, assignee)]

    @blocking
    def show(self, id: str, *, at: int | datetime | str | None = None) -> TaskDetail:
        """A task with its links and notes; with `at`, as it was at a version or a time (without an offset,
        the time here). Raises `TaskNotFound`, and `NotFound` if the task has no such moment."""
        return self._show(id, at)

    def _show(self, id: str, at: int | datetime | str | None = None) -> TaskDetail:
        from holdfast.kernel import task
        from holdfast.store.tracker_port import TaskFilter
        from holdfast.views.task import TaskNote, links_of
        from holdfast.views.work import runs_of

        store = self._holdfast._store
        if at is not None:
            from holdfast.views.past_task import task_at

            self._get(id)
            home, reader = self._holdfast.home, self._holdfast._reader
            return task_at(store, home, lambda: reader.redactor, id, at)
        self._get(id)
        recorded = store.load(task.stream_of(id))
        state = task.fold(recorded)
        links = store.links([id])
        others = tuple({one for link in links for one in (link.task, link.on)})
        rows = {row.id: row for row in store.tasks(TaskFilter(ids=others, archived=True))}
        notes = () if state is None else tuple(TaskNote.of(note) for note in state.notes)
        return TaskDetail(
            self._get(id), links_of(id, links, rows), notes, runs_of(self._holdfast._reader, recorded)
        )

    @blocking
    def events(self, id: str) -> builtins.list[TaskEvent]:
        """The history of a task, event by event. Raises `TaskNotFound`."""
        import msgspec

        from holdfast.clock import instant
        from holdfast.kernel import task

        self._holdfast._tracker.load(id)
        found = []
        for entry in self._holdfast._store.entries(task.stream_of(id)):
            data = msgspec.json.decode(entry.payload)
            by = (data.get("author") or {}).get("by", "")
            found.append(TaskEvent(entry.version, entry.type, instant(entry.at), by, data))
        return found

    @blocking
    def tree(self, id: str) -> builtins.list[TaskNode]:
        """A task and all that are parts of it, each before its own parts. Raises `TaskNotFound`."""
        from holdfast.store.tracker_port import TaskFilter

        store = self._holdfast._store
        children: dict[str, builtins.list[str]] = {}
        level, seen = [self._get(id).id], {id}
        while level:
            links = store.links(level)
            found = [
                one for one in links if one.kind == "parent" and one.on in level and one.task not in seen
            ]
            for one in found:
                children.setdefault(one.on, []).append(one.task)
                seen.add(one.task)
            level = [one.task for one in found]
        rows = {row.id: row for row in store.tasks(TaskFilter(ids=tuple(seen), archived=True))}
        nodes: builtins.list[TaskNode] = []
        stack = [(id, 0)]
        while stack:
            task, depth = stack.pop()
            if task in rows:
                nodes.append(TaskNode(Task.of(rows[task]), depth))
            stack += [(child, depth + 1) for child in reversed(children.get(task, []))]
        return nodes

    @blocking
    def current(self) -> Task | None:
        """The task that the caller claimed last in the session of this process, or else in any, without those
        that another live process holds: what `resume` continues. None if there is none."""
        from holdfast.errors import TaskHeld
        from holdfast.tracker.claiming import to_resume

        try:
            return self._get(to_resume(self._holdfast._tracker))
        except (NotFound, TaskHeld):
            return None

    # Writing

    @blocking
    def create(
        self,
        name: str,
        *,
        body: str = "",
        needs: Sequence[str] = (),
        parent: str | None = None,
        discovered_from: str | None = None,
        priority: int = 2,
        labels: Sequence[str] = (),
        assignee: str = "",
        due: datetime | None = None,
        checks: Sequence[str] = (),
        meta: dict[str, Any] | None = None,
    ) -> Task:
        """Create a task with its links, in one commit.

        body             what is to be done, at most 262,144 characters
        needs            tasks that must be completed before it is ready
        parent           the task that it is a part of
        discovered_from  the task during which it was found
        priority         0 is the most urgent, 4 the least
        checks           shell commands that must succeed before it counts as completed
        meta             an object of your own, in JSON

        Texts are redacted before they are recorded. Raises `TaskNotFound`, `BadInput`."""
        from holdfast.tracker.creating import create

        fields = {
            "name": name,
            "body": body,
            "priority": priority,
            "labels": texts(labels, "labels"),
            "assignee": assignee,
            "due": _due(due),
            "checks": texts(checks, "checks"),
            "meta": meta or {},
        }
        made = create(
            self._writing_tracker,
            fields,
            needs=texts(needs, "needs"),
            parent=parent,
            discovered_from=discovered_from,
        )
        return self._get(made)

    @blocking
    def edit(
        self,
        id: str,
        *,
        name: str | None = None,
        body: str | None = None,
        priority: int | None = None,
        labels: Sequence[str] | None = None,
        assignee: str | None = None,
        due: datetime | None = None,
        checks: Sequence[str] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Task:
        """Change fields of a task; what they were is recorded. Those that are None stay as they are."""
        from holdfast.kernel import task_rules

        given = {
            "name": name,
            "body": body,
            "priority": priority,
            "labels": None if labels is None else texts(labels, "labels"),
            "assignee": assignee,
            "due": None if due is None else _due(due),
            "checks": None if checks is None else texts(checks, "checks"),
            "meta": meta,
        }
        tracker = self._writing_tracker
        changes = tracker.redacted({name: value for name, value in given.items() if value is not None})
        author = tracker.author()
        return self._change(id, lambda state, _: task_rules.edit(state, changes, author))

    @blocking
    def claim(
        self,
        id: str | None = None,
        *,
        lease: float = LEASE_S,
        holder: int | None = None,
        label: str | None = None,
        assignee: str | None = None,
    ) -> Claim | None:
        """Claim a task, or without an id the most urgent one that is ready, of those with a `label` if one
        is given, and of those for an `assignee` or for no one if one is given; None if none is.

        The claim ends with its lease (seconds), with the process `holder` (a pid), or by `complete`, `fail`
        and `release`. Raises `TaskHeld` if another has claimed the task, `Refused` if it is done, blocked or
        needs what is open, `TaskNotFound`."""
        return self._as_claim(self._claim(id, lease=lease, holder=holder, label=label, assignee=assignee))

    def _service(self, name: str) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
        return (self._claim, self._as_claim) if name == "claim" else super()._service(name)

    def _as_claim(self, found: tuple[Task, int] | None) -> Claim | None:
        return None if found is None else Claim(self, *found)

    def _claim(
        self,
        id: str | None = None,
        *,
        lease: float = LEASE_S,
        holder: int | None = None,
        label: str | None = None,
        assignee: str | None = None,
    ) -> tuple[Task, int] | None:
        from holdfast.tracker.claiming import claim, claim_next

        for what, given in (("a label", label), ("an assignee", assignee)):
            if id is not None and given is not None:
                raise BadInput(
                    f"{what} chooses among the tasks that are ready; leave it out to claim one by its id"
                )
        tracker = self._writing_tracker
        if id is None:
            found = claim_next(tracker, lease_s=lease, pid=holder, label=label, assignee=assignee)
        else:
            found = id, claim(tracker, id, lease_s=lease, pid=holder)
        return None if found is None else (self._get(found[0]), found[1].number)

    @blocking
    def start(self, id: str, *, lease: float = DAY_S) -> TaskDetail:
        """Claim a task for a person, in their open session or, in the same commit, a new one; returns it with
        links and notes."""
        from holdfast.tracker.claiming import claim

        claim(self._writing_tracker, id, lease_s=lease, with_session=True)
        return self._show(id)

    @blocking
    def resume(self, id: str | None = None, *, lease: float = DAY_S) -> TaskDetail:
        """Continue the caller's task that was in progress, or the one that is named, in a new process: its
        claim is renewed, or made again if it has ended. Raises `NotFound` if no task of the caller is in
        progress, `TaskHeld` if another live process, or another actor, holds the claim."""
        from holdfast.kernel import task_rules
        from holdfast.tracker.claiming import claim, held_by_process, is_live, lease_of, to_resume

        tracker = self._writing_tracker
        found = self._get(to_resume(tracker) if id is None else id)
        author, lease_us = tracker.author(), lease_of(lease)
        held = tracker.load(found.id).fields.claim
        process = 0 if held is None else held_by_process(tracker, held)
        if held is not None and process:
            raise task_rules.held_by(found.id, held, process)
        if held is not None and not held.run and held.actor == author.by and is_live(tracker, held):
            number = held.number
            tracker.change(
                found.id, lambda state, now: task_rules.renew(found.id, state, number, now + lease_us, author)
            )
        else:
            claim(tracker, found.id, lease_s=lease)
        return self._show(found.id)

    @blocking
    def renew(self, id: str, number: int | None = None, *, lease: float = LEASE_S) -> Task:
        """Let the lease of a claim end so many seconds from now. Without `number`, that of the caller's own
        claim. Raises `ClaimLost` if the task was claimed again since."""
        from holdfast.kernel import task_rules
        from holdfast.tracker.claiming import lease_of

        tracker = self._writing_tracker
        author, lease_us = tracker.author(), lease_of(lease)
        return self._change(
            id, lambda state, now: task_rules.renew(id, state, number, now + lease_us, author)
        )

    @blocking
    def release(self, id: str, number: int | None = None, *, reason: str = "") -> Task:
        """Give a claim up: the task is pending again. Without `number`, the caller's own claim."""
        from holdfast.kernel import task_rules

        tracker = self._writing_tracker
        task_rules.check({"reason": reason})
        author, why = tracker.author(), tracker.redacted(reason)
        return self._change(id, lambda state, _: task_rules.release(id, state, number, why, author))

    @blocking
    def complete(
        self,
        id: str,
        number: int | None = None,
        *,
        summary: str = "",
        evidence: Any = None,
        unchecked: str | None = None,
        anyway: str | None = None,
    ) -> Task:
        """Complete a task, after its checks have succeeded. Without `number`, under the caller's own claim,
        or none. `unchecked` leaves the checks out, and says why; `anyway` says why it counts as completed
        although a task that it needs is open.

        To complete it again is refused, but for the same claim with the same summary and evidence: that is
        a second try after a crash.

        Raises `CheckFailed` with the output of the check, `ClaimLost` if the task was claimed again since, or
        is completed: it names who did that and when. `TaskHeld` if another has claimed it, `Refused` if it
        needs what is open."""
        from holdfast.tracker.ending import complete

        tracker = self._writing_tracker
        complete(tracker, id, number, summary=summary, evidence=evidence, unchecked=unchecked, anyway=anyway)
        return self._get(id)

    @blocking
    def fail(self, id: str, why: str, number: int | None = None) -> Task:
        """Record a task as failed, with the reason. It still holds up what needs it."""
        from holdfast.kernel import task_rules

        return self._change_with_text(
            id, why, lambda state, text, author: task_rules.fail(id, state, number, text, author)
        )

    @blocking
    def block(self, id: str, reason: str) -> Task:
        """Block a task, with a reason: it is not ready until `unblock`."""
        if not reason.strip():
            raise BadInput("block needs a reason; `unblock` removes it")
        return self._block(id, reason)

    @blocking
    def unblock(self, id: str) -> Task:
        """Remove the reason that blocks a task."""
        return self._block(id, "")

    def _block(self, id: str, reason: str) -> Task:
        from holdfast.kernel import task_rules

        return self._change_with_text(id, reason, partial(task_rules.block, id))

    @blocking
    def reopen(self, id: str, reason: str = "") -> Task:
        """Make a task that is completed, failed or archived pending again."""
        from holdfast.kernel import task_rules

        return self._change_with_text(id, reason, partial(task_rules.reopen, id))

    @blocking
    def note(self, id: str, text: str, kind: str = "note") -> Task:
        """Add a note to a task. `kind` is `note`, `decision`, `scope`, `file`, `plan`, `review`,
        `verification` or `log`."""
        from holdfast.kernel import task_rules

        return self._change_with_text(
            id, text, lambda state, said, author: task_rules.note(state, kind, said, author)
        )

    @blocking
    def archive(self, id: str, reason: str = "") -> Task:
        """Take a task out of the lists. It no longer holds up what needs it; `reopen` brings it back."""
        from holdfast.kernel import task_rules
        from holdfast.tracker.claiming import is_live

        tracker = self._writing_tracker
        author, text = tracker.author(), tracker.redacted(reason)
        held = tracker.load(id).fields.claim
        free = held.number if held is not None and not is_live(tracker, held) else 0
        return self._change(
            id, lambda state, now: task_rules.archive(id, state, text, author, now=now, free=free)
        )

    @blocking
    def link(self, id: str, on: str, kind: str = "blocks") -> bool:
        """Link a task to another: with `blocks` it needs `on`, with `parent` it is a part of it; also
        `discovered-from` and `related`. Returns False if it is linked so already. Raises `LinkCycle`, which
        names the cycle."""
        from holdfast.tracker.linking import link

        return link(self._writing_tracker, id, on, kind)

    @blocking
    def unlink(self, id: str, on: str, kind: str = "blocks") -> None:
        """Remove a link. Raises `NotFound` if there is none."""
        from holdfast.tracker.linking import unlink

        unlink(self._writing_tracker, id, on, kind)

    # Files

    @blocking
    def export(self, path: str | os.PathLike[str] | IO[bytes]) -> int:
        """Write all tasks with their histories and links to a file, a JSON object on each line; returns how
        many lines. The file is replaced as a whole or not at all; one that is open is written to."""
        from pathlib import Path

        from holdfast.durable_file import replace_file
        from holdfast.tracker import exchange

        if not isinstance(path, (str, os.PathLike)):
            return exchange.export(self._holdfast._tracker, path)
        whole = [line + b"\n" for line in exchange.lines(self._holdfast._tracker)]
        try:
            replace_file(Path(path), b"".join(whole))
        except OSError as error:
            raise BadInput(f"{os.fspath(path)} cannot be written: {error.strerror}") from None
        return len(whole)

    @blocking
    def import_(self, path: str | os.PathLike[str] | IO[bytes]) -> Imported:
        """Import tasks from a file that `export` wrote, or with an object like `{"name": "..."}` on each
        line; `path` may be an open file. The whole file is checked first: `BadInput` names a wrong line, and
        nothing is imported."""
        from pathlib import Path

        from holdfast.tracker.exchange import import_

        source = Path(path) if isinstance(path, (str, os.PathLike)) else path
        return import_(self._writing_tracker, source)

    def _change_with_text(
        self, id: str, text: str, decide: Callable[[TaskState, str, Author], e.Event | None]
    ) -> Task:
        """A change with a text, which is redacted before it is recorded."""
        author, redacted = self._writing_tracker.author(), self._writing_tracker.redacted(text)
        return self._change(id, lambda state, _: decide(state, redacted, author))

    def _change(self, id: str, decide: Callable[[TaskState, int], e.Event | None]) -> Task:
        self._writing_tracker.change(id, decide)
        return self._get(id)

    @property
    def _writing_tracker(self) -> Tracker:
        return self._holdfast._open_tracker()

    def _get(self, id: str) -> Task:
        from holdfast.kernel.task import check_id

        row = self._holdfast._store.task(check_id(id))
        if row is None:
            from holdfast.tracker.tracker import missing

            raise missing(self._holdfast._store, id)
        return Task.of(row)


def _due(due: datetime | None) -> int:
    if due is None:
        return 0
    from holdfast.clock import microseconds

    if not isinstance(due, datetime):
        raise BadInput(f"due={due!r} is no time; write datetime(..., tzinfo=UTC)")
    if due.tzinfo is None:
        raise BadInput(f"due={due!r} has no time zone; write datetime(..., tzinfo=UTC)")
    return microseconds(due)
