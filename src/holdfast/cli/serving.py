"""Going on with every run of a store: `holdfast resume --all`, with `--follow` until it is stopped.

The code of workflows is executed by worker processes (`holdfast.cli.workers`), one for each interpreter and
directory; commands are executed by this one.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import wiring
from holdfast.cli.stopping import INTERRUPTED
from holdfast.errors import CodeNotFound, HoldfastError, NotTrusted, Refused, RunPaused, RunWaiting
from holdfast.kernel.state import ENDED

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.cli.detail import Detail
    from holdfast.cli.terminal import Line
    from holdfast.store.port import OwnerRow, RunRow

FAILED, NEEDS_ATTENTION = 1, 6
_MILD_TO_GRAVE = (0, FAILED, INTERRUPTED, 2, 4, 3, NotTrusted.exit_code, NEEDS_ATTENTION, 70, 8)
_STOPPED = (RunWaiting, RunPaused)
"""What is no failure to go on: the run came to where it has to wait."""


def resume_all(*, follow: bool, as_json: bool, python: str | None = None, root: Path | None = None) -> int:
    """Serve what can go on now; to `follow`, until a signal comes. Where there is no store yet, there is
    nothing to serve yet: `follow` makes it and waits."""
    from holdfast.cli import access
    from holdfast.cli.foreground import Foreground
    from holdfast.cli.interpreter import Interpreters
    from holdfast.cli.terminal import say
    from holdfast.cli.workers import Workers
    from holdfast.engine.runs.serving import Service

    stop = threading.Event()
    with (
        Foreground() as foreground,
        access.open_to_execute(create=follow, root=root, only_missing=True) as (opened, engine),
    ):
        if not engine.options.resume:
            raise Refused(
                "the setting `resume` is off: nothing goes on by itself here; name a run, or change it"
            )
        teller = _Teller(opened, as_json=as_json, follow=follow)

        def served(run_id: str, error: BaseException | None) -> None:
            teller.tell(run_id, error)
            wiring.keep_to_quota(opened.place, engine)

        on_taken = say_taken if follow and not as_json else None
        workers = Workers(
            opened.place.home,
            engine.location,
            Interpreters(python),
            stdout=sys.stderr if as_json else None,
            reports=on_taken is not None,
        )
        service = Service(engine, engine.options.recover_limit, served, workers.resume, on_taken)
        if follow:
            # The owner is born here, so that whoever decides sees that somebody is there to go on.
            who = f"process {os.getpid()} (owner {engine.owner_id})"
            say(f"{who} goes on with the runs of {opened.place.home}; Ctrl-C stops it")

        def halt(why: str) -> None:
            stop.set()
            engine.stop(why)
            workers.stop(why)

        with closing(workers):
            outcome = foreground.wait(lambda: (service.run if follow else service.drain)(stop), halt)
        if outcome.error is not None:
            raise outcome.error
        if not follow and not service.served:
            say("nothing can go on by itself; `holdfast list --resumable` shows what waits for somebody")
    if stop.is_set():
        return 0 if follow else INTERRUPTED
    return teller.code


class _Teller:
    """Says how each run stands that was served, and keeps the worst exit code. Called from any thread."""

    def __init__(self, opened: Opened, *, as_json: bool, follow: bool) -> None:
        self._opened = opened
        self._as_json = as_json
        self._follow = follow
        self.code = 0

    def tell(self, run_id: str, error: BaseException | None) -> None:
        from holdfast.cli.access import clear_progress
        from holdfast.cli.detail import Detail
        from holdfast.cli.ending import sentence
        from holdfast.cli.moments import between
        from holdfast.cli.terminal import complain, out

        clear_progress()
        detail = Detail(self._opened, run_id)
        status = detail.info.status
        self.code = max(self.code, _exit_code(status, error), key=_MILD_TO_GRAVE.index)
        if self._as_json:
            from holdfast.cli.showing import fields

            out.offer_json(fields(detail))
        if status == "completed":
            if not self._as_json:
                took = (
                    f" in {between(detail.info.created_at, detail.info.completed_at)}" if self._follow else ""
                )
                self._say([("completed", "green"), f" {run_id}{took}"])
        elif isinstance(error, CodeNotFound) or _is_unnamed(error, detail):
            complain(f"run {run_id} cannot go on: {error}")
        elif not self._as_json:
            self._say(sentence(detail, error))

    def _say(self, line: Line) -> None:
        from holdfast.cli.terminal import say, typed

        if self._follow:
            timed(typed(line) if isinstance(line, str) else line)
        else:
            say(line)


def timed(line: Line) -> None:
    """One line with the time, for a process that runs for days; what is drawn at the moment goes."""
    from datetime import UTC, datetime

    from holdfast.cli.access import clear_progress
    from holdfast.cli.moments import stamp
    from holdfast.cli.terminal import say

    clear_progress()
    say([(stamp(datetime.now(UTC)), "dim"), "  ", *([line] if isinstance(line, str) else line)])


def say_taken(row: RunRow, held: OwnerRow | None) -> None:
    """This process has taken a run: who held it before."""
    from holdfast.cli.terminal import clean

    if held is not None:
        before = f"process {held.pid} held it, and is gone"
    elif row.owner:
        before = f"owner {row.owner} held it, and is gone"
    else:
        before = {"waiting": "it waited", "sleeping": "it slept"}.get(row.status, "it was ready")
        before = f"nobody held it, {before}"
    timed(f"process {os.getpid()} takes run {row.id} ({clean(row.workflow)}): {before}")


def _is_unnamed(error: BaseException | None, detail: Detail) -> bool:
    """Whether the error gives the reason why the run stopped without naming the run."""
    is_reason = isinstance(error, HoldfastError) and detail.info.status not in ENDED
    return is_reason and detail.info.id not in str(error)


def _exit_code(status: str, error: BaseException | None) -> int:
    """What `resume` of that run alone would end with; 0 if it waits, which is not for a program to end."""
    from holdfast.engine.runs.serving import EndedElsewhere

    if status in ("failed", "cancelled"):
        return FAILED
    if status == "needs_attention":
        return NEEDS_ATTENTION
    if isinstance(error, EndedElsewhere):  # whatever code the workflow's own process has chosen
        return 0 if status == "completed" else FAILED
    if isinstance(error, HoldfastError) and not isinstance(error, _STOPPED):
        return error.exit_code
    return INTERRUPTED if status in ("pending", "running") else 0
