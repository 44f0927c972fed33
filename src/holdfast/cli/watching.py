"""`holdfast watch`: a run as it goes on, whoever executes it.

What is read is the run's own stream, not the feed: that shows only what is on the disk for good, and what a
step emits gets there with the step's end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli import access
from holdfast.cli.detail import Detail
from holdfast.cli.ending import exit_code, tell
from holdfast.cli.progress import make_progress
from holdfast.cli.stopping import INTERRUPTED
from holdfast.cli.terminal import out, say
from holdfast.kernel.state import ENDED

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.engine.outside.records import LogEvent, RunInfo

_LOOK_EVERY_S = 0.05
_OWNER_EVERY_S = 0.5
"""That a process died is in no log: it is looked for this often, and believed when it is seen twice."""
_OVER = ("RunCompleted", "RunFailed", "RunCancelled")


@click.command("watch")
@click.argument("run")
@click.option("--logs", "with_logs", is_flag=True, help="What its commands print, too.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a JSON object on a line.")
def watch_command(run: str, with_logs: bool, as_json: bool) -> int:
    """Watch RUN, of whatever process, until it ends or waits for somebody.

    On a terminal: the tree of its steps, and below it what it emits. In a pipe: a line for each change.
    The exit code is the one that `holdfast resume` would end with.
    """
    with access.open_to_read() as opened:
        detail = Detail(opened, run)
        if as_json:
            try:
                for event in Following(opened, detail, whole=True).events():
                    out.json_text(msgspec.json.encode(_fields(event)).decode() + "\n")
            except KeyboardInterrupt:
                return _left(opened, detail.info.id)
            return exit_code(opened.run(detail.info.id).status)
        following = Following(opened, detail)
        progress = make_progress(whole=False)
        progress.begin(detail.info.id, _title(detail), detail.steps)
        interrupted = False
        try:
            for event in following.events():
                if event.type == "OutputCaptured" and with_logs:
                    data = event.data
                    progress.on_output(event.run_id, data["key"], data["source"], data["text"])
                else:
                    progress.on_event(event)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            progress.close(stopped=opened.run(detail.info.id).owner_pid is None)
        if interrupted:
            return _left(opened, detail.info.id)
        return tell(opened, detail.info.id, None, as_json=False)


def _left(opened: Opened, run_id: str) -> int:
    """Ctrl-C ends the watching, not the run."""
    goes_on = f"; run {run_id} continues" if opened.run(run_id).owner_pid else ""
    say(f"stopped watching{goes_on}")
    return INTERRUPTED


class Following:
    """The events of a run and of its child runs as they are written, until nobody adds to them by itself."""

    def __init__(self, opened: Opened, detail: Detail, *, whole: bool = False) -> None:
        """From now on, or `whole`: from its first event."""
        self._opened = opened
        self._run_id = detail.info.id
        self._seen = {self._run_id: 0 if whole else detail.state.version}
        """Each run that is followed → the version up to which it was read."""
        self._over: set[str] = set()
        """Child runs that have ended."""
        for step in detail.steps:
            if step.child and step.status not in ("completed", "failed"):
                self._seen[step.child] = 0

    def events(self) -> Iterator[LogEvent]:
        pulse: int | None = None
        owner_due, lost = 0.0, False
        while True:
            changed = (now := self._opened.store.pulse()) != pulse
            if changed or time.monotonic() >= owner_due:
                pulse, owner_due = now, time.monotonic() + _OWNER_EVERY_S
                info = self._opened.run(self._run_id)  # before its events: what came at its end is still read
                yield from self._news()
                if _is_over(info) or (info.interrupted and lost and not changed):
                    return
                lost = info.interrupted
            time.sleep(_LOOK_EVERY_S)

    def _news(self) -> Iterator[LogEvent]:
        runs = [run_id for run_id in self._seen if run_id not in self._over]
        for run_id in runs:
            for event in self._opened.reading.events(run_id, after=self._seen[run_id]):
                self._seen[run_id] = event.version
                yield event
                if child := event.data.get("child"):
                    self._seen.setdefault(child, 0)
                    self._over.discard(child)
                    runs.append(child)
                if event.type in _OVER and run_id != self._run_id:
                    self._over.add(run_id)


def _is_over(info: RunInfo) -> bool:
    """Whether it goes on only if somebody does something."""
    if info.status == "waiting":
        return info.owner_pid is None
    return info.status in (*ENDED, "paused", "needs_attention")


def _title(detail: Detail) -> str:
    who = f" in process {detail.info.owner_pid}" if detail.info.owner_pid else ""
    return f"run {detail.info.id}: {detail.info.workflow} is {detail.status.replace('_', ' ')}{who}"


def _fields(event: LogEvent) -> dict[str, object]:
    """The stable fields of an event in JSON."""
    return {
        "run": event.run_id,
        "version": event.version,
        "type": event.type,
        "at": event.at.isoformat(),
        "data": event.data,
    }
