"""`prime`: what an agent, or a person, needs to know at the start of a session, in one short text.

The text is a function of the store and the project's files: equal state gives equal bytes. It has at most so
many characters: of each section the first lines are shown, and the rest is counted. Every line is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.errors import BadInput
from holdfast.inert import one_line

LEAST: Final = 700
"""The headings of all sections, each with its count, and the last line fit in so many characters."""


class Section(msgspec.Struct, frozen=True):
    """A part of the text.

    title  in the heading, before the count
    lines  the first ones, the most important first; each one line
    count  how many there are in all
    more   the command that lists all
    """

    title: str
    lines: tuple[str, ...]
    count: int
    more: str


def line(text: str) -> str:
    """Text from outside on one line: nothing in it begins another line or steers a terminal."""
    return " ".join(one_line(text).split())


def short(text: str, most: int = 200) -> str:
    """The same, with an ellipsis where it is longer than `most` characters."""
    whole = line(text)
    return whole if len(whole) <= most else f"{whole[: most - 1]}…"


def quoted(text: str) -> str:
    """A name from outside, short and in quotes."""
    return f'"{short(text, 60)}"'


def compose(head: str, sections: Sequence[Section], limit: int, last: str = "") -> str:
    """The text of the sections in at most `limit` characters, with the line `last` at its end. Lines of the
    sections are cut first, then the commands in the headings, the last ones first, then the first line.
    Raises `BadInput` for a limit below the least."""
    if limit < LEAST:
        raise BadInput(f"prime takes a limit of at least {LEAST} characters, and {limit:,} are fewer")
    end = f"{last}\n" if last else ""
    room = limit - len(end)
    first, shown, named = short(head, LEAST // 4), [0] * len(sections), len(sections)
    while named and len(_text(first, sections, shown, named)) > room:
        named -= 1
    over = len(_text(first, sections, shown, named)) - room
    if over > 0:
        first = short(first, max(len(first) - over, 1))
    open_sections = set(range(len(sections)))
    while open_sections:  # a line for each section in turn, the most important section first
        for n in sorted(open_sections):
            if shown[n] == len(sections[n].lines):
                open_sections.discard(n)
                continue
            shown[n] += 1
            if len(_text(first, sections, shown, named)) > room:
                shown[n] -= 1
                open_sections.discard(n)
    return _text(first, sections, shown, named) + end


def _text(head: str, sections: Sequence[Section], shown: Sequence[int], named: int) -> str:
    """The first line and the sections, of each so many lines; the first `named` headings have the command
    that lists all."""
    lines = [head]
    for n, (section, count) in enumerate(zip(sections, shown, strict=True)):
        if not section.count:
            lines.append(f"{section.title}: none")
            continue
        left = section.count - count
        more = f"; all: {section.more}" if left and n < named else ""
        lines.append(f"{section.title}: {section.count:,}" + (f" ({left:,} not shown{more})" if left else ""))
        lines += [f"- {one}" for one in section.lines[:count]]
    return "\n".join(lines) + "\n"
