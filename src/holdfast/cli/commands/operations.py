"""`holdfast op log`: what was done to runs, tasks and the memory, and can be undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.tasks import short
from holdfast.cli.drawing.terminal import (
    Line,
    Piece,
    cells,
    clean,
    folded,
    out,
    pad,
    print_list,
    text_of,
    wrap,
)

if TYPE_CHECKING:
    from holdfast import OperationInfo


_BESIDE = 30
"""The columns for what was done, below which it has lines of its own."""
_BELOW = "    "


@click.group("op", cls=Family)
def op_command() -> None:
    """List what was done to runs, tasks and the memory, and can be undone."""


@op_command.command("log")
@click.argument("run", required=False)
@click.option(
    "--limit", metavar="N", default=50, show_default=True, type=click.IntRange(0), help="How many; 0 is all."
)
@options.json_list
def log(run: str | None, limit: int, as_json: bool) -> None:
    """List operations, the newest first; with RUN, those on that run.

    Those that still stand can be undone: `holdfast undo OPERATION`.
    """
    with access.open_to_read() as hf:
        run_id = None if run is None else hf.find(run)
        found = hf.operations(run_id, limit or None)
    print_list(found, as_json, _lines(found), "no operations")


def _lines(found: Sequence[OperationInfo]) -> Iterator[Line]:
    """One line each; what no longer stands is dim."""
    whens = [moments.ago(one.at) if out.is_terminal else moments.utc(one.at) for one in found]
    when_width, by_width = max(map(len, whens)), max(len(one.by) for one in found)
    for one, when in zip(found, whens, strict=True):
        what = f"undo of {one.undoes}" if one.undoes else _what(one)
        head: list[Piece] = [
            (one.id, "bold" if one.stands else "dim"),
            "  ",
            (when.rjust(when_width), "dim"),
            f"  {pad(clean(one.by), by_width)}  ",
            ("stands  " if one.stands else "        ", "green"),
        ]
        said = f"{one.run_id}: {what}" if one.run_id else what
        style = "" if one.stands else "dim"
        room = out.width - cells(text_of(head))
        if cells(said) <= room:
            yield [*head, (said, style)]
        elif room >= _BESIDE:
            for n, part in enumerate(wrap(said, room)):
                yield [*(head if n == 0 else [" " * (out.width - room)]), (part, style)]
        else:
            yield from folded(head, out.width)
            for part in wrap(said, out.width - len(_BELOW)):
                yield [_BELOW, (part, style)]


def _what(one: OperationInfo) -> str:
    kind, to = clean(one.kind), clean(one.to)
    if one.kind == "edit":
        what, _, id = to.partition(" ")
        target = f"{what} {short(id)}"
        if one.change.startswith("edited "):
            return f"{clean(one.change)} of {target}"
        return f"{clean(one.change)} {target}" if one.change else f"edit of {target}"
    return f"{kind} to {to}" if one.run_id and one.kind != "delete" else f"{kind} of {to}"
