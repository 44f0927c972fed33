"""Figures as people read them: rows of a name, a figure and what it counts, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, fit, out, pad

if TYPE_CHECKING:
    from holdfast.views.statistics import Measured

_INDENT = 11
_NAME_MIN = 20
_FIGURE_MIN = 9


class Figure(NamedTuple):
    """A row: its name, a figure, and what the figure counts."""

    name: str
    text: str
    style: str = ""
    notes: Sequence[Piece] = ()


def figure_lines(rows: Iterable[Figure]) -> Iterator[Line]:
    """The rows, their figures below each other."""
    figures = list(rows)
    widest = max(_FIGURE_MIN, *(len(one.text) for one in figures))
    for name, text, style, notes in figures:
        yield [(name.ljust(_INDENT), "dim"), (text.rjust(widest), style), *notes]


def used(one: Measured, name: str) -> Figure:
    """The usage of one model: the price, then what it was for."""
    parts = [clean(one.model)] if one.model else []
    if one.input_tokens or one.output_tokens:
        parts.append(f"{one.input_tokens:,} tokens in, {one.output_tokens:,} out")
    parts += [f"{amount:,} {clean(unit)}" for unit, amount in one.units.items()]
    return Figure(name, "" if one.usd is None else f"${one.usd:,f}", "", [(f"  {', '.join(parts)}", "dim")])


class Table:
    """Names and figures under headings. Where the terminal is narrow, some columns can be spared."""

    def __init__(self, heads: list[str]) -> None:
        self._rows = [heads]
        self._total: list[str] | None = None

    def add(self, name: str, *figures: str) -> None:
        self._rows.append([clean(name), *figures])

    def add_total(self, name: str, *figures: str) -> None:
        """The last row, which adds up the others."""
        self._total = [name, *figures]
        self._rows.append(self._total)

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
            yield [(text, "dim")] if row is heads else [(text, "bold")] if row is self._total else text
