"""`holdfast stats`: what the runs of the store add up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.commands.listing import STYLES
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.figures import Figure, Table, figure_lines, used
from holdfast.cli.drawing.terminal import Line, out
from holdfast.cli.selection import read_since
from holdfast.counts import counted
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast.views.statistics import (
        Durations,
        FailingStep,
        Statistics,
        StepTotals,
        WorkflowTotals,
    )

_SHOWN = 10  # so many workflows are shown to people


@click.command("stats")
@click.argument("run", required=False)
@click.option("--since", callback=read_since, metavar="TIME", help="Only runs that changed since then.")
@options.json_object
def stats_command(run: str | None, since: datetime | None, as_json: bool) -> None:
    """Count runs by status and by workflow, their durations, steps and attempts, and what steps measured.

    With RUN, print what that run has used, by step and in all: time, attempts, tokens, money, bytes, and
    files changed. Everything counts, also what a rewind has left, and child runs.

    A child run is a run of its own. Steps are what `show` lists: also gates, sleeps, checkpoints, and the
    call of a child run. A fork counts what it has from the other run as its own. What a rewind has left does
    not count. What steps used (`measure`) counts once, where it was used, also if a rewind has left it.

    TIME is how long ago (90s, 15min, 2h, 3d, 1w), a date (2026-01-31), or a date and time.
    """
    if run is not None and since is not None:
        raise click.UsageError("stats of one run takes no --since: it counts the whole run")
    with access.open_to_read() as hf:
        if run is not None:
            of_run = hf.stats(run_id=hf.find(run))
            if as_json:
                out.json(of_run.to_json())
            else:
                from holdfast.cli.commands.run_stats import describe_run

                out.lines(describe_run(of_run))
            return
        found = hf.stats(since)
    if as_json:
        out.json(found.to_json())
    else:
        out.lines(describe(found))


def describe(found: Statistics) -> Iterator[Line]:
    yield from figure_lines(_figures(found))
    yield from _workflows(found.workflows)
    yield from _failing(found.failing)


def _figures(found: Statistics) -> Iterator[Figure]:
    counts = found.by_status
    when = f"  that changed since {moments.stamp(found.since)}" if found.since else ""
    yield Figure("runs", f"{sum(counts.values()):,}", "bold", [(when, "dim")])
    for status, n in counts.items():
        yield Figure("", f"{n:,}", "", ["  ", (status.replace("_", " "), STYLES.get(status, ""))])
    if found.interrupted:
        yield Figure(
            "", f"{found.interrupted:,}", "", ["  ", ("interrupted", "yellow"), ("  among these", "dim")]
        )
    yield from _steps(found.steps)
    if found.durations.count:
        yield from _durations_of(found.durations)
    for one in found.measured:
        yield used(one, "used" if one is found.measured[0] else "")
    stored = f"  {counted(found.events, 'event')} in {found.path}"
    yield Figure("store", amount(found.size), "", [(stored, "dim")])


def _steps(steps: StepTotals) -> Iterator[Figure]:
    counts = sorted(steps.by_status.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{n:,} {status.replace('_', ' ')}" for status, n in counts)
    yield Figure("steps", f"{steps.steps:,}", "", [(f"  {listed}" if listed else "", "dim")])
    again = f"  {counted(steps.retried, 'step')} took more than one" if steps.retried else ""
    yield Figure("attempts", f"{steps.attempts:,}", "", [(again, "dim")])


def _durations_of(found: Durations) -> Iterator[Figure]:
    of = "run" if found.count == 1 else "runs"
    yield Figure(
        "durations", moments.span(found.p50), "", [(f"  p50 of {found.count:,} completed {of}", "dim")]
    )
    yield Figure("", moments.span(found.p95), "", [("  p95", "dim")])
    yield Figure("", moments.span(found.longest), "", [("  longest", "dim")])


def _workflows(workflows: Sequence[WorkflowTotals]) -> Iterator[Line]:
    table = Table(["workflow", "runs", "completed", "failed", "other", "p50", "p95", "longest"])
    for one in workflows[:_SHOWN]:
        completed, failed = one.by_status.get("completed", 0), one.by_status.get("failed", 0)
        times = (one.durations.p50, one.durations.p95, one.durations.longest)
        spans = [moments.span(us) if one.durations.count else "" for us in times]
        other = one.runs - completed - failed
        table.add(one.workflow, f"{one.runs:,}", f"{completed:,}", f"{failed:,}", f"{other:,}", *spans)
    yield from table.lines(may_drop=("other", "p95", "completed"))
    if len(workflows) > _SHOWN:
        yield [(f"... {len(workflows) - _SHOWN:,} more; --json has all", "dim")]


def _failing(steps: Sequence[FailingStep]) -> Iterator[Line]:
    table = Table(["failing steps", "lost attempts", "of steps", "failed"])
    for one in steps:
        counts = (one.lost_attempts, one.steps, one.failed)
        table.add(f"{one.workflow} / {one.name}", *(f"{n:,}" for n in counts))
    yield from table.lines(may_drop=("failed",))
