"""`holdfast remember`, `recall` and `forget`: decisions, patterns and facts that outlive a session."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import effects, moments
from holdfast.cli.drawing.rows import hanging
from holdfast.cli.drawing.terminal import Line, clean, out, print_list, split, wrap
from holdfast.cli.selection import read_at

if TYPE_CHECKING:
    from holdfast import Memory

_KINDS = click.Choice(["decision", "pattern", "fact"])
_SCOPE = "project, session:ID or task:ID."


@click.command("remember")
@click.argument("text")
@click.option("--kind", type=_KINDS, default="fact", show_default=True, help="What it is.")
@click.option("--scope", default="project", show_default=True, help=f"What it belongs to: {_SCOPE}")
@click.option("--source", default="", help="Where it is from, in words.")
@click.option("--cite", "cites", multiple=True, help="What it rests on: a file, an address, an id.")
@click.option("--supersedes", metavar="MEMORY", help="The memory that it replaces.")
@options.json_object
def remember_command(
    text: str,
    kind: str,
    scope: str,
    source: str,
    cites: tuple[str, ...],
    supersedes: str | None,
    as_json: bool,
) -> None:
    """Keep TEXT for later sessions: a decision, a pattern or a fact. `-` reads it from standard input.

    It is redacted when it is recorded. `holdfast undo` reverses it.
    """
    if text == "-":
        text = sys.stdin.read().strip()
    with access.open_to_track() as hf:
        made = hf.memory.remember(
            text, kind=kind, scope=scope, source=source, cites=cites, supersedes=supersedes
        )
    _show_change(made, "remembered", as_json)


@click.command("recall")
@click.argument("query", nargs=-1)
@click.option("--kind", type=_KINDS, help="Only these.")
@click.option("--scope", help=f"Only what belongs to it: {_SCOPE}")
@click.option(
    "--at",
    callback=read_at,
    metavar="MOMENT",
    help="As the memory was then: a time (2h, 2026-01-31T12:00), or RUN:CHECKPOINT.",
)
@click.option("--all", "every", is_flag=True, help="Also what is superseded or withdrawn.")
@options.limit(20)
@options.json_list
def recall_command(
    query: tuple[str, ...],
    kind: str | None,
    scope: str | None,
    at: str | datetime | None,
    every: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List memories in which every word of QUERY occurs, the newest first; without one, all.

    A word is found in the text, the source and what is cited, in whatever case, and inside longer words, too.
    """
    words, most = " ".join(query), limit or None
    found = access.read_list(
        "nothing yet",
        lambda hf: hf.memory.recall(words, kind=kind, scope=scope, at=at, every=every, limit=most),
        at,
    )
    print_list(
        found,
        as_json,
        _lines(found),
        "nothing is remembered that fits" if query or kind or scope else "nothing is remembered",
    )


@click.command("forget")
@click.argument("memory")
@click.option("--why", default="", metavar="REASON", help="Kept with it.")
@options.json_object
def forget_command(memory: str, why: str, as_json: bool) -> None:
    """Withdraw MEMORY: an id, or the beginning of it. It is kept, and `recall --all` shows it.

    `holdfast undo` restores it.
    """
    with access.open_to_track() as hf:
        made = hf.memory.withdraw(memory, why)
    _show_change(made, "withdrawn", as_json)


def _show_change(made: Memory, verb: str, as_json: bool) -> None:
    if as_json:
        out.json(made.to_json())
        return
    out.line([(made.id[:8], "bold"), f"  {verb}: {effects.start(made.text)}"])


def _lines(found: Sequence[Memory]) -> Iterator[Line]:
    """A heading for each, then its text."""
    for one in found:
        when = moments.ago(one.at) if out.is_terminal else moments.utc(one.at)
        notes = [f"by {clean(one.by)}", when]
        notes += [clean(one.scope)] if one.scope != "project" else []
        notes += [f"run {clean(one.run_id)}"] if one.run_id else []
        notes += [f"from {clean(one.source)}"] if one.source else []
        notes += [f"cites {clean(', '.join(one.cites))}"] if one.cites else []
        notes += [f"superseded by {one.superseded_by[:8]}"] if one.status == "superseded" else []
        if one.status == "withdrawn":
            notes.append(f"withdrawn: {clean(one.reason)}" if one.reason else "withdrawn")
        yield from hanging([(one.id[:8], "bold"), f"  {one.kind}  "], ", ".join(notes), "dim")
        for line in split(one.text):
            for part in wrap(clean(line), out.width - 4) if out.is_terminal else [clean(line)]:
                yield f"    {part}"
