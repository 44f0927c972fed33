"""The terminal: what kind of one it is, and the only way by which text gets there.

A line is text, or pieces of which some have a style: `["run ", ("failed", "red")]`. Styles show only
on a terminal that takes colours; everywhere else the text is the same without them. No text moves the cursor:
whatever is written here passes `holdfast.inert`, and only styles and what is drawn over are ours.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, TextIO, cast

from holdfast import inert

Piece = str | tuple[str, str]
Line = str | Sequence[Piece]

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_COMPLAINT = "holdfast: "
_NARROWEST = 20
_COMMAND = re.compile(r"`[^`]+`")
_OURS = re.compile(r"(?:^|(?<=`))holdfast (?=[a-z])")


class ReaderLeft(Exception):
    """No process reads our output any more. No OSError: click would make a failure of that."""


class OutputLost(Exception):
    """Standard output cannot be written: its disk is full, for instance. No OSError either."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the output could not be written: {why}")


class Stream:
    """Standard output or standard error, looked up at each use: tests and rich replace it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = False
        self._is_open = False
        """Whether a program printed the last line, and did not end it."""

    @property
    def file(self) -> TextIO:
        file: TextIO = getattr(sys, self._name)
        return file

    @property
    def is_terminal(self) -> bool:
        try:
            return self.file.isatty()
        except ValueError:  # it was closed
            return False

    @property
    def is_live(self) -> bool:
        """Whether what was written can be drawn over."""
        return self.is_terminal and os.environ.get("TERM", "") not in ("", "dumb")

    @property
    def has_colour(self) -> bool:
        return self.is_live and not os.environ.get("NO_COLOR")

    @property
    def has_unicode(self) -> bool:
        return (self.file.encoding or "").lower().replace("-", "") == "utf8"

    @property
    def width(self) -> int:
        """Columns of the terminal; where it has none to say, enough for everything."""
        try:
            return os.get_terminal_size(self.file.fileno()).columns or 80
        except (OSError, ValueError):
            return 80 if self.is_terminal else 10_000

    def line(self, line: Line = "") -> None:
        self.end_line()
        self._write(self.paint(line) + "\n")

    def lines(self, lines: Iterable[Line]) -> None:
        """Write them all at once."""
        self.end_line()
        self._write("".join(self.paint(line) + "\n" for line in lines))

    def text(self, text: str) -> None:
        """Write text from outside: a program gets it as it is, a terminal does not obey it."""
        self._write(inert.lines(text) if self.is_terminal else text)

    def printed(self, text: str, *, live: bool = False) -> None:
        """Write what a program printed: the same, with its colours. A reader who left does not stop what is
        `live`."""
        if self.is_terminal:
            text = inert.printed(text, colour=self.has_colour, live=live)
        self._offer(text) if live else self._write(text)
        self._is_open = not text.endswith(("\n", "\r")) if text else self._is_open

    def end_line(self) -> None:
        """Begin a new line if a program left one open where this is written. What a pipe gets of standard
        output stays as the program printed it."""
        for stream in (out, err):
            if stream._is_open and stream._is_same(self):
                stream._is_open = False
                if self is not out or self.is_terminal:
                    self._offer("\n")

    def _is_same(self, other: Stream) -> bool:
        """Whether both lead to the same file."""
        if self is other:
            return True
        try:
            return os.path.sameopenfile(self.file.fileno(), other.file.fileno())
        except (OSError, ValueError):  # no file at all
            return False

    def draw(self, text: str = "") -> None:
        """Draw a line over the last one; the next drawing is drawn over it. Without text, only clear it."""
        self._offer(f"\r\x1b[K{inert.one_line(text)}")

    @property
    def binary(self) -> BinaryIO:
        """A file for lines of JSON, which a program gets in UTF-8 whatever the encoding of the stream is."""
        return cast("BinaryIO", _JsonLines(self))

    def _write(self, text: str | bytes) -> None:
        """Write as it is, now. Raises ReaderLeft, OutputLost."""
        try:
            if isinstance(text, str):
                self.file.write(text)
            else:
                self.file.buffer.write(text)
            self.file.flush()
        except BrokenPipeError:
            raise ReaderLeft from None
        except OSError as error:
            hush(self._name)  # what is left in the buffer would fail again at the end
            raise OutputLost(error.strerror or str(error)) from None

    def offer(self, text: str) -> None:
        """As `text`, for what may be lost: a reader who left does not stop a run."""
        self._offer(inert.lines(text) if self.is_terminal else text)

    def say(self, line: Line) -> None:
        """As `line`, for what may be lost. A terminal does not break it inside a word."""
        self.end_line()
        rows = folded(line, self.width) if self.is_terminal else [line]
        self._offer("".join(self.paint(row) + "\n" for row in rows))

    def _offer(self, text: str) -> None:
        if not self._closed:
            try:
                self._write(text)
            except (ReaderLeft, OutputLost, ValueError):
                self._closed = True

    def json(self, value: Any) -> None:
        """Write data as JSON, indented for people on a terminal and for programs alike."""
        self.json_text(json_text(value, indent=2) + "\n")

    def json_text(self, text: str) -> None:
        self._write(inert.json(text) if self.is_terminal else text)

    def offer_json(self, value: Any) -> None:
        """Data as JSON on one line, for what may be lost."""
        text = json_text(value) + "\n"
        self._offer(inert.json(text) if self.is_terminal else text)

    def paint(self, line: Line) -> str:
        if isinstance(line, str):
            return inert.lines(line)
        colour = self.has_colour
        return "".join(_painted(piece, colour) for piece in line)


class _JsonLines:
    """Writes to a stream as all else is written there: a reader who left is no failure."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        if self._stream.is_terminal:
            self._stream.json_text(data.decode())
        else:
            self._stream._write(data)
        return len(data)


out = Stream("stdout")
err = Stream("stderr")


class Typing:
    """How people type our commands here: with the `--home` of this command line, if it has one."""

    def __init__(self) -> None:
        self.home: str | None = None

    def __call__(self, text: str) -> str:
        """A command, or a sentence with commands in backticks, to be copied."""
        if self.home is None:
            return text
        program = f"holdfast --home {shlex.quote(self.home)} "
        return _OURS.sub(lambda _: program, text)


typed = Typing()


def say(line: Line) -> None:
    """Print something to the person that is no part of the output."""
    err.say(typed(line) if isinstance(line, str) else line)


def print_list(found: Sequence[Any], as_json: bool, lines: Iterable[Line], none: Line) -> None:
    """Print views as a JSON list, or as `lines` draws them; print `none` to the person if there are none."""
    if as_json:
        out.json([one.to_json() for one in found])
    elif found:
        out.lines(lines)
    else:
        say(none)


def complain(message: str) -> None:
    """One sentence about what is wrong; on a terminal it is not broken inside a word or a command."""
    message = typed(message)
    lines = folded(message, err.width - len(_COMPLAINT)) if err.is_terminal else [message]
    for n, line in enumerate(lines):
        say([(_COMPLAINT if n == 0 else " " * len(_COMPLAINT), "red"), *_pieces(line)])


def show_warnings() -> None:
    """Warnings of the engine are printed like everything else, unless logging is set up."""
    import logging

    class Inbox(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(self.format(record))

    logging.lastResort = Inbox(logging.WARNING)


def prepare() -> None:
    """Before anything is written: a character that the terminal's encoding lacks is no error, nor is a stream
    that is closed."""
    stand_in()
    typed.home = None
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def hush(name: str = "stdout") -> None:
    """The reader of our output left: let what is still buffered go nowhere, without a word."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2 if name == "stderr" else 1)
    os.close(nowhere)


def stand_in() -> None:
    """The parent process closed standard streams: /dev/null stands in for them. Else the next file that is
    opened has their number, and what is written to standard error goes into that file."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def json_text(value: Any, *, indent: int = 0) -> str:
    """Data as JSON: on one line, or over several."""
    import msgspec

    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a path with bytes that are not UTF-8
        data = msgspec.json.encode(_text_only(msgspec.to_builtins(value)))
    return (msgspec.json.format(data, indent=indent) if indent else data).decode()


def _text_only(value: Any) -> Any:
    """The data with a mark in the place of each byte that is not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_text_only(key): _text_only(one) for key, one in value.items()}
    return [_text_only(one) for one in value] if isinstance(value, list) else value


def clean(text: str) -> str:
    """The text on one line, with a sign for what a terminal would obey or not show."""
    return inert.one_line(text)


def cells(text: str) -> int:
    """How many columns the text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def fit(text: str, width: int) -> str:
    """The text in at most `width` columns, with an ellipsis where it was cut."""
    if cells(text) <= width:
        return text
    kept = text[: max(width - 1, 0)]
    while kept and cells(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"[:width]


def pad(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def split(text: str) -> list[str]:
    """The lines of a text, which end with LF, CRLF or CR. Other characters that end a line somewhere stay in
    them, and are marked there."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n") if text else []


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken between words where there are any."""
    lines: list[str] = []
    for paragraph in split(text) or [""]:
        line = ""
        for word in paragraph.split(" "):
            if line and cells(line) + 1 + cells(word) > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        lines.append(line)
    return lines


def folded(line: Line, width: int) -> list[Line]:
    """The line in rows of at most `width` columns, broken between words; all of them have its indentation. A
    command to copy is not broken: it is in backticks, or a piece in cyan."""
    pieces = _pieces(line)
    text = text_of(line)
    width = max(width, _NARROWEST)
    if all(cells(part) <= width for part in text.split("\n")):
        return [line]
    whole = {at for found in _COMMAND.finditer(text) for at in range(*found.span())}
    begin = 0
    for piece in pieces:
        end = begin + len(piece if isinstance(piece, str) else piece[0])
        if not isinstance(piece, str) and "cyan" in piece[1]:
            whole.update(range(begin, end))
        begin = end
    rows: list[Line] = []
    begin = 0
    for part in text.split("\n"):
        indent = part[: len(part) - len(part.lstrip(" "))]
        for n, (start, end) in enumerate(_row_spans(part, len(indent), width, {at - begin for at in whole})):
            rows.append([indent if n else "", *_cut_out(pieces, begin + start, begin + end)])
        begin += len(part) + 1
    return rows


def _row_spans(text: str, indent: int, width: int, whole: set[int]) -> Iterator[tuple[int, int]]:
    """Where the rows of the text begin and end; it is not broken at the places in `whole`."""
    begin, used, space = 0, 0, 0
    for at, char in enumerate(text):
        used += cells(char)
        if char == " " and at > indent and at not in whole:
            space = at
        if used > width and space > begin:
            yield begin, space
            begin = space + 1
            used = indent + cells(text[begin : at + 1])
    yield begin, len(text)


def text_of(line: Line) -> str:
    """The line without its styles."""
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in _pieces(line))


def _pieces(line: Line) -> Sequence[Piece]:
    return [line] if isinstance(line, str) else line


def _cut_out(pieces: Sequence[Piece], begin: int, end: int) -> Iterator[Piece]:
    """The pieces between two places of their text."""
    for piece in pieces:
        text = piece if isinstance(piece, str) else piece[0]
        found = text[max(begin, 0) : max(end, 0)]
        if found:
            yield found if isinstance(piece, str) else (found, piece[1])
        begin -= len(text)
        end -= len(text)


def _painted(piece: Piece, colour: bool) -> str:
    if isinstance(piece, str):
        return inert.lines(piece)
    text, style = inert.lines(piece[0]), piece[1]
    if not colour or not style or not text:
        return text
    codes = ";".join(_CODES[name] for name in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"
