"""`holdfast session`: who works, from when to when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.drawing import moments
from holdfast.cli.drawing import tasks as drawing
from holdfast.cli.drawing.rows import hanging, row
from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, folded, out, pad, print_list, say

if TYPE_CHECKING:
    from holdfast.views.session import WorkSession


@click.group("session", cls=Family)
def session_command() -> None:
    """Start, end and list sessions of work on tasks.

    What you do to tasks belongs to your last open session, or to the one that HOLDFAST_SESSION names.
    SESSION is an id, or its beginning of at least four characters.
    """


@session_command.command("start")
@click.option("--actor", metavar="NAME", help="Who works: you, if no other name is given.")
@options.json_object
def start(actor: str | None, as_json: bool) -> None:
    """Begin a session, and print its id. A store is made if there is none."""
    with access.open_to_track() as hf:
        made = hf.sessions.start(actor)
    if as_json:
        out.json(made.to_json())
        return
    out.line(made.id)
    say(f"session of {clean(made.actor)}; in a script: `export HOLDFAST_SESSION={made.id}`")


@session_command.command("end")
@click.argument("session", required=False)
@click.option("--summary", default="", metavar="TEXT", help="What was done.")
@options.json_object
def end(session: str | None, summary: str, as_json: bool) -> None:
    """End SESSION, or the session that you work in. Its tasks stay as they are."""
    with access.open_to_keep() as hf:
        done = hf.sessions.end(None if session is None else hf.sessions.find(session), summary)
    if as_json:
        out.json(done.to_json())
    else:
        out.line(f"ended {drawing.short(done.id)} after {moments.between(done.started_at, done.ended_at)}")


@session_command.command("list")
@options.limit(50)
@options.json_list
def list_sessions(limit: int, as_json: bool) -> None:
    """List sessions, the newest first."""
    found = access.read_list("no sessions yet", lambda hf: hf.sessions.list(limit or None))
    print_list(found, as_json, _lines(found), "no sessions; `holdfast session start` begins one")


@session_command.command("show")
@click.argument("session")
@options.json_object
def show(session: str, as_json: bool) -> None:
    """Show a session and its tasks."""
    with access.open_to_read() as hf:
        found = hf.sessions.get(hf.sessions.find(session))
        tasks = hf.tasks.list(session=found.id, archived=True)
    if as_json:
        out.json({**found.to_json(), "tasks": [task.to_json() for task in tasks]})
        return
    out.lines(_lines([found]))
    if tasks:
        out.lines(drawing.listed(tasks))
    else:
        out.line(row("tasks", [("none", "dim")]))


def _lines(found: Sequence[WorkSession]) -> Iterator[Line]:
    begun = [moments.ago(one.started_at) if out.is_terminal else moments.utc(one.started_at) for one in found]
    when, who = max(map(len, begun)), max(cells(clean(one.actor)) for one in found)
    for one, at in zip(found, begun, strict=True):
        state = "open" if one.is_open else f"ended after {moments.between(one.started_at, one.ended_at)}"
        head: list[Piece] = [
            (drawing.short(one.id), "bold"),
            f"  {pad(clean(one.actor), who)}  ",
            (at.rjust(when), "dim"),
            (f"  {state}", "green" if one.is_open else "dim"),
        ]
        if one.summary:
            yield from hanging([*head, "  "], clean(one.summary))
        else:
            yield from folded(head, out.width) if out.is_terminal else [head]
