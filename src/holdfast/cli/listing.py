"""`holdfast list`: runs, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, moments
from holdfast.cli.terminal import Line, Piece, cells, clean, fit, out, pad, say
from holdfast.errors import NotFound

if TYPE_CHECKING:
    from holdfast.engine.reading import Reading
    from holdfast.engine.records import RunInfo

STATUSES = (
    "pending",
    "running",
    "waiting",
    "sleeping",
    "paused",
    "needs_attention",
    "completed",
    "failed",
    "cancelled",
    "interrupted",
)
STYLES = {
    "running": "cyan",
    "sleeping": "blue",
    "waiting": "magenta",
    "paused": "yellow",
    "interrupted": "yellow",
    "needs_attention": "magenta",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
}
_NAMED = 3  # so many interrupted runs are named, the others counted


@click.command("list")
@click.option("--status", multiple=True, type=click.Choice(STATUSES), help="Only runs with this status.")
@click.option("--resumable", is_flag=True, help="Only runs that `holdfast resume` would move on.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(0), help="How many; 0 is all.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_command(status: tuple[str, ...], resumable: bool, limit: int, as_json: bool) -> None:
    """List runs, the newest first."""
    try:
        with access.open_to_read() as opened:
            runs = select(opened.reading, status, resumable, limit)
            _print(runs, as_json)
            point_out_interrupted(opened.reading)
    except NotFound as error:
        # A project without a store has no runs; that is no mistake.
        if as_json:
            out.json([])
        say(f"no runs yet: {error}")


def select(reading: Reading, status: Sequence[str], resumable: bool, limit: int) -> list[RunInfo]:
    """`interrupted` is no status of the store: it is an unfinished run without a live owner."""
    wanted = tuple(one for one in status if one != "interrupted")
    if "interrupted" not in status:
        return reading.runs(status=wanted, resumable=resumable or None, limit=limit or None)
    from holdfast.engine.reading import UNFINISHED

    found = reading.runs(status=(*wanted, *UNFINISHED), resumable=resumable or None)
    found = [run for run in found if run.interrupted or run.status in wanted]
    return found[: limit or None]


def point_out_interrupted(reading: Reading, but: str = "") -> None:
    """One line on stderr if there are runs that stopped without an end."""
    from holdfast.engine.reading import UNFINISHED

    runs = [
        run for run in reading.runs(status=UNFINISHED) if run.interrupted and not run.parent and run.id != but
    ]
    if runs:
        named = ", ".join(run.id for run in runs[:_NAMED]) + (", ..." if len(runs) > _NAMED else "")
        many = "1 interrupted run" if len(runs) == 1 else f"{len(runs)} interrupted runs"
        one = runs[0].id if len(runs) == 1 else "ID"
        say([(f"{many}: {named}; `holdfast resume {one}` goes on", "yellow")])


def print_runs(runs: Sequence[RunInfo]) -> None:
    """Aligned columns: relative times and colours on a terminal, plain and whole in a pipe."""
    lines = (_for_people if out.is_terminal else _for_programs)(runs)
    out.text("".join(out.paint(line) + "\n" for line in lines))


def shown_status(run: RunInfo) -> str:
    return "interrupted" if run.interrupted else run.status


def _print(runs: Sequence[RunInfo], as_json: bool) -> None:
    if as_json:
        from holdfast.cli.detail import run_fields

        out.json([run_fields(run) for run in runs])
    elif runs:
        print_runs(runs)
    else:
        say("no runs")


def _for_programs(runs: Sequence[RunInfo]) -> list[Line]:
    rows = [("ID", "STATUS", "CREATED", "UPDATED", "WORKFLOW")]
    for run in runs:
        times = moments.utc(run.created_at), moments.utc(run.updated_at)
        rows.append((run.id, shown_status(run), *times, clean(run.workflow)))
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    return ["  ".join([*(row[n].ljust(widths[n]) for n in range(4)), row[4]]) for row in rows]


def _for_people(runs: Sequence[RunInfo]) -> list[Line]:
    width = out.width
    ids = min(max(cells(run.id) for run in runs), max(width // 3, 12))
    statuses = max(len(shown_status(run)) for run in runs)
    ages = [moments.ago(run.updated_at) for run in runs]
    age = max(map(len, ages))
    room = max(width - ids - statuses - age - 6, 8)
    lines: list[Line] = []
    for run, old in zip(runs, ages, strict=True):
        status = shown_status(run)
        pieces: list[Piece] = [
            (pad(fit(run.id, ids), ids), "bold"),
            "  ",
            (status.replace("_", " ").ljust(statuses), STYLES.get(status, "")),
            "  ",
            (old.rjust(age), "dim"),
            "  ",
            fit(clean(run.workflow), room),
        ]
        lines.append(pieces)
    return lines
