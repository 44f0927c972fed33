"""`holdfast stats RUN`: how the usage of one run is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from holdfast.cli.commands.listing import STYLES
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.figures import Figure, Table, figure_lines, used
from holdfast.cli.drawing.terminal import Line, clean, typed
from holdfast.counts import counted
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast.views.run_statistics import RunStatistics, StepUsed, Used

_MOST_ROWS = 40
"""Steps of a longer run are shown by name, not one by one."""
_HEADS = ["step", "attempts", "time", "waited", "tokens", "cost", "output", "result", "files"]
_MAY_DROP = ("result", "output", "waited", "files", "attempts")


def describe_run(found: RunStatistics) -> Iterator[Line]:
    yield from figure_lines(_figures(found))
    steps = list(_rows(found.steps))
    if steps:
        yield from _table(found, steps)
    if any(not step.live for step in found.steps):
        yield [("Steps in brackets were left by a rewind; what they used counts.", "dim")]


def _figures(found: RunStatistics) -> Iterator[Figure]:
    overall = found.overall
    status = found.status.replace("_", " ")
    yield Figure(
        "run", typed(found.id), "bold", [f"  {clean(found.title)}  ", (status, STYLES.get(found.status, ""))]
    )
    elapsed = f"  {moments.duration(found.elapsed_s)} from start to end"
    yield Figure("executed", moments.duration(found.executed_s), "", [(elapsed, "dim")])
    lost = f"  {overall.lost:,} of them failed or were cut off" if overall.lost else ""
    yield Figure("attempts", f"{overall.attempts:,}", "", [(lost, "dim")])
    yield Figure("step time", moments.span(overall.duration), "", [("  of all attempts together", "dim")])
    if overall.waited:
        yield Figure(
            "waited", moments.span(overall.waited), "", [("  in sleeps, at gates and for child runs", "dim")]
        )
    yield Figure("output", amount(overall.output), "", [(f"  results {amount(overall.result)}", "dim")])
    if overall.files or overall.files_unknown:
        gone = f"  {counted(overall.files_unknown, 'attempt')} not known: snapshots collected"
        yield Figure(
            "files",
            f"{overall.files:,}",
            "",
            [("  changed", "dim"), (gone if overall.files_unknown else "", "dim")],
        )
    for one in overall.measured:
        yield used(one, "used" if one is overall.measured[0] else "")


def _rows(steps: Sequence[StepUsed]) -> Iterator[tuple[str, Used]]:
    """Each step, or, of many, all of one name together."""
    if len(steps) <= _MOST_ROWS:
        for step in steps:
            yield (step.key if step.live else f"({step.key})"), step.usage
        return
    sums: dict[str, tuple[int, Used]] = {}
    for step in steps:
        count, usage = sums.get(step.name, (0, None))
        sums[step.name] = count + 1, step.usage if usage is None else usage.plus(step.usage)
    for name, (count, usage) in sorted(sums.items(), key=lambda item: -item[1][1].duration):
        yield (f"{name} × {count:,}" if count > 1 else name), usage


def _table(found: RunStatistics, rows: Sequence[tuple[str, Used]]) -> Iterator[Line]:
    cells = [(name, *_cells(usage)) for name, usage in rows]
    cells += [(f"child run {child.id}", *_cells(child.usage)) for child in found.children]
    last = ("total", *_cells(found.overall))
    filled = [n for n in range(1, len(_HEADS)) if any(row[n] for row in (*cells, last))]
    table = Table([_HEADS[0], *(_HEADS[n] for n in filled)])
    for row in cells:
        table.add(row[0], *(row[n] for n in filled))
    table.add_total(last[0], *(last[n] for n in filled))
    yield from table.lines([name for name in _MAY_DROP if _HEADS.index(name) in filled])


def _cells(usage: Used) -> tuple[str, ...]:
    """The figures of a row; nothing is left blank."""
    tokens = sum(one.input_tokens + one.output_tokens for one in usage.measured)
    prices = [one.usd for one in usage.measured if one.usd is not None]
    cost = f"${sum(prices, Decimal(0)):,f}" if prices else ""
    return (
        f"{usage.attempts:,}" if usage.attempts else "",
        moments.span(usage.duration) if usage.duration else "",
        moments.span(usage.waited) if usage.waited else "",
        f"{tokens:,}" if tokens else "",
        cost,
        amount(usage.output) if usage.output else "",
        amount(usage.result) if usage.result else "",
        f"{usage.files:,}" if usage.files else "",
    )
