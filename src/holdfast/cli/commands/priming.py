"""`holdfast prime`: what a new session needs to know."""

from __future__ import annotations

import click

from holdfast.cli import access, options
from holdfast.cli.drawing.terminal import out, say
from holdfast.errors import NotFound


@click.command("prime")
@click.option("--limit", metavar="N", default=4000, show_default=True, type=int, help="The most characters.")
@options.json_object
def prime_command(limit: int, as_json: bool) -> None:
    """Print what an agent, or a person, needs at the start of a session.

    The project's type, tasks in progress and ready tasks, runs that wait or stopped and how to continue them,
    the latest decisions and patterns, open sessions. The same state gives the same text. What does not fit is
    counted, with the command that lists it.
    """
    try:
        with access.open_to_read() as hf:
            text = hf.prime(limit)
    except NotFound as error:
        text = ""
        say(f"nothing yet: {error}")
    if as_json:
        out.json({"text": text})
    else:
        out.lines(text.splitlines())
