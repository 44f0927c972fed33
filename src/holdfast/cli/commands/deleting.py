"""`holdfast delete`: runs and tasks leave every view; `undo` brings them back until `gc`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import effects
from holdfast.cli.drawing.terminal import Line, clean, err, out
from holdfast.errors import BadInput, NotFound, RunArchived, RunNotFound, TaskDeleted
from holdfast.ways import Way

if TYPE_CHECKING:
    from holdfast import Deletion
    from holdfast.handle import Holdfast


@click.command("delete")
@click.argument("ids", nargs=-1, required=True, metavar="RUN|TASK...")
@click.option("--with-task", is_flag=True, help="Also the tasks that the runs have worked on.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@options.json_object
def delete_command(ids: Sequence[str], with_task: bool, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete runs and tasks with everything that belongs to them: child runs, output, saved files, links.

    They are gone from every list. A run that a process executes and a task that is claimed are not deleted.
    The log keeps a record of who deleted what, without its contents, and `audit verify` still holds.
    `holdfast undo` brings everything back, until `holdfast gc` makes the deletion final and frees its
    contents. The id of a deleted run is not used again.
    """
    with access.open_for(dry_run) as hf:
        known = [_meant(hf, one) for one in ids]
        if not dry_run and not yes:
            _ask(hf.delete(*known, with_task=with_task, dry_run=True))
        done = hf.delete(*known, with_task=with_task, dry_run=dry_run)
    if as_json:
        out.json(done.to_json())
    else:
        effects.show(_describe(done))


def _meant(hf: Holdfast, text: str) -> str:
    """The id of the run or the task. Raises `BadInput` if both can be meant, `RunNotFound` if none is."""
    try:
        run = hf.find(text)
    except (RunNotFound, RunArchived) as error:
        try:
            return hf.tasks.find(text)
        except TaskDeleted:
            raise
        except NotFound:
            raise error from None
    try:
        task = hf.tasks.find(text)
    except (NotFound, BadInput):
        return run
    raise BadInput(f"{text!r} is run {run}, and the beginning of task {task}; type more of it")


def _ask(would: Deletion) -> None:
    """Raises `BadInput` unless the person at the terminal agrees."""
    if not (err.is_terminal and sys.stdin.isatty()):
        raise BadInput("without a terminal, --yes deletes without asking; --dry-run shows what would go")
    err.offer(f"delete {would.summary}: {_named(would)}? (y/n) ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadInput("nothing was deleted")


def _named(would: Deletion) -> str:
    items = would.items
    first = ", ".join(clean(f"#{one.number} {one.id}") for one in items[:5])
    return first + (f" and {len(items) - 5:,} more" if len(items) > 5 else "")


def _describe(done: Deletion) -> Iterator[Line]:
    yield [(done.summary, "bold"), " deleted" if done.operation else " would be deleted"]
    yield from effects.deleted(done.items)
    if done.operation:
        yield from effects.ways(
            Way("undo", "", {"operation": done.operation}, "brings everything back"),
            Way("gc", "", {}, "makes it final, and frees the contents"),
        )
