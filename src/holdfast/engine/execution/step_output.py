"""The printed and logged output of Python steps, kept in the log of their run.

While a Holdfast is open, `sys.stdout` and `sys.stderr` are wrapped: everything is passed on first, unchanged.
Text that is written in the context of a step's body also goes into the log, redacted, as the output of a
command does. The context identifies the step: threads and tasks with a context of their own do not mix. Text
that is written outside of steps, or after the attempt has ended, is not kept. Neither is what Holdfast itself
or a callback of the program writes, in whichever thread it is called (`unkept`).

A record of `logging` is kept if a handler took it, as the program's filters left it: the methods that pass
records to handlers are wrapped too. No handler is added, so the program's configuration means what it meant.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from holdfast.engine.execution.output_buffer import OutputBuffer
from holdfast.engine.execution.scope import InsideStep, current, later_attempt

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.call import Call
    from holdfast.engine.execution.execution import Execution
    from holdfast.store.port import Append


def open_for(call: Call) -> None:
    """Keep the output of another body of the call, after its first one."""
    call.output = None
    call.output_closed = False


def close(call: Call) -> None:
    """The body has ended: write its output to the log, before the outcome."""
    call.output_closed = True
    if call.output is not None:
        with unkept():
            call.output.close()


class _Busy(threading.local):
    """Set while this thread forwards or keeps output, so that output written meanwhile is not kept again."""

    is_set = False
    record: logging.LogRecord | None = None
    """The one that is passed to handlers, and `taken`, what their filters made of it if one took it."""
    taken: logging.LogRecord | None = None


_MOST_TEES = 64
"""If this process wraps more streams than this, the wrapper of the oldest one is dropped."""

_busy = _Busy()
_opening = threading.Lock()


@contextmanager
def unkept() -> Iterator[None]:
    """Inside, nothing that this thread prints or logs is output of the step whose body it is in."""
    before, _busy.is_set = _busy.is_set, True
    try:
        yield
    finally:
        _busy.is_set = before


def _keep(inside: InsideStep, source: str, text: str) -> None:
    """Keep what was written in a step's body. The caller has set `_busy`."""
    call = cast("Call", inside)
    if call.output_closed or call.execution.engine not in _process.engines:
        return
    if call.attempt > 1 and later_attempt.get() != (call, call.attempt):
        return  # a thread or task of an earlier attempt still runs
    output = call.output
    if output is None:
        if call.spec.kind != "step" or call.spec.secret:
            return
        with _opening:
            output = call.output
            if output is None:
                output = call.output = OutputBuffer(call, _append, call.execution.engine.redactor)
    output.take(source, text)


def _append(run: Execution, entry: Append) -> None:
    """Does not wait for the disk: the body may run in an event loop."""
    run.engine.store.append_soon(entry, run.engine.flusher.outcome_for(run))


class Tee:
    """A text stream that passes everything on to another, and keeps what steps write."""

    def __init__(self, stream: TextIO, source: str) -> None:
        self._stream = stream
        self._source = source

    def write(self, text: str) -> int:
        if _busy.is_set:
            return self._stream.write(text)
        try:
            _busy.is_set = True
            written = self._stream.write(text)
            inside = current.get()
            if isinstance(inside, InsideStep):
                _keep(inside, self._source, text)
            return written
        finally:
            _busy.is_set = False

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    # Programs write `with sys.stdout as file`, where that may be a file; Python looks these up in the class.

    def __enter__(self) -> Tee:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


class _Hook:
    """A method that is wrapped. Each wrapper calls the method that it has found, never one that is looked up
    later: others may wrap the same method before and after, and a wrapper may stay below theirs."""

    def __init__(self, owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
        self._owner = owner
        self._name = name
        self._found = getattr(owner, name)
        self._ours = wrap(self._found)
        setattr(owner, name, self._ours)

    def remove(self) -> None:
        if getattr(self._owner, self._name) is self._ours:
            setattr(self._owner, self._name, self._found)


def _calling_handlers(found: Callable[[logging.Logger, logging.LogRecord], None]) -> Any:
    """For `Logger.callHandlers`, which is called after the filters of the logger."""

    def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
        inside = current.get()
        if _busy.is_set or not isinstance(inside, InsideStep):
            return found(logger, record)
        if record.name == "holdfast":
            with unkept():  # its handler may write to a wrapped stream
                return found(logger, record)
        try:
            _busy.is_set = True
            _busy.record = record
            found(logger, record)
            if _busy.taken is not None:
                _keep(inside, "log", _line(_busy.taken))
        finally:
            _busy.is_set = False
            _busy.record = _busy.taken = None

    return call_handlers


def _handling(found: Callable[[logging.Handler, logging.LogRecord], Any]) -> Any:
    """For `Handler.handle`, which says whether its filters let the record pass, or what they made of it."""

    def handle(handler: logging.Handler, record: logging.LogRecord) -> Any:
        passed = found(handler, record)
        if passed and record is _busy.record:  # a handler may log something itself
            if isinstance(passed, logging.LogRecord) and passed is not record:
                _busy.taken = passed
            elif _busy.taken is None:
                _busy.taken = record
        return passed

    return handle


class _Process:
    """The wrapped streams and methods of this process, and the engines that need them."""

    def __init__(self) -> None:
        self.engines: set[Engine] = set()
        self._lock = threading.Lock()
        self._hooks: list[_Hook] = []
        self._tees: dict[tuple[int, str], Tee] = {}
        """One for each stream, used again: `print` of CPython before 3.13 holds no reference to the stream
        that it writes to, so one that a thread is in the middle of must not go."""
        os.register_at_fork(after_in_child=self._leave)

    def begin(self, engine: Engine) -> None:
        with self._lock:
            self.engines.add(engine)
            if not self._hooks:
                self._hooks = [
                    _Hook(logging.Logger, "callHandlers", _calling_handlers),
                    _Hook(logging.Handler, "handle", _handling),
                ]
        self.wrap()

    def end(self, engine: Engine) -> None:
        with self._lock:
            self.engines.discard(engine)
            if self.engines:
                return
            for hook in self._hooks:
                hook.remove()
            self._hooks = []
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if isinstance(stream, Tee):
                    setattr(sys, name, stream._stream)

    def wrap(self) -> None:
        """Wrap the streams again if another one was put there, as a test or a progress bar does."""
        if (type(sys.stdout) is Tee and type(sys.stderr) is Tee) or not self.engines:
            return
        for source in ("stdout", "stderr"):
            stream = getattr(sys, source)
            if type(stream) is not Tee and stream is not None:
                setattr(sys, source, self._tee(stream, source))

    def _tee(self, stream: TextIO, source: str) -> Tee:
        key = id(stream), source
        tee = self._tees.get(key)
        if tee is None:
            if len(self._tees) >= _MOST_TEES:
                del self._tees[next(iter(self._tees))]
            tee = self._tees[key] = Tee(stream, source)
        return tee

    def _leave(self) -> None:
        """In a forked child the stores are the parent's. What is wrapped stays so, and keeps nothing."""
        self.engines = set()
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
