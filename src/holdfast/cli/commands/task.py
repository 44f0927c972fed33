"""`holdfast task`: what is to be done, by whom, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.drawing import tasks as drawing
from holdfast.cli.drawing.terminal import clean, out, print_list, say
from holdfast.cli.selection import read_at
from holdfast.errors import NotFound

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.handle import Holdfast
    from holdfast.views.task import Task, TaskDetail

F = Callable[..., Any]


@click.group("task", cls=Family)
def task_command() -> None:
    """Track what is to be done: create tasks, claim them, complete them.

    TASK is a task's number (`task list` shows it), its id, or the beginning of its id: at least four
    characters. `holdfast delete` deletes a task.
    """


_NONE = "no tasks; `holdfast task create NAME` makes one"
_NONE_OPEN = "no open task fits; `holdfast task list --all --archived` lists all"


@contextmanager
def changing(text: str | None) -> Iterator[tuple[Holdfast, str]]:
    """An open store and the id of the task that `text` is. Nothing is made if there is no store."""
    with access.open_to_keep() as hf:
        yield hf, "" if text is None else hf.tasks.find(text)


def print_task(task: Task, as_json: bool, said: str) -> None:
    """The result of a change, in a line, or the task as JSON."""
    if as_json:
        out.json(task.to_json())
    else:
        out.line([(drawing.short(task.id), "bold"), f"  {said}: ", task.name])


def shown(found: TaskDetail, as_json: bool, *, whole: bool = False) -> None:
    """A task with all that belongs to it."""
    if as_json:
        out.json(found.to_json())
    else:
        out.lines(drawing.detail(found, whole=whole))


def _print(tasks: list[Task], as_json: bool, none: str) -> None:
    print_list(tasks, as_json, drawing.listed(tasks), none)


@task_command.command("list")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(["pending", "in_progress", "completed", "failed"]),
    help="Only tasks with this status; may be given again.",
)
@click.option("--label", metavar="LABEL", help="Only tasks with this label.")
@click.option("--assignee", metavar="NAME", help="Only tasks for this person or agent.")
@click.option("--session", metavar="SESSION", help="Only tasks of this session.")
@click.option("--blocked", is_flag=True, help="Only open tasks that are blocked or need an open one.")
@click.option("--archived", is_flag=True, help="Archived tasks too.")
@click.option("--all", "everything", is_flag=True, help="Completed tasks too, and however many there are.")
@options.limit(50)
@options.json_list
def list_tasks(
    status: tuple[str, ...],
    label: str | None,
    assignee: str | None,
    session: str | None,
    blocked: bool,
    archived: bool,
    everything: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List tasks, the most urgent first; completed ones with --all or --status."""
    wanted = status or (() if everything else ("pending", "in_progress", "failed"))
    most = None if everything or not limit else limit
    try:
        with access.open_to_read() as hf:
            own = None if session is None else hf.sessions.find(session)
            more = None if most is None else most + 1
            found = hf.tasks.list(wanted, label, assignee, own, more, archived, blocked)
            hidden = not found and bool(hf.tasks.list(limit=1, archived=True))
    except NotFound as error:
        if session is not None:
            raise
        found, hidden = [], False  # a project without a store has no tasks; that is no mistake
        say(str(error).partition("; ")[0])
    _print(found[:most], as_json, _NONE_OPEN if hidden else _NONE)
    if most is not None and len(found) > most:
        say([(f"there are more than {most:,}; --all lists them, --limit N so many", "dim")])


@task_command.command("ready")
@click.option("--claim", is_flag=True, help="Claim the first of them, and show it.")
@click.option("--label", metavar="LABEL", help="Only tasks with this label.")
@click.option("--assignee", metavar="NAME", help="Only tasks for this person or agent, or for no one.")
@options.limit(50)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON list; with --claim, a JSON object or null."
)
def ready_tasks(claim: bool, label: str | None, assignee: str | None, limit: int, as_json: bool) -> int:
    """List tasks that can be worked on now, the most urgent first.

    A task is ready if it is pending, not blocked, and needs no open task; or if its claim is dead. With
    --claim, exit code 3 if none is.
    """
    if claim:
        return _claim_next(label, assignee, as_json)
    found = access.read_list("no tasks yet", lambda hf: hf.tasks.ready(limit or None, label, assignee))
    _print(found, as_json, none_ready(label, assignee))
    return 0


def none_ready(label: str | None, assignee: str | None) -> str:
    """The sentence where no task is ready."""
    which = "" if label is None else f" with the label {clean(label)}"
    which += "" if assignee is None else f" for {clean(assignee)}"
    return f"no task{which} is ready; `holdfast task list` shows what they wait for"


def _claim_next(label: str | None, assignee: str | None, as_json: bool) -> int:
    with changing(None) as (hf, _):
        claim = hf.tasks.claim(label=label, assignee=assignee)
        found = None if claim is None else hf.tasks.show(claim.task.id)
    if found is None:
        if as_json:
            out.json(None)
        say(none_ready(label, assignee))
        return 3
    shown(found, as_json)
    return 0


@task_command.command("show")
@click.argument("task")
@click.option("--events", is_flag=True, help="Its history instead, event by event.")
@click.option(
    "--at",
    callback=read_at,
    metavar="MOMENT",
    help="As it was then: a time (2h, 2026-01-31T12:00), or an event's number.",
)
@click.option("--all", "everything", is_flag=True, help="All lines of its body.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; with --events, a list.")
def show_task(
    task: str, events: bool, at: int | datetime | str | None, everything: bool, as_json: bool
) -> None:
    """Show a task: status, claim, body, links, checks and notes."""
    if events and at is not None:
        raise click.UsageError("--at goes without --events, which has every moment")
    with access.open_to_read() as hf:
        id = hf.tasks.find(task)
        if not events:
            shown(hf.tasks.show(id, at=at), as_json, whole=everything)
            return
        found = hf.tasks.events(id)
    if as_json:
        out.json([event.to_json() for event in found])
    else:
        out.lines(drawing.history(found))


@task_command.command("tree")
@click.argument("task")
@options.json_list
def tree(task: str, as_json: bool) -> None:
    """Show a task and all that are parts of it, each below what it is a part of."""
    with access.open_to_read() as hf:
        nodes = hf.tasks.tree(hf.tasks.find(task))
    if as_json:
        out.json([node.to_json() for node in nodes])
    else:
        out.lines(drawing.tree(nodes))


# The other commands of the group.
from holdfast.cli.commands import task_changes as task_changes  # noqa: E402
from holdfast.cli.commands import task_work as task_work  # noqa: E402
