"""`holdfast list`: runs, the newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, fit, out, pad, say
from holdfast.cli.selection import complete_statuses, read_since, read_statuses, read_until
from holdfast.errors import BadInput, NotFound

if TYPE_CHECKING:
    from holdfast.handle import Holdfast
    from holdfast.views.records import RunInfo

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
_ROOM = 24  # columns for title and stage, below which there is no stage
_WIDE = 100  # columns from which on there is room for how long a run took
_NAMED = 3  # so many interrupted runs are named, the others counted


@click.command("list")
@click.option(
    "--status",
    multiple=True,
    callback=read_statuses,
    shell_complete=complete_statuses,
    metavar="STATUS",
    help="Only runs with this status, also `interrupted`; several with commas, or given again.",
)
@click.option("--workflow", metavar="GLOB", help="Only runs of such workflows: `report`, `make *`.")
@click.option("--since", callback=read_since, metavar="TIME", help="Only runs that changed since then.")
@click.option("--until", callback=read_until, metavar="TIME", help="Only runs that were created until then.")
@click.option("--resumable", is_flag=True, help="Only runs that `holdfast resume` would continue.")
@click.option("--parent", metavar="RUN", help="The child runs of this run.")
@click.option("--children", is_flag=True, help="Child runs too.")
@options.limit(50)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@options.json_list
def list_command(
    status: list[str],
    workflow: str | None,
    since: datetime | None,
    until: datetime | None,
    resumable: bool,
    parent: str | None,
    children: bool,
    limit: int,
    everything: bool,
    as_json: bool,
) -> None:
    """List runs, the newest first; child runs with --children, or by their --parent.

    TIME is how long ago (90s, 15min, 2h, 3d, 1w), a date (2026-01-31), or a date and time
    (2026-01-31T12:00). A date counts whole.
    """
    if since is not None and until is not None and since >= until:
        raise BadInput("--since is not before --until, so no run can be between them")
    try:
        with access.open_to_read() as hf:
            of = None if children else ""
            if parent is not None:
                of = hf.find(parent)
            page = hf.page(
                status=status,
                resumable=resumable,
                workflow=workflow,
                parent=of,
                since=since,
                until=until,
                limit=None if everything else limit or None,
            )
            _print(page.runs, hf, as_json)
            if page.total > len(page.runs):
                more = f"{page.total - len(page.runs):,} more"
                say([(f"{more}, {page.total:,} in all; --all lists them, --limit N so many", "dim")])
            if not resumable and "interrupted" not in status:  # they are what was listed
                point_out_interrupted(hf)
    except NotFound as error:
        if parent is not None:
            raise
        # A project without a store has no runs; that is no mistake.
        if as_json:
            out.json([])
        say(f"no runs yet: {error}")


def point_out_interrupted(hf: Holdfast, but: str = "") -> None:
    """One line on stderr if there are runs that stopped without an end, unless the settings say otherwise."""
    if not hf.settings.resume:
        return
    page = hf.page(status=("interrupted",), parent="", limit=_NAMED + 1)
    runs = [run for run in page.runs if run.id != but]
    count = page.total - (len(page.runs) - len(runs))
    if runs:
        named = ", ".join(run.id for run in runs[:_NAMED]) + (", ..." if count > _NAMED else "")
        many = "1 interrupted run" if count == 1 else f"{count:,} interrupted runs"
        one = runs[0].id if count == 1 else "ID"
        say([(f"{many}: {named}; `holdfast resume {one}` continues", "yellow")])


def print_runs(runs: Sequence[RunInfo], hf: Holdfast) -> None:
    """Aligned columns: relative times, colours and what is waited for on a terminal, plain and whole in a
    pipe."""
    lines = _for_people(runs, hf.waits(runs)) if out.is_terminal else _for_programs(runs)
    out.lines(lines)


def _print(runs: Sequence[RunInfo], hf: Holdfast, as_json: bool) -> None:
    if as_json:
        out.json([run.to_json() for run in runs])
    elif runs:
        print_runs(runs, hf)
    else:
        say("no runs")


def _for_programs(runs: Sequence[RunInfo]) -> list[Line]:
    rows = [("ID", "STATUS", "CREATED", "UPDATED", "TOOK", "NUMBER", "WORKFLOW")]
    for run in runs:
        times = moments.utc(run.created_at), moments.utc(run.updated_at)
        took = "-" if run.duration_s is None else f"{run.duration_s:.3f}s"
        stage = f"  [{clean(run.stage)}]" if run.stage else ""
        rows.append((run.id, run.shown_status, *times, took, f"#{run.number}", clean(run.title) + stage))
    last = len(rows[0]) - 1
    widths = [max(len(row[n]) for row in rows) for n in range(last)]
    return ["  ".join([*(row[n].ljust(widths[n]) for n in range(last)), row[last]]) for row in rows]


def _for_people(runs: Sequence[RunInfo], wants: Mapping[str, str]) -> list[Line]:
    from holdfast.cli.drawing.columns import left_out  # a pipe gets all columns

    width = out.width
    ids = min(max(cells(run.id) for run in runs), max(width // 3, 12))
    statuses = max(len(run.shown_status) for run in runs)
    ages = [moments.ago(run.updated_at) for run in runs]
    age = max(map(len, ages))
    number = max(len(str(run.number)) for run in runs) + 1
    times = [moments.between(run.created_at, run.ended_at) for run in runs]
    took = max(map(len, times)) if width >= _WIDE else 0
    room = width - ids - number - statuses - age - (took + 2 if took else 0) - 8
    no_room = left_out(room, (age + 2, ids + 2))  # the number stays, and names the run as well
    room = max(room + (age + 2 if no_room > 0 else 0) + (ids + 2 if no_room > 1 else 0), 8)
    lines: list[Line] = []
    for run, old, time in zip(runs, ages, times, strict=True):
        status = run.shown_status
        stage = f"  {fit(clean(run.stage), max(room // 2, 1))}" if run.stage and room >= _ROOM else ""
        pieces: list[Piece] = [
            (f"{pad(fit(run.id, ids), ids)}  " if no_room < 2 else "", "bold"),
            (f"#{run.number}".ljust(number), "dim"),
            "  ",
            (status.replace("_", " ").ljust(statuses), STYLES.get(status, "")),
            "  ",
            (f"{old.rjust(age)}  " if no_room < 1 else "", "dim"),
            (f"{time.rjust(took)}  " if took else "", "dim"),
            title := fit(clean(run.title), room - len(stage)),
            (stage, "dim"),
        ]
        left = room - cells(title) - len(stage) - 2
        if run.id in wants and left > 0:
            pieces.append((f"  {fit(clean(wants[run.id]), left)}", STYLES["waiting"]))
        lines.append(pieces)
    return lines
