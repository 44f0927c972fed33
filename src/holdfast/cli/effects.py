"""What an operation does, or would do, as rows of a name and what it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.cli.terminal import Line, clean, out, wrap

_INDENT = 11
_MOST = 12


def row(name: str, text: str, style: str = "") -> Iterator[Line]:
    """A row that goes on below itself where the text is long."""
    width = max(min(out.width, 160) - _INDENT, 20)
    for n, part in enumerate(wrap(text, width) if out.is_terminal else [text]):
        yield [((name if n == 0 else "").ljust(_INDENT), "dim"), (part, style)]


def names(name: str, items: Sequence[str], note: str = "", style: str = "") -> Iterator[Line]:
    """A row with the first of many names; none at all if there is nothing to name."""
    if not items:
        return
    listed = ", ".join(clean(item) for item in items[:_MOST])
    more = f" and {len(items) - _MOST:,} more (--json has all)" if len(items) > _MOST else ""
    yield from row(name, f"{listed}{more}" + (f": {note}" if note else ""), style)


def ways(*commands: tuple[str, str]) -> Iterator[Line]:
    """The commands that go on from here, each with what it does."""
    widest = max(len(command) for command, _ in commands)
    for n, (command, what) in enumerate(commands):
        yield [
            (("next" if n == 0 else "").ljust(_INDENT), "dim"),
            (command.ljust(widest), "cyan"),
            (f"  {what}", "dim"),
        ]


def show(lines: Iterator[Line]) -> None:
    out.text("".join(out.paint(line) + "\n" for line in lines))
