"""`holdfast task start`, `claim`, `complete` and the like: working on a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.commands.task import changing, none_ready, print_task, shown, task_command
from holdfast.cli.drawing.tasks import ways
from holdfast.cli.drawing.terminal import clean, err, say

if TYPE_CHECKING:
    from holdfast.views.task import Task

_DAY_S = 86_400.0
_HOUR_S = 3600.0
_READY = 5
"""How many tasks are named that a completed one no longer holds up."""
_number = click.option(
    "--number",
    type=options.WholeNumber(1),
    metavar="N",
    help="The claim's number; without it, your own claim.",
)


def _lease(default: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--lease",
        type=options.Number(0, min_open=True),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help="How long the claim holds.",
    )


@task_command.command("start")
@click.argument("task")
@_lease(_DAY_S)
@options.json_object
def start(task: str, lease: float, as_json: bool) -> None:
    """Claim a task for yourself and show all that belongs to it.

    It belongs to your open session; if there is none, one is started with the claim.
    """
    with changing(task) as (hf, id):
        found = hf.tasks.start(id, lease=lease)
    shown(found, as_json)
    _say_ways(id)


@task_command.command("resume")
@click.argument("task", required=False)
@_lease(_DAY_S)
@options.json_object
def resume(task: str | None, lease: float, as_json: bool) -> None:
    """Continue your task that was in progress in the last session, and show all that belongs to it.

    Its claim is renewed, or made again if it has ended. TASK names another one. Exit code 4 if another
    live process holds it.
    """
    with changing(task) as (hf, id):
        found = hf.tasks.resume(id or None, lease=lease)
    shown(found, as_json)
    _say_ways(found.task.id)


def _say_ways(id: str) -> None:
    if err.is_terminal:
        for line in ways(
            (f'holdfast task note {id[:8]} --kind decision "..."', "writes a decision down"),
            (f'holdfast task complete {id[:8]} --summary "..."', "completes it"),
            (f"holdfast task release {id[:8]}", "gives it back"),
        ):
            say(line)


@task_command.command("claim")
@click.argument("task", required=False)
@_lease(_HOUR_S)
@click.option(
    "--holder",
    type=options.WholeNumber(1),
    metavar="PID",
    help="A process: with its death the claim is free.",
)
@click.option("--label", metavar="LABEL", help="Without TASK: only one with this label.")
@click.option("--assignee", metavar="NAME", help="Without TASK: only one for them, or for no one.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, or null.")
def claim(
    task: str | None,
    lease: float,
    holder: int | None,
    label: str | None,
    assignee: str | None,
    as_json: bool,
) -> int:
    """Claim TASK, or the most urgent one that is ready. Exit code 3 if none is."""
    from holdfast.cli.drawing.terminal import out

    with changing(task) as (hf, id):
        made = hf.tasks.claim(id or None, lease=lease, holder=holder, label=label, assignee=assignee)
    if made is None:
        if as_json:
            out.json(None)
        say(none_ready(label, assignee))
        return 3
    print_task(made.task, as_json, f"claim {made.number}")
    return 0


@task_command.command("renew")
@click.argument("task")
@_number
@_lease(_HOUR_S)
@options.json_object
def renew(task: str, number: int | None, lease: float, as_json: bool) -> None:
    """Renew a claim for so many seconds from now."""
    with changing(task) as (hf, id):
        print_task(hf.tasks.renew(id, number, lease=lease), as_json, "renewed")


@task_command.command("release")
@click.argument("task")
@_number
@click.option("--reason", default="", metavar="TEXT", help="Why.")
@options.json_object
def release(task: str, number: int | None, reason: str, as_json: bool) -> None:
    """Release a claim: the task is pending again. With --number, also a claim of another."""
    with changing(task) as (hf, id):
        print_task(hf.tasks.release(id, number, reason=reason), as_json, "released")


@task_command.command("complete")
@click.argument("task")
@_number
@click.option("--summary", default="", metavar="TEXT", help="What was done.")
@click.option("--evidence", metavar="VALUE", help="What shows it; JSON or text.")
@click.option("--unchecked", metavar="REASON", help="Leave its checks out, and record why.")
@click.option("--anyway", metavar="REASON", help="Although a task that it needs is open; record why.")
@options.json_object
def complete(
    task: str,
    number: int | None,
    summary: str,
    evidence: str | None,
    unchecked: str | None,
    anyway: str | None,
    as_json: bool,
) -> None:
    """Complete a task, after its checks have succeeded.

    A check that fails is named with the end of its output, and the task is not completed. Nor is it while a
    task that it needs is open. Parts of it that are open are named, and do not hinder. Exit code 4 if it is
    completed already.
    """
    from holdfast.cli.parameters import value

    with changing(task) as (hf, id):
        shows = None if evidence is None else value(evidence)
        done = hf.tasks.complete(
            id, number, summary=summary, evidence=shows, unchecked=unchecked, anyway=anyway
        )
        links = () if as_json else hf.tasks.show(id).links
        needed_by = [one.task for one in links if one.relation == "needed-by"]
        ready = [one for one in map(hf.tasks.get, needed_by) if _can_begin(one)]
        parts = [hf.tasks.get(one.task) for one in links if one.relation == "child"]
    print_task(done, as_json, "completed")
    for one in [part for part in parts if part.status != "completed" and not part.archived]:
        say(f"a part of it is {one.status.replace('_', ' ')}: {one.id[:8]} {clean(one.name)}")
    for one in ready[:_READY]:
        say(f"ready now: {clean(one.name)}; `holdfast task start {one.id[:8]}` begins it")


def _can_begin(task: Task) -> bool:
    return task.status == "pending" and not (task.blocked or task.open_blockers or task.archived)


@task_command.command("fail")
@click.argument("task")
@click.argument("why")
@_number
@options.json_object
def fail(task: str, why: str, number: int | None, as_json: bool) -> None:
    """Record a task as failed, with the reason. It still holds up what needs it."""
    with changing(task) as (hf, id):
        print_task(hf.tasks.fail(id, why, number), as_json, "failed")


@task_command.command("reopen")
@click.argument("task")
@click.option("--reason", default="", metavar="TEXT", help="Why.")
@options.json_object
def reopen(task: str, reason: str, as_json: bool) -> None:
    """Let a task that is completed, failed or archived be pending again."""
    with changing(task) as (hf, id):
        print_task(hf.tasks.reopen(id, reason), as_json, "pending again")
