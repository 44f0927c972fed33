"""One approval, put to the person at the terminal."""

from __future__ import annotations

import os
import sys
from typing import Literal

from holdfast.cli.drawing import pager
from holdfast.cli.drawing.gates import heading
from holdfast.cli.drawing.rows import broken
from holdfast.cli.drawing.terminal import clean, err, folded, say, split, text_of
from holdfast.cli.drawing.values import shown_text
from holdfast.views.gate import Gate

_ROWS = 30  # so many rows of what is to be decided, or what fits on the terminal
_AROUND = 6  # rows for the heading and the question
_APPROVE = ("a", "approve", "y", "yes")
_REJECT = ("r", "reject", "n", "no")
_LATER = ("l", "later", "q", "quit")
_SHOW = ("s", "show")


class Question:
    """Typed text arrives in pieces. The question counts the lines that were not shown."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.comment = ""
        self._typed = b""
        self._asks_why = False
        self._lines = [clean(line.expandtabs(4)) for line in split(shown_text(gate.shown))]
        say([("\n" + heading(gate), "bold")])
        self._unseen = self._show_first()
        _forget_typed()  # keys that were pressed before it was shown are no answer
        self._ask()

    def _show_first(self) -> int:
        """As much as there is room for; how many lines were not shown whole."""
        width = max(min(err.width, 160) - 4, 20)
        room = min(_ROWS, max(_height() - _AROUND, 5))
        for n, line in enumerate(self._lines):
            parts = broken(line, width)
            for part in parts[:room]:
                say(f"  {part}")
            if len(parts) > room:
                return len(self._lines) - n
            room -= len(parts)
        return 0

    def _ask(self) -> None:
        ways = "approve (a), reject (r), or decide later (l)? "
        if self._unseen:
            count, total = self._unseen, len(self._lines)
            many = (
                f"{count:,} of {total:,} lines {'is' if count == 1 else 'are'}" if total > 1 else "A part is"
            )
            ways = f"{many} not shown: show all (s), {ways}"
        err.offer("\n".join(map(text_of, folded(ways.rstrip(), err.width))) + " ")

    def take(self, data: bytes, pipe: int) -> Literal["approved", "rejected", "later"] | None:
        """The answer, once a line has one. The end of the input decides nothing. While all of it is shown,
        what comes through the pipe ends that."""
        if not data:
            return "later"
        self._typed += data
        while b"\n" in self._typed:
            line, _, self._typed = self._typed.partition(b"\n")
            text = line.decode("utf-8", "replace").strip()
            if self._asks_why:
                self.comment = text
                return "rejected"
            word = text.lower()
            if word in _APPROVE:
                return "approved"
            if word in _LATER:
                return "later"
            if word in _SHOW:
                self._show_all(pipe)
                continue
            self._asks_why = word in _REJECT
            known = "s, a, r or l? " if self._unseen else "a, r or l? "
            err.offer("why (empty for no comment)? " if self._asks_why else known)
        return None

    def _show_all(self, pipe: int) -> None:
        width = max(min(err.width, 160), 20)
        rows = [part for line in self._lines for part in broken(line, width)]
        pager.page([heading(self.gate), "", *rows], pipe)
        self._unseen = 0
        self._typed = b""
        _forget_typed()  # what was typed for the pager is no answer
        self._ask()


def _height() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).lines or 24
    except (OSError, ValueError):
        return 24


def _forget_typed() -> None:
    import termios

    try:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    except (termios.error, OSError, ValueError):
        pass  # no terminal
