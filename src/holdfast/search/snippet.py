"""Where the words of a query stand in a text, and the part of the text to show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.search.query import Query
from holdfast.search.words import Tokenizer
from holdfast.views.search_hit import Marks

CHARS: Final = 160
_BEFORE: Final = 50
_AT_ONCE: Final = 10_000
"""How many characters of a long text are split at a time: most have a hit near their beginning."""


def marks(text: str, query: Query, tokens: Tokenizer) -> Marks:
    """Where the hits are: those that overlap or touch are one."""
    if not query.has:
        return ()
    words = tokens(text)
    texts = [word.text for word in words]
    found: list[tuple[int, int]] = []
    for at in range(len(words)):
        for term in query.has:
            if term.matched_at(texts, at):
                start, end = words[at].start, words[at + len(term.words) - 1].end
                if found and start <= found[-1][1]:
                    found[-1] = (found[-1][0], max(end, found[-1][1]))
                else:
                    found.append((start, end))
    return tuple(found)


def one_line(text: str) -> str:
    return " ".join(text.split())


def cut(text: str, query: Query, tokens: Tokenizer) -> tuple[str, Marks] | None:
    """The part of the text that begins a little before the first hit, on one line, and the marks in it; None
    if there is no hit."""
    for part, last in _parts(text):
        line = one_line(part)
        found = marks(line, query, tokens)
        if found:
            return _around(line, found, more=not last)
    return None


def beginning(text: str) -> str:
    """The part to show of a text without a hit."""
    line = one_line(text[: 4 * CHARS])
    return line if len(line) <= CHARS else f"{line[: CHARS - 1].rstrip()}…"


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, and whether each is the last one. They overlap, so that a phrase is whole in one."""
    step = _AT_ONCE - _AT_ONCE // 10
    for start in range(0, max(len(text), 1), step):
        is_last = start + _AT_ONCE >= len(text)
        yield text[start : start + _AT_ONCE], is_last
        if is_last:
            return


def _around(line: str, found: Marks, *, more: bool) -> tuple[str, Marks]:
    start = max(found[0][0] - _BEFORE, 0)
    if start:
        space = line.find(" ", start, found[0][0])
        start = space + 1 if space >= 0 else start
    end = max(start + CHARS, found[0][1])
    if end < len(line):
        space = line.rfind(" ", max(found[0][1], end - _BEFORE), end)
        end = space if space >= 0 else end
    before = "…" if start else ""
    after = "…" if end < len(line) or more else ""
    shift = len(before) - start
    inside = [(a + shift, min(b, end) + shift) for a, b in found if a < end]
    return f"{before}{line[start:end]}{after}", tuple(inside)
