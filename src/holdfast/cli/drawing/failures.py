"""An error for people: its sentence, the errors of a group, and the traceback without frames of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from holdfast.cli.drawing.rows import INDENT, row, rows
from holdfast.cli.drawing.terminal import Line, clean, fit, out, split
from holdfast.counts import counted
from holdfast.package import ROOT

if TYPE_CHECKING:
    from holdfast.views.records import RunError

_FRAME = re.compile(r'[\s|+]*File "([^"]+)"')
_PACKAGE = str(ROOT)
_HEADER = re.compile(r"[\s|+]*(?:Exception Group )?Traceback \(most recent call last\):")
_PLUMBING = ("/concurrent/futures/", "/asyncio/", "/threading.py")
_MEMBERS = 5  # so many errors of a group
_TRACEBACK_LINES = 40


def error_rows(error: RunError, *, whole: bool) -> Iterator[Line]:
    """Unless `whole`, long ones are cut."""
    yield from rows("error", clean(error.sentence), "red")
    most = None if whole else _MEMBERS
    for member in error.members[:most]:
        yield from rows("", clean(member), "red")
    yield from _cut("error", len(error.members), most)
    lines = list(_without_bare_headers(_own_frames(error.traceback)))
    most = None if whole else _TRACEBACK_LINES
    room = max(out.width - INDENT, 20)  # a line that wraps is no longer where it belongs
    for text in lines[:most]:
        yield row("", [(fit(clean(text), room), "dim")])
    yield from _cut("line", len(lines), most)


def _cut(what: str, count: int, most: int | None) -> Iterator[Line]:
    if most is not None and count > most:
        yield row("", [(f"... {counted(count - most, f'more {what}')}; --all shows all", "dim")])


def _without_bare_headers(lines: Iterable[str]) -> Iterator[str]:
    """The lines without the first line of a traceback that has no frames left. If none has any, there is
    nothing beside the error's own sentence."""
    kept = list(lines)
    if not any(map(_FRAME.match, kept)):
        return
    for line, following in zip_longest(kept, kept[1:], fillvalue=""):
        if not _HEADER.fullmatch(line) or _FRAME.match(following):
            yield line


def _own_frames(traceback: str) -> Iterator[str]:
    """The lines of a traceback without the frames between the user's: ours, and of pools and loops."""
    frame = -1
    for line in split(traceback):
        found = _FRAME.match(line)
        column = len(line) - len(line.lstrip(" |+"))
        if found:
            inner = found[1].startswith(_PACKAGE) or any(part in found[1] for part in _PLUMBING)
            frame = column if inner else -1
        elif frame >= 0 and column <= frame:
            frame = -1
        if frame < 0:
            yield line
