"""`holdfast task create`, `edit`, `note`, `link` and the like: what a task is."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from holdfast.cli import access, options
from holdfast.cli.commands.task import changing, print_task, task_command
from holdfast.cli.drawing.tasks import short
from holdfast.cli.drawing.terminal import clean, out, say
from holdfast.cli.options import together
from holdfast.counts import counted
from holdfast.errors import BadInput
from holdfast.views.task import LINK_KINDS, NOTE_KINDS

_SAID = {
    "blocks": "needs",
    "parent": "is a part of",
    "discovered-from": "was discovered from",
    "related": "is related to",
}


def _read_due(_: click.Context, __: click.Parameter, given: str | None) -> datetime | None:
    if given is None:
        return None
    from holdfast.clock import read_date

    try:
        return read_date(given)
    except ValueError:
        raise BadInput(f"--due {given!r} is no date; write 2026-01-31 or 2026-01-31T12:00") from None


def _read_meta(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, Any] | None:
    from holdfast.cli.parameters import value

    found = {}
    for one in given:
        name, is_there, text = one.partition("=")
        if not is_there or not name:
            raise BadInput(f"--meta takes NAME=VALUE, and {one!r} is none")
        found[name] = value(text)
    return found or None


def body_of(text: str | None, file: str | None) -> str | None:
    """The body that was given as text or as a file; `-` is standard input."""
    if file is None:
        return text
    if text is not None:
        raise BadInput("--body and --body-file both give the body; give one of them")
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{file} is no text in UTF-8, so it cannot be the body of a task") from None


_body = together(
    click.option("--body", metavar="TEXT", help="What is to be done."),
    click.option("--body-file", metavar="FILE", help="The same from a file; - is standard input."),
)
_fields = together(
    click.option(
        "--priority",
        type=options.WholeNumber(0, 4),
        metavar="N",
        help="0 is the most urgent, 4 the least; 2 if not given.",
    ),
    click.option("--label", "labels", multiple=True, metavar="LABEL", help="A label; may be given again."),
    click.option("--assignee", metavar="NAME", help="Who is to do it."),
    click.option("--due", callback=_read_due, metavar="DATE", help="Until when: 2026-01-31, or with a time."),
    click.option(
        "--check",
        "checks",
        multiple=True,
        metavar="COMMAND",
        help="A shell command that must succeed before it counts as completed; may be given again.",
    ),
    click.option(
        "--meta",
        multiple=True,
        callback=_read_meta,
        metavar="NAME=VALUE",
        help="A value of your own; JSON or text.",
    ),
)
_kind = click.option(
    "--kind", type=click.Choice(LINK_KINDS), default="blocks", show_default=True, help="How they are linked."
)


@task_command.command("create")
@click.argument("name")
@_body
@click.option("--needs", multiple=True, metavar="TASK", help="A task that must be completed first.")
@click.option("--parent", metavar="TASK", help="The task that it is a part of.")
@click.option("--discovered-from", metavar="TASK", help="The task during which it was found.")
@_fields
@options.json_object
def create(
    name: str,
    body: str | None,
    body_file: str | None,
    needs: tuple[str, ...],
    parent: str | None,
    discovered_from: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Create a task with its links, and print its id. A store is made if there is none.

    Texts are redacted before they are recorded. A body has at most 262,144 characters.
    """
    text = body_of(body, body_file)
    with access.open_to_track() as hf:
        find = hf.tasks.find
        made = hf.tasks.create(
            name,
            body=text or "",
            needs=[find(one) for one in needs],
            parent=None if parent is None else find(parent),
            discovered_from=None if discovered_from is None else find(discovered_from),
            **{field: value for field, value in fields.items() if value is not None},
        )
    if as_json:
        out.json(made.to_json())
        return
    out.line(made.id)
    if made.open_blockers:
        say(f"created {clean(made.name)}; it is ready when {_what_it_needs(made.open_blockers)} completed")
    else:
        say(f"created {clean(made.name)}; `holdfast task start {made.id[:8]}` begins it")


def _what_it_needs(open_blockers: int) -> str:
    return (
        "the task that it needs is"
        if open_blockers == 1
        else f"the {open_blockers:,} tasks that it needs are"
    )


@task_command.command("edit")
@click.argument("task")
@click.option("--name", metavar="NAME", help="Its name.")
@_body
@_fields
@options.json_object
def edit(
    task: str, name: str | None, body: str | None, body_file: str | None, as_json: bool, **fields: Any
) -> None:
    """Change what a task is. The old values stay in its history: `task show TASK --events`.

    Labels, checks and meta replace those that are there; an empty one (`--label ""`) removes all.
    """
    for several in ("labels", "checks"):
        fields[several] = _replaced(fields[several])
    changes = {"name": name, "body": body_of(body, body_file), **fields}
    if all(one is None for one in changes.values()):
        raise BadInput("nothing to change: name what to change, such as --name, --body or --priority")
    with changing(task) as (hf, id):
        changed = hf.tasks.edit(id, **changes)
    print_task(changed, as_json, "changed")


def _replaced(given: tuple[str, ...]) -> list[str] | None:
    """None leaves what is there; one that is empty removes all."""
    return [one for one in given if one] if given else None


@task_command.command("note")
@click.argument("task")
@click.argument("text")
@click.option(
    "--kind",
    type=click.Choice(NOTE_KINDS),
    default="note",
    show_default=True,
    help="What kind of note it is.",
)
@options.json_object
def note(task: str, text: str, kind: str, as_json: bool) -> None:
    """Add a note to a task: a decision, a change of scope, a file that was changed."""
    with changing(task) as (hf, id):
        noted = hf.tasks.note(id, text, kind)
        if as_json:
            out.json(noted.to_json())
        else:
            recorded = hf.tasks.show(id).notes[-1].text
            out.line([(short(id), "bold"), f"  {kind}: {clean(recorded)}"])


@task_command.command("block")
@click.argument("task")
@click.argument("reason")
@options.json_object
def block(task: str, reason: str, as_json: bool) -> None:
    """Block a task, with a reason: it is not ready until `unblock`."""
    with changing(task) as (hf, id):
        print_task(hf.tasks.block(id, reason), as_json, "blocked")


@task_command.command("unblock")
@click.argument("task")
@options.json_object
def unblock(task: str, as_json: bool) -> None:
    """Remove the reason that blocks a task."""
    with changing(task) as (hf, id):
        print_task(hf.tasks.unblock(id), as_json, "no longer blocked")


@task_command.command("link")
@click.argument("task")
@click.argument("on")
@_kind
@options.json_object
def link(task: str, on: str, kind: str, as_json: bool) -> None:
    """Link TASK to ON: with `blocks`, TASK needs ON; with `parent`, TASK is a part of ON.

    A link that would close a cycle is refused, and the cycle named.
    """
    with changing(task) as (hf, id):
        other = hf.tasks.find(on)
        added = hf.tasks.link(id, other, kind)
    linked = "linked" if added else "linked already"
    _linked(id, other, kind, added, as_json, f"{linked}: {short(id)} {_SAID[kind]} {short(other)}")


@task_command.command("unlink")
@click.argument("task")
@click.argument("on")
@_kind
@options.json_object
def unlink(task: str, on: str, kind: str, as_json: bool) -> None:
    """Remove the link from TASK to ON."""
    with changing(task) as (hf, id):
        other = hf.tasks.find(on)
        hf.tasks.unlink(id, other, kind)
    _linked(id, other, kind, True, as_json, f"unlinked: {short(id)} from {short(other)}")


def _linked(id: str, other: str, kind: str, changed: bool, as_json: bool, said: str) -> None:
    if as_json:
        out.json({"task": id, "on": other, "kind": kind, "changed": changed})
    else:
        out.line(said)


@task_command.command("archive")
@click.argument("task")
@click.option("--reason", default="", metavar="TEXT", help="Why.")
@options.json_object
def archive(task: str, reason: str, as_json: bool) -> None:
    """Take a task out of the lists. It no longer holds up what needs it; `task reopen` brings it back."""
    with changing(task) as (hf, id):
        print_task(hf.tasks.archive(id, reason), as_json, "archived")


@task_command.command("export")
@click.argument("file")
@options.json_object
def export(file: str, as_json: bool) -> None:
    """Write all tasks with their histories and links to FILE, a JSON object on each line; - is standard
    output."""
    with access.open_to_read() as hf:
        count = hf.tasks.export(out.binary if file == "-" else file)
    if as_json and file != "-":
        out.json({"file": file, "lines": count})
    else:
        say(f"wrote {counted(count, 'line')} to {'standard output' if file == '-' else clean(file)}")


@task_command.command("import")
@click.argument("file")
@options.json_object
def import_(file: str, as_json: bool) -> None:
    """Import tasks from FILE: one that `task export` wrote, or with `{"name": "..."}` on each line; - is
    standard input.

    The whole file is checked first; a wrong line is named, and nothing is imported.
    """
    with access.open_to_track() as hf:
        done = hf.tasks.import_(sys.stdin.buffer if file == "-" else file)
    if as_json:
        counts = ("created", "extended", "kept", "links", "checks")
        left = [{"task": one.task, "name": one.name, "fields": list(one.fields)} for one in done.not_taken]
        out.json({name: getattr(done, name) for name in counts} | {"not_taken": left})
        return
    out.line(
        f"{counted(done.created, 'task')} created, {done.extended:,} extended, {done.kept:,} as they were, "
        f"{counted(done.links, 'link')} added"
    )
    for one in done.not_taken:
        say(
            f"task {one.task[:8]} {clean(one.name)} was changed here and in the file, and stays as it is "
            f"here; not taken from the file: {', '.join(one.fields)}"
        )
    if done.checks:
        say(
            f"the file brings {counted(done.checks, 'check')}: commands that run when a task is completed; "
            "`holdfast task show TASK` prints them"
        )
