"""The events of a run as they are written, whichever process executes it.

It reads the run's own stream, not the feed: the feed shows only events that are synced to the disk, and what
a step emits is synced with the end of the step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.kernel.events import RUN_ENDS
from holdfast.kernel.state import ENDED

if TYPE_CHECKING:
    from holdfast.engine.outside.records import LogEvent
    from holdfast.views.reader import Reader
    from holdfast.views.records import LogLine, RunInfo
    from holdfast.views.run_detail import RunDetail

_LOOK_EVERY_S = 0.05
_OWNER_EVERY_S = 0.5
"""How often to look whether the owner is alive, which no log records. It counts as dead when it is found dead
twice in a row."""


class FollowedRun:
    """The events of a run and of its child runs, until it stops or needs a person."""

    def __init__(self, reader: Reader, run: RunDetail, after: int | None = None) -> None:
        """The events after the version `after`; without it, from now on."""
        self._reader = reader
        self._run_id = run.id
        self._seen = {run.id: run.version if after is None else after}
        """Each run that is followed → the version up to which it was read."""
        self._over: set[str] = set()
        """Child runs that have ended."""
        for step in run.steps:
            if step.child and step.status not in ("completed", "failed"):
                self._seen[step.child] = 0

    def events(self) -> Iterator[LogEvent]:
        pulse: int | None = None
        owner_due, lost = 0.0, False
        while True:
            changed = (now := self._reader.pulse()) != pulse
            if changed or time.monotonic() >= owner_due:
                pulse, owner_due = now, time.monotonic() + _OWNER_EVERY_S
                info = self._reader.info(self._run_id)  # before its events: those of its end are still read
                yield from self._news()
                if _is_over(info) or (info.interrupted and lost and not changed):
                    return
                lost = info.interrupted
            time.sleep(_LOOK_EVERY_S)

    def _news(self) -> Iterator[LogEvent]:
        runs = [run_id for run_id in self._seen if run_id not in self._over]
        for run_id in runs:
            for event in self._reader.events(run_id, after=self._seen[run_id]):
                self._seen[run_id] = event.version
                yield event
                if child := event.data.get("child"):
                    self._seen.setdefault(child, 0)
                    self._over.discard(child)
                    runs.append(child)
                if event.type in RUN_ENDS and run_id != self._run_id:
                    self._over.add(run_id)


def output(reader: Reader, run_id: str, step: str | None = None, after: int = 0) -> Iterator[LogLine]:
    """The output of the run, until it stops or needs a person."""
    while True:
        info = reader.info(run_id)  # before its output: what it printed at its end is still to be read
        for line in reader.logs(run_id, step, after):
            yield line
            after = line.version
        if not may_print(info):
            return
        time.sleep(_LOOK_EVERY_S)


def may_print(info: RunInfo) -> bool:
    """Whether the run may print more without a person."""
    return not _is_over(info) and not info.interrupted


def _is_over(info: RunInfo) -> bool:
    """Whether it continues only if a person does something."""
    if info.status == "waiting":
        return info.owner_pid is None
    return info.status in (*ENDED, "paused", "needs_attention")
