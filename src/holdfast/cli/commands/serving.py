"""Resuming every run of a store: `holdfast resume --all`, with `--follow` until it is stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.stopping import INTERRUPTED
from holdfast.errors import CodeNotFound, EndedElsewhere, HoldfastError, NotTrusted, RunPaused, RunWaiting
from holdfast.views.records import UNDONE

if TYPE_CHECKING:
    from holdfast import Taken
    from holdfast.cli.drawing.terminal import Line
    from holdfast.views.run_detail import RunDetail

FAILED, NEEDS_ATTENTION = 1, 6
_MILD_TO_GRAVE = (0, FAILED, INTERRUPTED, 2, 4, 3, NotTrusted.exit_code, NEEDS_ATTENTION, 70, 8)
_STOPPED = (RunWaiting, RunPaused)
"""Exit codes that are no failure: the run came to where it has to wait."""


def resume_all(*, follow: bool, as_json: bool, python: str | None = None, root: Path | None = None) -> int:
    """Serve what can continue now; to `follow`, until a signal comes. Where there is no store yet, there is
    nothing to serve yet: `follow` makes it and waits."""
    from holdfast.cli import access
    from holdfast.cli.code_options import print_note
    from holdfast.cli.drawing.terminal import say
    from holdfast.cli.foreground import Foreground

    with Foreground() as foreground, access.open_to_execute(create=follow) as hf:
        report = _Report(as_json=as_json, follow=follow)

        def started(owner: str) -> None:
            say(f"process {os.getpid()} (owner {owner}) serves the runs of {hf.home}; Ctrl-C stops it")

        outcome = foreground.wait(
            lambda: hf.serve(
                follow=follow,
                python=python,
                root=root,
                on_started=started if follow else None,
                on_served=report.served,
                on_taken=say_taken if follow and not as_json else None,
                on_note=print_note,
                stdout=sys.stderr if as_json else None,
            ),
            hf.stop,
        )
        if outcome.error is not None:
            raise outcome.error
        if not follow and not outcome.value.count:
            say("nothing can continue by itself; `holdfast list --resumable` shows what waits for a person")
    if outcome.value.stopped:
        return 0 if follow else INTERRUPTED
    return report.code


class _Report:
    """Prints how each run stands that was served, and keeps the worst exit code. Called from any thread."""

    def __init__(self, *, as_json: bool, follow: bool) -> None:
        self._as_json = as_json
        self._follow = follow
        self.code = 0

    def served(self, detail: RunDetail, error: BaseException | None) -> None:
        from holdfast.cli.access import clear_progress
        from holdfast.cli.drawing.moments import between
        from holdfast.cli.drawing.terminal import complain, out
        from holdfast.cli.ending import sentence

        clear_progress()
        status = detail.status
        self.code = max(self.code, _exit_code(status, error), key=_MILD_TO_GRAVE.index)
        if self._as_json:
            out.offer_json(detail.to_json())
        if status == "completed":
            if not self._as_json:
                took = f" in {between(detail.created_at, detail.ended_at)}" if self._follow else ""
                self._say([("completed", "green"), f" {detail.id}{took}"])
        elif isinstance(error, CodeNotFound) or _is_unnamed(error, detail):
            complain(f"run {detail.id} cannot continue: {error}")
        elif not self._as_json:
            self._say(sentence(detail, error))

    def _say(self, line: Line) -> None:
        from holdfast.cli.drawing.terminal import say, typed

        if self._follow:
            timed(typed(line) if isinstance(line, str) else line)
        else:
            say(line)


def timed(line: Line) -> None:
    """One line with the time, for a process that runs for days; what is drawn at the moment is cleared."""
    from datetime import UTC, datetime

    from holdfast.cli.access import clear_progress
    from holdfast.cli.drawing.moments import stamp
    from holdfast.cli.drawing.terminal import say

    clear_progress()
    say([(stamp(datetime.now(UTC)), "dim"), "  ", *([line] if isinstance(line, str) else line)])


def say_taken(taken: Taken) -> None:
    """Print which process has taken a run, and who held it before."""
    from holdfast.cli.drawing.terminal import clean

    if taken.owner_pid is not None:
        before = f"process {taken.owner_pid} held it, and is gone"
    elif taken.owner:
        before = f"owner {taken.owner} held it, and is gone"
    else:
        before = {"waiting": "it waited", "sleeping": "it slept"}.get(taken.status, "it was ready")
        before = f"no process held it, {before}"
    timed(f"process {taken.pid} takes run {taken.run_id} ({clean(taken.workflow)}): {before}")


def _is_unnamed(error: BaseException | None, detail: RunDetail) -> bool:
    """Whether the error gives the reason why the run stopped without naming the run."""
    is_reason = isinstance(error, HoldfastError) and not detail.ended
    return is_reason and detail.id not in str(error)


def _exit_code(status: str, error: BaseException | None) -> int:
    """The exit code of `resume` of that run alone; 0 if it waits, which no program can change."""
    if status in UNDONE:
        return FAILED
    if status == "needs_attention":
        return NEEDS_ATTENTION
    if isinstance(error, EndedElsewhere):  # whatever code the workflow's own process has chosen
        return 0 if status == "completed" else FAILED
    if isinstance(error, HoldfastError) and not isinstance(error, _STOPPED):
        return error.exit_code
    return INTERRUPTED if status in ("pending", "running") else 0
