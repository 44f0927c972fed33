"""`holdfast stats`: what the runs of the store add up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli import access, moments
from holdfast.cli.counts import counted
from holdfast.cli.listing import STYLES
from holdfast.cli.selection import read_since
from holdfast.cli.terminal import Line, Piece, cells, clean, fit, out, pad
from holdfast.kernel.measures import as_data
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.kernel.measures import Measured
    from holdfast.store.statistics import Durations, FailingStep, Statistics, StepTotals, WorkflowTotals

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
    with access.open_to_read() as opened:
        found = opened.reading.statistics(since)
        interrupted = opened.reading.page(status=("interrupted",), since=since, limit=0).total
        if as_json:
            out.json(fields(opened, found, since, interrupted))
            return
        lines = describe(opened, found, since, interrupted)
        out.lines(lines)


def fields(opened: Opened, found: Statistics, since: datetime | None, interrupted: int) -> dict[str, Any]:
    """`stats --json`, whose names do not change."""
    return {
        "since": since.isoformat() if since else None,
        "runs": {
            "total": sum(one.runs for one in found.workflows),
            "by_status": _by_status(found.workflows),
            "interrupted": interrupted,
        },
        "durations": _durations(found.durations),
        "workflows": [
            {
                "workflow": one.workflow,
                "total": one.runs,
                "by_status": one.by_status,
                "durations": _durations(one.durations),
            }
            for one in found.workflows
        ],
        "steps": {
            "total": found.steps.steps,
            "by_status": found.steps.by_status,
            "attempts": found.steps.attempts,
            "retried": found.steps.retried,
        },
        "failing_steps": [
            {
                "workflow": one.workflow,
                "step": one.name,
                "steps": one.steps,
                "lost_attempts": one.lost_attempts,
                "failed": one.failed,
            }
            for one in found.failing
        ],
        "measured": as_data(found.measured),
        "store": {"path": str(opened.store.path), "bytes": found.size, "events": found.events},
    }


def _durations(found: Durations) -> dict[str, Any]:
    """Seconds; null where no run has completed."""
    seconds = [us / 1e6 if found.count else None for us in (found.p50, found.p95, found.longest)]
    return {"count": found.count, **dict(zip(("p50_s", "p95_s", "max_s"), seconds, strict=True))}


def _by_status(workflows: Sequence[WorkflowTotals]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in workflows:
        for status, n in one.by_status.items():
            counts[status] = counts.get(status, 0) + n
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def describe(opened: Opened, found: Statistics, since: datetime | None, interrupted: int) -> Iterator[Line]:
    """The same for people."""
    figures = list(_figures(opened, found, since, interrupted))
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


def _figures(
    opened: Opened, found: Statistics, since: datetime | None, interrupted: int
) -> Iterator[_Figure]:
    counts = _by_status(found.workflows)
    when = f"  that changed since {moments.stamp(since)}" if since else ""
    yield _Figure("runs", f"{sum(counts.values()):,}", "bold", [(when, "dim")])
    for status, n in counts.items():
        yield _Figure("", f"{n:,}", "", ["  ", (status.replace("_", " "), STYLES.get(status, ""))])
    if interrupted:
        yield _Figure("", f"{interrupted:,}", "", ["  ", ("interrupted", "yellow"), ("  among these", "dim")])
    yield from _steps(found.steps)
    if found.durations.count:
        yield from _durations_of(found.durations)
    for one in found.measured:
        yield _used(one, "used" if one is found.measured[0] else "")
    stored = f"  {counted(found.events, 'event')} in {opened.store.path}"
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
