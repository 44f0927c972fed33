"""Facts for people: a name at the left, and beside it what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, fit, folded, out, split, text_of, wrap
from holdfast.counts import counted

INDENT = 10
_WIDEST = 160


def width() -> int:
    """The columns that are left beside the name."""
    return max(min(out.width, _WIDEST) - INDENT, 20)


def row(name: str, pieces: Sequence[Piece]) -> Line:
    return [(name.ljust(INDENT), "dim"), *pieces]


def rows(name: str, text: str, style: str = "") -> Iterator[Line]:
    """A row that continues below itself where the text is long."""
    for n, part in enumerate(wrap(text, width()) if out.is_terminal else [text]):
        yield row(name if n == 0 else "", [(part, style)])


def hanging(head: Sequence[Piece], text: str, style: str = "", least: int = 20) -> Iterator[Line]:
    """A line that continues below its text where the terminal is narrow; below an indent of four where fewer
    than `least` columns remain beside the head."""
    if not out.is_terminal or cells(text_of(head)) + cells(text) <= out.width:
        yield [*head, (text, style)]
        return
    indent = cells(text_of(head))
    if out.width - indent >= least:
        for n, part in enumerate(wrap(text, out.width - indent)):
            yield [*(head if n == 0 else [" " * indent]), (part, style)]
        return
    yield from folded(head, out.width)
    for part in wrap(text, out.width - 4):
        yield ["    ", (part, style)]


def block(name: str, text: str, most: int | None, hint: str) -> Iterator[Line]:
    """A row of many lines, each as it is, of which at most so many are shown."""
    for n, line in enumerate(cut_lines(text or " ", width(), most, hint)):
        yield row(name if n == 0 else "", [line] if isinstance(line, str) else line)


def broken(line: str, room: int) -> list[str]:
    """The line in pieces of at most `room` columns, with all of its spaces."""
    if line.isascii():
        return [line[at : at + room] for at in range(0, len(line), room)] or [""]
    parts, begin, used = [], 0, 0
    for at, char in enumerate(line):
        takes = cells(char)
        if used + takes > room:
            parts.append(line[begin:at])
            begin, used = at, 0
        used += takes
    return [*parts, line[begin:]]


def cut_lines(text: str, room: int, most: int | None, hint: str) -> Iterator[Line]:
    """At most so many lines of the text, each in `room` columns, or all of it; `hint` says how to see the
    rest."""
    lines = split(text)
    kept = lines if most is None or len(lines) <= most else lines[: most - 1]
    cut = False
    for line in kept:
        whole = clean(line.expandtabs(4))
        short = whole if most is None else fit(whole, room)
        cut = cut or short != whole
        yield short
    if len(kept) < len(lines):
        yield [(f"... {counted(len(lines) - len(kept), 'more line')}; {hint}", "dim")]
    elif cut:
        yield [(f"(lines are cut; {hint})", "dim")]
