"""What a Python step prints and logs, kept in the log of its run.

`sys.stdout` and `sys.stderr` are wrapped while a Holdfast is open: everything is passed on first, as it is.
What is written in the context of a step's body also goes into the log, redacted, as the output of a command
does. The scope variable tells steps apart, so threads and tasks that have a context of their own do not mix.
What is written outside of steps is not kept. `logging` is seen where its records are made: no handler is
added, so a program's own configuration means what it meant.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO, cast

from holdfast.engine.scope import InsideStep, current
from holdfast.kernel import commands as c
from holdfast.redaction import StreamRedactor

if TYPE_CHECKING:
    from holdfast.engine.perform import Call

_MOST = 1024 * 1024
"""So many characters of an attempt's output are kept."""
_PIECE = 16 * 1024
_AGE_S = 0.5
_LOGGING = logging.__file__
_CUT = "\n[holdfast: what it printed after this is not kept]\n"


class StepOutput:
    """The output of one attempt on its way into the log, in order. Thread-safe; it waits for no disk."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._attempt = call.attempt
        self._lock = threading.Lock()
        self._redactors: dict[str, StreamRedactor] = {}
        self._source = ""
        self._text: list[str] = []
        self._size = 0
        self._kept = 0
        self._since = 0.0

    def take(self, source: str, text: str) -> None:
        with self._lock:
            if self._kept > _MOST:
                return
            self._kept += len(text)
            if self._kept > _MOST:
                text = f"{text[: _MOST - self._kept or None]}{_CUT}"
            if source not in self._redactors:
                self._redactors[source] = StreamRedactor(self._call.execution.engine.redactor)
            self._add(source, self._redactors[source].feed(text.encode("utf-8", "replace")))
            if self._size >= _PIECE or self._is_old():
                self._write()

    def tick(self) -> None:
        """What has waited long goes into the log, while the step goes on."""
        with self._lock:
            if self._text and self._is_old():
                self._write()

    def close(self) -> None:
        """The body has ended: all of it goes into the log, in front of the outcome."""
        with self._lock:
            for source, redactor in self._redactors.items():
                self._add(source, redactor.flush())
            self._write()

    def _add(self, source: str, text: str) -> None:
        if not text:
            return
        if source != self._source:
            self._write()
            self._source = source
        if not self._text:
            self._since = self._call.execution.engine.clock.monotonic()
        self._text.append(text)
        self._size += len(text)

    def _is_old(self) -> bool:
        return self._call.execution.engine.clock.monotonic() - self._since >= _AGE_S

    def _write(self) -> None:
        text = "".join(self._text)
        self._text, self._size = [], 0
        run = self._call.execution
        if not text or not run.state.owner:  # it has ended, and somebody still prints
            return
        command = c.CaptureOutput(self._call.key, self._source, text, self._attempt)
        try:
            entry = run.entry([command], durable=False)
        except Exception as error:
            run.lose(error)
            return
        run.engine.store.append_soon(entry, run.engine.flusher.outcome_for(run))


def keep(call: Call) -> None:
    """The call's body has ended."""
    output, call.output = call.output, None
    if output is not None:
        with _busy:
            output.close()


class _Busy(threading.local):
    """Set while this thread passes something on or keeps it: what that writes in turn is not kept again."""

    is_set = False

    def __enter__(self) -> None:
        self.is_set = True

    def __exit__(self, *_: object) -> None:
        self.is_set = False


_busy = _Busy()


def _take(inside: InsideStep, source: str, text: str) -> None:
    """Keep what was written in a step, if its output is kept. Of a `secret` step nothing is."""
    call = cast("Call", inside)
    if not _process.counts(call) or call.spec.kind != "step" or call.spec.secret:
        return
    output = call.output
    if output is None:
        output = call.output = StepOutput(call)
    with _busy:
        output.take(source, text)


class Tee:
    """A text stream that passes everything on to another, and keeps what steps write."""

    def __init__(self, stream: TextIO, source: str) -> None:
        self._stream = stream
        self._source = source

    def write(self, text: str) -> int:
        if _busy.is_set:
            return self._stream.write(text)
        with _busy:
            written = self._stream.write(text)
        inside = current.get()
        # A handler of `logging` writes what was kept when its record was made.
        if isinstance(inside, InsideStep) and sys._getframe(1).f_code.co_filename != _LOGGING:
            _take(inside, self._source, text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __enter__(self) -> Tee:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


class _Process:
    """The wrapped streams of this process, and how many engines need them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._pid = os.getpid()
        self._factory: Any = None
        os.register_at_fork(after_in_child=self._leave)

    def counts(self, call: Call) -> bool:
        return self._users > 0 and call.execution.engine.options.capture_output and self._pid == os.getpid()

    def begin(self) -> None:
        with self._lock:
            self._pid = os.getpid()
            self._users += 1
            if self._users == 1:
                self._factory = logging.getLogRecordFactory()
                logging.setLogRecordFactory(self._make_record)
        self.wrap()

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if logging.getLogRecordFactory() == self._make_record:
                logging.setLogRecordFactory(self._factory)
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if isinstance(stream, Tee):
                    setattr(sys, name, stream._stream)

    def wrap(self) -> None:
        """Whoever has put another stream there, as a test or a progress bar does, gets it wrapped."""
        if type(sys.stdout) is not Tee and sys.stdout is not None:
            sys.stdout = cast(TextIO, Tee(sys.stdout, "stdout"))
        if type(sys.stderr) is not Tee and sys.stderr is not None:
            sys.stderr = cast(TextIO, Tee(sys.stderr, "stderr"))

    def _make_record(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._factory(*args, **kwargs)
        inside = current.get()
        if isinstance(inside, InsideStep) and not _busy.is_set and record.name != "holdfast":
            _take(inside, "log", _line(record))
        return record

    def _leave(self) -> None:
        """In a forked child: the store is the parent's."""
        self._users = 0
        self._lock = threading.Lock()


def _line(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:  # arguments that do not fit: the handlers complain
        text = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
    return f"{record.levelname} {record.name}: {text}\n"


_process = _Process()
begin, end, wrap = _process.begin, _process.end, _process.wrap
