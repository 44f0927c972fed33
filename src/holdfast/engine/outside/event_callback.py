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


class _Story:
    """The events of one run: those delivered, and those still to deliver."""

    __slots__ = ("after", "ended", "known", "next", "telling", "upto")

    def __init__(self, next_version: int) -> None:
        self.next = next_version
        self.upto = next_version - 1
        self.known: dict[int, NewEvent] = {}
        self.ended = False
        self.telling = False
        self.after: list[Callable[[], None]] = []
        """To be called when all events were delivered."""


class EventCallback:
    """Thread-safe. `on_event` is called with acknowledged events, redacted as for every reader."""

    def __init__(self, engine: Engine, on_event: Callable[[LogEvent], None]) -> None:
        self._engine = engine
        self._on_event = on_event
        self._lock = threading.Lock()
        self._stories: dict[str, _Story] = {}
        self.noted: set[str] = set()
        """Runs with events that were noted and are not delivered yet."""

    def begin(self, run_id: str, after: int) -> None:
        """Tell of this run from the event after this version on, unless that has begun before."""
        with self._lock:
            self._stories.setdefault(run_id, _Story(after + 1))

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
                story = self._stories.get(run_id)
            if story is not None:
                self._report(run_id, story)

    def report_up_to(self, run_id: str, version: int) -> None:
        """Another process has written to a run that is followed: deliver what the log has up to there."""
        with self._lock:
            story = self._stories.get(run_id)
            if story is not None:
                story.upto = max(story.upto, version)
        if story is not None:
            self._report(run_id, story)

    def when_reported(self, run_id: str, call: Callable[[], None]) -> None:
        """Call it once all known events of the run were delivered: now, or in the delivering thread."""
        with self._lock:
            story = self._stories.get(run_id)
            if story is not None and story.telling:
                story.after.append(call)
                return
        call()

    def _take(self, append: Append) -> _Story:
        first = append.version - len(append.events) + 1
        with self._lock:
            story = self._stories.setdefault(append.stream, _Story(first))
            for version, event in enumerate(append.events, first):
                if version >= story.next:
                    story.known[version] = event
            story.upto = max(story.upto, append.version)
        return story

    def _report(self, run_id: str, story: _Story) -> None:
        with self._lock:
            if story.telling:
                return  # that thread delivers these, too
            story.telling = True
        after: list[Callable[[], None]] = []
        try:
            while (one := self._next(run_id, story, after)) is not None:
                self._call(run_id, *one)
        except BaseException:  # Ctrl-C: the next thread continues from here
            with self._lock:
                self._cease(story, after)
            raise
        finally:
            for call in after:
                call()

    def _next(
        self, run_id: str, story: _Story, after: list[Callable[[], None]]
    ) -> tuple[int, NewEvent] | None:
        """The next event, and its version; None if all are delivered: then this thread no longer delivers."""
        while True:
            with self._lock:
                version = story.next
                if version > story.upto:
                    self._cease(story, after)
                    if story.ended:
                        self._stories.pop(run_id, None)
                    return None
                event = story.known.pop(version, None)
                if event is not None:
                    story.next, story.ended = version + 1, event.type in RUN_ENDS
                    return version, event
            self._fill(run_id, story, version)

    @staticmethod
    def _cease(story: _Story, after: list[Callable[[], None]]) -> None:
        story.telling = False
        after += story.after
        story.after = []

    def _fill(self, run_id: str, story: _Story, version: int) -> None:
        """Read the events that no thread has handed in. What cannot be read is left out."""
        found: dict[int, NewEvent] = {}
        try:
            for entry in self._engine.store.entries(run_id, after=version - 1):
                if entry.version > story.upto:
                    break
                found[entry.version] = NewEvent(entry.type, entry.at, entry.payload)
        except StoreError:
            logger.warning("events of run %s from version %d on could not be read", run_id, version)
        with self._lock:
            story.known = {**found, **story.known}
            story.next = min(story.known, default=story.upto + 1)

    def _call(self, run_id: str, version: int, event: NewEvent) -> None:
        data = self._engine.redactor.redact_value(msgspec.json.decode(event.payload))
        try:
            with step_output.unkept():  # this may be the thread of a step's body
                self._on_event(LogEvent(run_id, version, event.type, instant(event.at), data))
        except Exception:
            # The event is durable: a mistake in the callback is not a failure of the run.
            logger.exception("on_event raised for %s of run %s", event.type, run_id)
