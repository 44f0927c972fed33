"""Tasks as they were at an earlier moment, read from the log up to there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import BadInput
from holdfast.kernel import links
from holdfast.kernel import task as tasks
from holdfast.store.port import Store
from holdfast.store.tracker_port import LinkRow, TaskRow
from holdfast.views.past import At, Moment, PastReader, cut, moment_in, read
from holdfast.views.task import Task, TaskDetail, TaskNote, links_of
from holdfast.views.work import runs_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.redaction import Redactor


def task_at(store: Store, home: Path, redactor: Callable[[], Redactor], task: str, at: At) -> TaskDetail:
    """The task with its links, notes and runs at a version of it, or at a time. Raises `NotFound` for a
    moment at which it did not exist, `BadInput` for any other text."""
    at = read(at)
    if isinstance(at, str):
        raise BadInput(
            f"{at!r} is neither a version of a task nor a time; `holdfast task show --events` counts"
        )
    moment = moment_in(store, tasks.stream_of(task), f"task {task}", at)
    found = _links(store, moment, task)
    others = {one for link in found for one in (link.task, link.on)} | {task}
    states = {one: tasks.fold(cut(store, tasks.stream_of(one), moment)) for one in others}
    there = {one: state for one, state in states.items() if state is not None}
    found = [link for link in found if link.task in there and link.on in there]
    needs = [link.on for link in found if link.kind == "blocks" and link.task == task]
    now = store.task(task)
    rows = {
        one: TaskRow(
            one,
            state.fields,
            state.number,
            state.session,
            sum(not there[on].settled for on in needs) if one == task else 0,
            state.created_at,
            state.updated_at,
            state.version,
            0 if now is None else now.place,
        )
        for one, state in there.items()
    }
    notes = tuple(TaskNote.of(note) for note in there[task].notes)
    runs = runs_of(PastReader(store, home, redactor, moment), cut(store, tasks.stream_of(task), moment))
    return TaskDetail(Task.of(rows[task]), links_of(task, found, rows), notes, runs)


def _links(store: Store, moment: Moment, task: str) -> list[LinkRow]:
    """The links of a task then, in the order in which they were made."""
    found: dict[LinkRow, None] = {}
    for event, _, _ in cut(store, links.STREAM, moment):
        if isinstance(event, (links.LinkAdded, links.LinkRemoved)) and task in (event.task, event.on):
            link = LinkRow(event.task, event.on, event.kind)
            if isinstance(event, links.LinkAdded):
                found.setdefault(link)
            else:
                found.pop(link, None)
    return list(found)
