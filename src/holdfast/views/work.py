"""Which tasks a run worked on, and which runs worked on a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from holdfast.json_view import View
from holdfast.kernel import task as tasks
from holdfast.kernel.author import NOBODY, Author

if TYPE_CHECKING:
    from holdfast.store.port import Recorded
    from holdfast.views.reader import Reader

MOST_RUNS = 10
"""How many runs of a task are shown, the last ones."""


class RunTask(View, frozen=True):
    """A task that a run worked on."""

    task: str
    number: int
    name: str
    status: str

    JSON: ClassVar = {
        "task": "its id",
        "number": "its short number",
        "name": "its name",
        "status": "its status",
    }


class TaskRun(View, frozen=True):
    """A run that worked on a task; `number` is 0 and `status` empty if it is no longer there."""

    run: str
    number: int = 0
    status: str = ""

    JSON: ClassVar = {
        "run": "its id",
        "number": "its short number, or null",
        "status": "its status, or null if it is archived or deleted",
    }
    JSON_NULL: ClassVar = ("number", "status")


def tasks_of(reader: Reader, run: str, named: str, wrote: Sequence[str]) -> tuple[RunTask, ...]:
    """The tasks that a run worked on: the one that it was started for (`named`, or empty), and those of the
    streams that it `wrote` to which its code has claimed."""
    own = [named] if named else []
    for stream in wrote:
        task = tasks.task_of(stream)
        if task and task not in own:
            recorded = reader.history(stream)
            if any(isinstance(one.event, tasks.TaskClaimed) and one.event.run == run for one in recorded):
                own.append(task)
    found = []
    for task in own:
        state = tasks.fold(reader.history(tasks.stream_of(task)))
        if state is not None:
            name = reader.redactor.redact(state.fields.name)
            number = reader.number_of(tasks.stream_of(task))
            found.append(RunTask(task, number, name, state.fields.status))
    return tuple(found)


def runs_of(reader: Reader, recorded: Iterable[Recorded]) -> tuple[TaskRun, ...]:
    """The last runs that claimed a task or moved it, by its history: the one that came last is the last."""
    found: dict[str, None] = {}
    for one in recorded:
        run = _run_of(one)
        if run:
            found.pop(run, None)
            found[run] = None
    return tuple(_task_run(reader, run) for run in [*found][-MOST_RUNS:])


def _run_of(one: Recorded) -> str:
    event = one.event
    if isinstance(event, tasks.TaskClaimed):
        return event.run
    moves = (tasks.ClaimReleased, tasks.TaskCompleted, tasks.TaskFailed)
    author: Author = getattr(event, "author", NOBODY)
    return author.run if isinstance(event, moves) else ""


def _task_run(reader: Reader, id: str) -> TaskRun:
    run = reader.run(id)
    return TaskRun(id) if run is None else TaskRun(id, run.number, run.shown_status)
