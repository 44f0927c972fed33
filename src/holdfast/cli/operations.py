"""`holdfast op log`: what was done to runs and can be taken back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import access, moments
from holdfast.cli.terminal import Line, clean, out, pad, say

if TYPE_CHECKING:
    from holdfast.operations.operation_log import OperationInfo


@click.group("op")
def op_command() -> None:
    """List what was done to runs and can be taken back."""


@op_command.command("log")
@click.argument("run", required=False)
@click.option("--limit", default=50, show_default=True, type=click.IntRange(0), help="How many; 0 is all.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def log(run: str | None, limit: int, as_json: bool) -> None:
    """List operations, the newest first; with RUN, those on that run.

    Those that still stand can be taken back: `holdfast undo OPERATION`.
    """
    from holdfast.operations.operation_log import log as read_log

    with access.open_to_read() as opened:
        run_id = None if run is None else opened.reading.find(run)
        found = read_log(opened.store, run_id=run_id, limit=limit or None)
    if as_json:
        out.json([_fields(one) for one in found])
    elif found:
        out.lines(_lines(found))
    else:
        say("no operations")


def _fields(one: OperationInfo) -> dict[str, Any]:
    return {
        "id": one.id,
        "kind": one.kind,
        "run": one.run_id,
        "by": one.by,
        "to": one.to or None,
        "undoes": one.undoes or None,
        "status": one.status,
        "stands": one.stands,
        "at": one.at.isoformat(),
    }


def _lines(found: Sequence[OperationInfo]) -> Iterator[Line]:
    """One line each; what no longer stands is dim."""
    whens = [moments.ago(one.at) if out.is_terminal else moments.utc(one.at) for one in found]
    when_width, by_width = max(map(len, whens)), max(len(one.by) for one in found)
    for one, when in zip(found, whens, strict=True):
        what = f"undo of {one.undoes}" if one.undoes else f"{clean(one.kind)} to {clean(one.to)}"
        yield [
            (one.id, "bold" if one.stands else "dim"),
            "  ",
            (when.rjust(when_width), "dim"),
            f"  {pad(clean(one.by), by_width)}  ",
            ("stands  " if one.stands else "        ", "green"),
            (f"{one.run_id}: {what}", "" if one.stands else "dim"),
        ]
