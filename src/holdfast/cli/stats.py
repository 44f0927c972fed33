"""`holdfast stats`: what the runs of the store add up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from holdfast.cli import access, moments
from holdfast.cli.counts import counted
from holdfast.cli.listing import STYLES
from holdfast.cli.selection import read_since
from holdfast.cli.terminal import Line, Piece, cells, clean, fit, out, pad
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast.views.statistics import (
        Durations,
        FailingStep,
        Measured,
        Statistics,
        StepTotals,
        WorkflowTotals,
    )

_SHOWN = 10  # so many workflows are shown to people
_INDENT = 11
_NAME_MIN = 20
_FIGURE_MIN = 9


@click.command("stats")
@click.option("--since", callback=read_since, metavar="TIME", help="Only runs that changed since then.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def stats_command(since: datetime | None, as_json: bool) -> None:
    """Count runs by status and by workflow, their durations, steps and attempts, and what steps measured.

    A child run is a run of its own. Steps are what `show` lists: also gates, sleeps, checkpoints, and the
    call of a child run. A fork counts what it has from the other run as its own. What a rewind has left does
    not count. What steps used (`measure`) counts once, where it was used, also if a rewind has left it.

    TIME is how long ago (90s, 15min, 2h, 3d, 1w), a date (2026-01-31), or a date and time.
    """
    with access.open_to_read() as hf:
        found = hf.stats(since)
    if as_json:
        out.json(found.to_json())
    else:
        out.lines(describe(found))


def describe(found: Statistics) -> Iterator[Line]:
    figures = list(_figures(found))
    widest = max(_FIGURE_MIN, *(len(one.text) for one in figures))
    for name, text, style, notes in figures:
        yield [(name.ljust(_INDENT), "dim"), (text.rjust(widest), style), *notes]
    yield from _workflows(found.workflows)
    yield from _failing(found.failing)


class _Figure(NamedTuple):
    """A row: its name, a figure, and what the figure counts."""

    name: str
    text: str
    style: str = ""
    notes: Sequence[Piece] = ()


def _figures(found: Statistics) -> Iterator[_Figure]:
    counts = found.by_status
    when = f"  that changed since {moments.stamp(found.since)}" if found.since else ""
    yield _Figure("runs", f"{sum(counts.values()):,}", "bold", [(when, "dim")])
    for status, n in counts.items():
        yield _Figure("", f"{n:,}", "", ["  ", (status.replace("_", " "), STYLES.get(status, ""))])
    if found.interrupted:
        yield _Figure(
            "", f"{found.interrupted:,}", "", ["  ", ("interrupted", "yellow"), ("  among these", "dim")]
        )
    yield from _steps(found.steps)
    if found.durations.count:
        yield from _durations_of(found.durations)
    for one in found.measured:
        yield _used(one, "used" if one is found.measured[0] else "")
    stored = f"  {counted(found.events, 'event')} in {found.path}"
    yield _Figure("store", amount(found.size), "", [(stored, "dim")])


def _used(one: Measured, name: str) -> _Figure:
    """What was used of one model: the price, then what it was for."""
    parts = [clean(one.model)] if one.model else []
    if one.input_tokens or one.output_tokens:
        parts.append(f"{one.input_tokens:,} tokens in, {one.output_tokens:,} out")
    parts += [f"{amount:,} {clean(unit)}" for unit, amount in one.units.items()]
    return _Figure(name, "" if one.usd is None else f"${one.usd:,f}", "", [(f"  {', '.join(parts)}", "dim")])


def _steps(steps: StepTotals) -> Iterator[_Figure]:
    counts = sorted(steps.by_status.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{n:,} {status.replace('_', ' ')}" for status, n in counts)
    yield _Figure("steps", f"{steps.steps:,}", "", [(f"  {listed}" if listed else "", "dim")])
    again = f"  {counted(steps.retried, 'step')} took more than one" if steps.retried else ""
    yield _Figure("attempts", f"{steps.attempts:,}", "", [(again, "dim")])


def _durations_of(found: Durations) -> Iterator[_Figure]:
    of = "run" if found.count == 1 else "runs"
    yield _Figure("durations", _span(found.p50), "", [(f"  p50 of {found.count:,} completed {of}", "dim")])
    yield _Figure("", _span(found.p95), "", [("  p95", "dim")])
    yield _Figure("", _span(found.longest), "", [("  longest", "dim")])


def _workflows(workflows: Sequence[WorkflowTotals]) -> Iterator[Line]:
    table = Table(["workflow", "runs", "completed", "failed", "other", "p50", "p95", "longest"])
    for one in workflows[:_SHOWN]:
        completed, failed = one.by_status.get("completed", 0), one.by_status.get("failed", 0)
        times = (one.durations.p50, one.durations.p95, one.durations.longest)
        spans = [_span(us) if one.durations.count else "" for us in times]
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


class Table:
    """Names and figures under headings. Where the terminal is narrow, some columns can be spared."""

    def __init__(self, heads: list[str]) -> None:
        self._rows = [heads]

    def add(self, name: str, *figures: str) -> None:
        self._rows.append([clean(name), *figures])

    def lines(self, may_drop: Sequence[str]) -> Iterator[Line]:
        heads, *rows = self._rows
        if not rows:
            return
        yield ""
        widths = [max(cells(row[n]) for row in self._rows) for n in range(len(heads))]
        kept = list(range(1, len(heads)))
        for name in may_drop:
            if sum(widths[n] + 2 for n in kept) + min(widths[0], _NAME_MIN) > out.width:
                kept.remove(heads.index(name))
        room = max(min(widths[0], out.width - sum(widths[n] + 2 for n in kept)), 8)
        for row in self._rows:
            figures = "".join(f"  {row[n]:>{widths[n]}}" for n in kept)
            text = (pad(fit(row[0], room), room) + figures).rstrip()
            yield [(text, "dim")] if row is heads else text


def _span(us: int) -> str:
    return moments.duration(us / 1e6)
