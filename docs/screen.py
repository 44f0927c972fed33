"""Real programs under a pseudo-terminal, and a picture of what they left on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

_PATIENCE_S = 60.0
_ROWS = 50
_TOKEN = re.compile(r"\x1b\[([0-?]*)[ -/]*([@-~])|([\r\n])|([^\x1b\r\n]+)|\x1b")
_SESSION = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the pseudo-terminal the one that controls the program: it asks only whom it can see."""
_SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px;
}}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As rich's own, without fonts that a reader would have to load from elsewhere."""


class Left(NamedTuple):
    """What a program has left behind: the lines on the screen, with their colours, and its exit code."""

    lines: list[str]
    code: int


class Program:
    """A program under a pseudo-terminal of so many columns."""

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], columns: int) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SESSION, *argv],
            cwd=cwd,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._fd = ours
        self._written = b""

    def expect(self, text: str) -> list[str]:
        """Wait until this stands on the screen; all that stands there then."""
        deadline = time.monotonic() + _PATIENCE_S
        while text not in "\n".join(map(plain, lines := screen(self._text))):
            if not self._read(deadline):
                raise AssertionError(f"{text!r} did not come:\n{self._text}")
        return lines

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def kill(self) -> None:
        """SIGKILL: no handler, no clean-up."""
        self._process.kill()

    def end(self) -> Left:
        """Wait for its end."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._read(deadline):
            pass
        os.close(self._fd)
        return Left(screen(self._text), self._process.wait(_PATIENCE_S))

    @property
    def _text(self) -> str:
        return self._written.decode(errors="replace")

    def _read(self, deadline: float) -> bool:
        """False at its end."""
        ready, _, _ = select.select([self._fd], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            raise AssertionError(f"nothing more came:\n{self._text}")
        try:
            piece = os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            return False
        self._written += piece
        return bool(piece)


def screen(written: str) -> list[str]:
    """The lines that a terminal shows after all of that: what was drawn over is gone. Colours stay in them.

    It knows what holdfast and rich write: a line is drawn anew from its beginning, never in its middle.
    """
    lines, row, anew = [""], 0, False
    for found in _TOKEN.finditer(written):
        figures, what, turn, text = found.groups()
        if turn == "\r":
            anew = True
        elif turn == "\n":
            row, anew = row + 1, False
            if row == len(lines):
                lines.append("")
        elif text or what == "m":
            lines[row] = ("" if anew and text else lines[row]) + found[0]
            anew = anew and not text
        elif what == "A":
            row = max(row - int(figures or 1), 0)
        elif what == "K":
            lines[row] = ""
    while lines and not plain(lines[-1]):
        lines.pop()
    return lines


def plain(line: str) -> str:
    """The line without its colours."""
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", line).rstrip()


def draw(lines: Sequence[Text], title: str, columns: int) -> str:
    """An SVG of a terminal in which these lines stand; a long one continues in the next row, as there."""
    console = Console(record=True, file=StringIO(), width=columns, force_terminal=True, highlight=False)
    for line in lines:
        for row in line.divide(range(columns, len(line), columns)):
            console.print(row, no_wrap=True, crop=True)
    name = re.sub(r"\W", "-", title)
    text = console.export_svg(title=title, code_format=_SVG, unique_id=name)
    return "\n".join(row.rstrip() for row in text.splitlines() if row.strip()) + "\n"
