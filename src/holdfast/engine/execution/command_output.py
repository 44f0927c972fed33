"""The output of a command: kept in the log up to a limit, and passed on live, line by line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING

from holdfast.engine.execution.output_buffer import OutputBuffer
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast.engine.execution.call import Call
    from holdfast.engine.execution.execution import Execution
    from holdfast.store.port import Append

OUTPUT_LIMIT = 16 << 20
"""The default limit of a command's output, in bytes."""
_TAIL = 64 * 1024
_LINE_MAX = 64 * 1024

OnLine = Callable[[str], object]


class OutputReader:
    """An `on_line` for standard output alone, which returns what a person sees of a line while the command
    runs; the log has the line. Error output is shown as it is: no line of it is an answer."""

    def __call__(self, line: str) -> str:
        raise NotImplementedError


class CommandOutput:
    """The output of one attempt of a command: redacted text from one thread."""

    def __init__(self, call: Call, limit: int, on_line: OnLine | None) -> None:
        self._call = call
        self._buffer = OutputBuffer(call, _append)
        self._limit = OutputLimit(limit, self._buffer.take)
        self._is_read = isinstance(on_line, OutputReader)
        self._lines = None if on_line is None else Lines(self._passed_to(_in_context(call, on_line)))

    def take(self, source: str, text: str) -> None:
        """Raises what `on_line` raises."""
        self._limit.take(source, text)
        if not self._is_read:
            self._show(source, text)
        self._buffer.tick()
        if self._lines is not None:
            self._lines.take(source, text)

    def _passed_to(self, on_line: OnLine) -> Callable[[str, str], None]:
        def pass_on(source: str, line: str) -> None:
            seen = line if self._is_read and source != "stdout" else on_line(line)
            if self._is_read and seen:
                self._show(source, f"{seen}\n")

        return pass_on

    def _show(self, source: str, text: str) -> None:
        run = self._call.execution
        if run.engine.on_output is not None:
            run.engine.on_output(run.id, self._call.key, source, text)

    def flush(self) -> None:
        """Write the buffered output to the log."""
        self._buffer.flush()

    def close(self) -> None:
        """The command has ended: write the end of its output."""
        self._limit.close()
        self._buffer.flush()

    def end_lines(self) -> None:
        """Pass on a last line without a line break. Raises what `on_line` raises."""
        if self._lines is not None:
            self._lines.close()


class OutputLimit:
    """Passes on text up to a number of bytes. Of longer output it passes on the beginning, a line that says
    how much was left out, and the end: 64 KB, or half of a limit that is smaller than twice that. It keeps no
    more than the end in memory."""

    def __init__(self, limit: int, write: Callable[[str, str], None]) -> None:
        self._limit = limit
        self._write = write
        self._head_left = limit - min(_TAIL, limit // 2)
        self._free = limit
        """The bytes that are left of the limit."""
        self._tail: deque[tuple[str, bytes]] = deque()
        self._tail_size = 0
        self._left_out = 0
        self._ends_line = True

    def take(self, source: str, text: str) -> None:
        data = text.encode()
        if self._head_left:
            head, data = _split(data, self._head_left)
            self._pass_on(source, head)
            self._head_left = self._head_left - len(head) if not data else 0
        if data:
            self._tail.append((source, data))
            self._tail_size += len(data)
            self._trim()

    def close(self) -> None:
        """Pass on the end."""
        if self._left_out:
            self._write_note(
                self._tail[0][0] if self._tail else "stdout", f"{amount(self._left_out)} left out here"
            )
        while self._tail:
            self._pass_on(*self._tail.popleft())

    def _trim(self) -> None:
        """Drop the beginning of the tail that has no room."""
        while self._tail_size > self._free:
            source, data = self._tail.popleft()
            if not self._left_out:
                of = f"the output limit of {amount(self._limit)}"
                self._write_note(source, f"{of} is reached; only the end of the rest is kept")
            over = min(self._tail_size - self._free, len(data))
            while over < len(data) and _continues(data[over]):
                over += 1
            self._left_out += over
            self._tail_size -= over
            if over < len(data):
                self._tail.appendleft((source, data[over:]))

    def _pass_on(self, source: str, data: bytes) -> None:
        if data:
            self._free -= len(data)
            self._ends_line = data.endswith(b"\n")
            self._write(source, data.decode())

    def _write_note(self, source: str, text: str) -> None:
        """Write a line of its own, which does not count towards the limit."""
        self._write(source, f"{'' if self._ends_line else chr(10)}[holdfast: {text}]\n")
        self._ends_line = True


def _split(data: bytes, size: int) -> tuple[bytes, bytes]:
    """At most `size` bytes of whole characters, and the rest."""
    if len(data) <= size:
        return data, b""
    while size and _continues(data[size]):
        size -= 1
    return data[:size], data[size:]


def _continues(byte: int) -> bool:
    """Whether it is inside a character of UTF-8."""
    return byte & 0xC0 == 0x80


class Lines:
    """Passes on lines without their line breaks, with their source. One of more than 64 KB comes in
    pieces."""

    def __init__(self, on_line: Callable[[str, str], None]) -> None:
        self._on_line = on_line
        self._held: dict[str, str] = {}

    def take(self, source: str, text: str) -> None:
        *lines, held = (self._held.get(source, "") + text).split("\n")
        self._held[source] = ""
        for line in lines:
            self._pass_on(source, line.removesuffix("\r"))
        while len(held) > _LINE_MAX:
            self._on_line(source, held[:_LINE_MAX])
            held = held[_LINE_MAX:]
        self._held[source] = held

    def close(self) -> None:
        """Pass on last lines that have no line break."""
        held, self._held = self._held, {}
        for source, line in held.items():
            if line:
                self._on_line(source, line)

    def _pass_on(self, source: str, line: str) -> None:
        while len(line) > _LINE_MAX:
            self._on_line(source, line[:_LINE_MAX])
            line = line[_LINE_MAX:]
        self._on_line(source, line)


def _in_context(call: Call, on_line: OnLine) -> OnLine:
    """Call `on_line` in the context of the body, so that `emit` and `measure` know the step. An error gets a
    note with its origin."""
    context = copy_context()

    def pass_on(line: str) -> object:
        try:
            return context.run(on_line, line)
        except Exception as error:
            error.add_note(f"raised by on_line of the command {call.key}, which was ended because of it")
            raise

    return pass_on


def _append(run: Execution, entry: Append) -> None:
    """Wait for the store, so that a command cannot write faster than it; not for the disk."""
    run.engine.store.append(entry)
    run.engine.report(entry)
