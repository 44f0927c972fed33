"""Passing events to the program that asked for them: each once, those of a run in the order of the log.

Several threads learn of events: those that commit, the flusher, the follower. Each hands in what it knows,
and one of them calls the program with all events of that run; those that no thread has handed in are read
from the log. No thread waits while another one calls the program.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from holdfast.clock import instant
from holdfast.engine.execution import step_output
from holdfast.engine.outside.records import LogEvent
from holdfast.errors import StoreError
from holdfast.kernel.events import RUN_ENDS
from holdfast.store.port import Append, NewEvent

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

logger = logging.getLogger("holdfast")


class _RunEvents:
    """The events of one run: those delivered, and those still to deliver."""

    __slots__ = ("after", "ended", "known", "next", "reporting", "upto")

    def __init__(self, next_version: int) -> None:
        self.next = next_version
        self.upto = next_version - 1
        self.known: dict[int, NewEvent] = {}
        self.ended = False
        self.reporting = False
        self.after: list[Callable[[], None]] = []
        """To be called when all events were delivered."""


class EventCallback:
    """Thread-safe. `on_event` is called with acknowledged events, redacted as for every reader."""

    def __init__(self, engine: Engine, on_event: Callable[[LogEvent], None]) -> None:
        self._engine = engine
        self._on_event = on_event
        self._lock = threading.Lock()
        self._runs: dict[str, _RunEvents] = {}
        self.noted: set[str] = set()
        """Runs with events that were noted and are not delivered yet."""

    def begin(self, run_id: str, after: int) -> None:
        """Report the events of this run after that version, unless its reports have begun before."""
        with self._lock:
            self._runs.setdefault(run_id, _RunEvents(after + 1))

    def report(self, append: Append) -> None:
        """The append was acknowledged: deliver its events, and those before it."""
        if append.events:
            self._report(append.stream, self._take(append))

    def note(self, append: Append) -> None:
        """The same, by the next call of `report_noted`. Waits for nothing."""
        if append.events:
            self._take(append)
            self.noted.add(append.stream)

    def report_noted(self) -> None:
        while self.noted:
            run_id = self.noted.pop()
            with self._lock:
                events = self._runs.get(run_id)
            if events is not None:
                self._report(run_id, events)

    def report_up_to(self, run_id: str, version: int) -> None:
        """Another process has written to a run that is followed: deliver what the log has up to there."""
        with self._lock:
            events = self._runs.get(run_id)
            if events is not None:
                events.upto = max(events.upto, version)
        if events is not None:
            self._report(run_id, events)

    def when_reported(self, run_id: str, call: Callable[[], None]) -> None:
        """Call it once all known events of the run were delivered: now, or in the delivering thread."""
        with self._lock:
            events = self._runs.get(run_id)
            if events is not None and events.reporting:
                events.after.append(call)
                return
        call()

    def _take(self, append: Append) -> _RunEvents:
        first = append.version - len(append.events) + 1
        with self._lock:
            events = self._runs.setdefault(append.stream, _RunEvents(first))
            for version, event in enumerate(append.events, first):
                if version >= events.next:
                    events.known[version] = event
            events.upto = max(events.upto, append.version)
        return events

    def _report(self, run_id: str, events: _RunEvents) -> None:
        with self._lock:
            if events.reporting:
                return  # that thread delivers these, too
            events.reporting = True
        after: list[Callable[[], None]] = []
        try:
            while (one := self._next(run_id, events, after)) is not None:
                self._call(run_id, *one)
        except BaseException:  # Ctrl-C: the next thread continues from here
            with self._lock:
                self._cease(events, after)
            raise
        finally:
            for call in after:
                call()

    def _next(
        self, run_id: str, events: _RunEvents, after: list[Callable[[], None]]
    ) -> tuple[int, NewEvent] | None:
        """The next event, and its version; None if all are delivered: then this thread no longer delivers."""
        while True:
            with self._lock:
                version = events.next
                if version > events.upto:
                    self._cease(events, after)
                    if events.ended:
                        self._runs.pop(run_id, None)
                    return None
                event = events.known.pop(version, None)
                if event is not None:
                    events.next, events.ended = version + 1, event.type in RUN_ENDS
                    return version, event
            self._fill(run_id, events, version)

    @staticmethod
    def _cease(events: _RunEvents, after: list[Callable[[], None]]) -> None:
        events.reporting = False
        after += events.after
        events.after = []

    def _fill(self, run_id: str, events: _RunEvents, version: int) -> None:
        """Read the events that no thread has handed in. What cannot be read is left out."""
        found: dict[int, NewEvent] = {}
        try:
            for entry in self._engine.store.entries(run_id, after=version - 1):
                if entry.version > events.upto:
                    break
                found[entry.version] = NewEvent(entry.type, entry.at, entry.payload)
        except StoreError:
            logger.warning("events of run %s from version %d on could not be read", run_id, version)
        with self._lock:
            events.known = {**found, **events.known}
            events.next = min(events.known, default=events.upto + 1)

    def _call(self, run_id: str, version: int, event: NewEvent) -> None:
        data = self._engine.redactor.redact_value(msgspec.json.decode(event.payload))
        try:
            with step_output.unkept():  # this may be the thread of a step's body
                self._on_event(LogEvent(run_id, version, event.type, instant(event.at), data))
        except Exception:
            # The event is durable: a mistake in the callback is not a failure of the run.
            logger.exception("on_event raised for %s of run %s", event.type, run_id)
