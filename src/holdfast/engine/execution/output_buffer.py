"""The output of steps and commands on its way into the log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.kernel import commands as c
from holdfast.redaction import StreamRedactor

if TYPE_CHECKING:
    from holdfast.engine.execution.call import Call
    from holdfast.engine.execution.execution import Execution
    from holdfast.redaction import Redactor
    from holdfast.store.port import Append

_PIECE = 16 * 1024
_AGE_S = 0.5
"""Text of this size or age is written."""
_MOST = 1024 * 1024
"""At most this many characters of an attempt's output are kept, if it is redacted here."""
_CUT = "\n[holdfast: later output is not kept]\n"


class OutputBuffer:
    """The output of one attempt, written to the log in order and in pieces. Thread-safe."""

    def __init__(
        self, call: Call, append: Callable[[Execution, Append], None], redactor: Redactor | None = None
    ) -> None:
        """`append` writes a piece. Without a `redactor` the text is redacted already, and all is kept."""
        self._call = call
        self._attempt = call.attempt
        self._append = append
        self._redactor = redactor
        self._redacted: dict[str, StreamRedactor] = {}
        self._clock = call.execution.engine.clock
        self._lock = threading.Lock()
        self._closed = False
        self._source = ""
        self._texts: list[str] = []
        self._waiting: list[tuple[str, list[str]]] = []
        """Each source in turn, and what it gave; `_texts` is that of the last one."""
        self._size = 0
        self._since = 0.0
        self._kept = 0

    def take(self, source: str, text: str) -> None:
        with self._lock:
            if self._closed:
                return
            if source != self._source:
                if not self._waiting:
                    self._since = self._clock.monotonic()
                self._source, self._texts = source, []
                self._waiting.append((source, self._texts))
            self._texts.append(text)
            self._size += len(text)
            if self._size >= _PIECE:
                self._write()

    def tick(self) -> None:
        """Write the output if it has waited for half a second."""
        with self._lock:
            if self._waiting and self._clock.monotonic() - self._since >= _AGE_S:
                self._write()

    def flush(self) -> None:
        """Write the buffered output; an incomplete last line stays in its redactor."""
        with self._lock:
            self._write()

    def close(self) -> None:
        """Write all of it. Later output is not kept."""
        with self._lock:
            self._write(last=True)
            self._closed = True

    def _write(self, *, last: bool = False) -> None:
        waiting, self._waiting, self._source, self._size = self._waiting, [], "", 0
        if self._closed:
            return
        texts = [(source, self._prepared(source, "".join(parts))) for source, parts in waiting]
        if last:
            texts += [(source, self._bounded(one.flush())) for source, one in self._redacted.items()]
        key, run = self._call.key, self._call.execution
        commands = [c.CaptureOutput(key, source, text, self._attempt) for source, text in texts if text]
        if not commands or not run.state.owner:
            return
        try:
            self._append(run, run.append_of(commands, durable=False))
        except Exception as error:
            self._closed = True
            run.lose(error)

    def _prepared(self, source: str, text: str) -> str:
        """The part of the text that can be shown now; a secret may be split over pieces."""
        if self._redactor is None:
            return text
        redacted = self._redacted.get(source)
        if redacted is None:
            redacted = self._redacted[source] = StreamRedactor(self._redactor)
        parts = []
        for at in range(0, len(text), _PIECE):
            if self._kept > _MOST:
                break
            parts.append(self._bounded(redacted.feed(text[at : at + _PIECE].encode("utf-8", "replace"))))
        return "".join(parts)

    def _bounded(self, text: str) -> str:
        """Cut text at the limit, after it was redacted: a part of a secret would not be recognised."""
        if self._kept > _MOST:
            return ""
        self._kept += len(text)
        return text if self._kept <= _MOST else f"{text[: _MOST - self._kept]}{_CUT}"
