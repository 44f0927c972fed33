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
_STYLES = {"stands": "green", "followed": "", "begun": "yellow"}


@click.group("op", cls=Family)
def op_command() -> None:
    """List what was done to runs, tasks and the memory, and can be undone."""


@op_command.command("log")
@click.argument("run", required=False)
@options.limit(50)
@options.json_list
def log(run: str | None, limit: int, as_json: bool) -> None:
    """List operations, the newest first; with RUN, those on that run.

    Each has a state. `stands`: it can be undone, `holdfast undo OPERATION`. `undone`: another operation undid
    it. `followed`: it is in effect, and what was done later is to be undone first.
    """
    with access.open_to_read() as hf:
        run_id = None if run is None else hf.find(run)
        found = hf.operations(run_id, limit or None)
    print_list(found, as_json, _lines(found), "no operations")


def _lines(found: Sequence[OperationInfo]) -> Iterator[Line]:
    """One line each, below a heading on a terminal; what cannot be undone now is dim."""
    whens = [moments.ago(one.at) if out.is_terminal else moments.utc(one.at) for one in found]
    when_width, by_width = max(map(len, whens)), max(cells(clean(one.by)) for one in found)
    state_width = max(len(one.state) for one in found)
    if out.is_terminal:
        names = (
            "OPERATION".ljust(len(found[0].id)), "WHEN".rjust(when_width), pad("BY", by_width),
            "STATE".ljust(state_width), "WHAT",
        )  # fmt: skip
        yield from folded([("  ".join(names), "dim")], out.width)
    for one, when in zip(found, whens, strict=True):
        what = f"undo of {one.undoes}" if one.undoes else _what(one)
        head: list[Piece] = [
            (one.id, "bold" if one.stands else "dim"),
            "  ",
            (when.rjust(when_width), "dim"),
            f"  {pad(clean(one.by), by_width)}  ",
            (f"{one.state.ljust(state_width)}  ", _STYLES.get(one.state, "dim")),
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
