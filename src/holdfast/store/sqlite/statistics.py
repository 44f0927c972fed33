"""Statistics of all runs, from the store's tables and its log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

from holdfast.kernel import events as e
from holdfast.kernel.measures import Measured
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.connection import connect, translate
from holdfast.store.sqlite.database_file import size_of
from holdfast.store.statistics import (
    MOST_FAILING,
    FailingStep,
    Outcomes,
    Statistics,
    StepTotals,
    of_measures,
    of_runs,
)

_STATUSES = (
    "running", "retrying", "sleeping", "completed", "failed", "in_doubt", "reopened", "waiting", "abandoned",
)  # fmt: skip


def statistics(path: Path, changed_since: int) -> Statistics:
    """Reads with two connections: most steps are only in the log, and to count them there takes as long
    as everything else together."""
    ran = _StepsThatRan(path, changed_since)
    ran.start()
    db = connect(path)
    try:
        workflows, durations = of_runs(_outcomes(db, changed_since))
        attempts, retried, *counts = db.execute(sql.query("step_totals"), (changed_since,)).get
        values = (changed_since, MOST_FAILING)
        failing = [FailingStep(*row) for row in db.execute(sql.query("failing_steps"), values)]
        events: int = db.execute(sql.query("count_events")).get
    except (apsw.Error, UnicodeDecodeError) as error:
        raise translate(error, path) from None
    finally:
        db.close()
        ran.join()
    by_status = dict(zip(_STATUSES, counts, strict=True))
    count, measured = ran.found()
    by_status["completed"] += count
    steps = StepTotals(attempts + count, retried, {status: n for status, n in by_status.items() if n})
    return Statistics(workflows, durations, steps, failing, events, size_of(path), measured)


def _outcomes(db: apsw.Connection, changed_since: int) -> Iterator[Outcomes]:
    for workflow, status, count, took in db.execute(sql.query("run_totals"), (changed_since,)):
        yield Outcomes(workflow, status, count, msgspec.json.decode(took, type=list[int]))


class _StepsThatRan(threading.Thread):
    """Counts the steps that have no row, and what all steps have used."""

    def __init__(self, path: Path, changed_since: int) -> None:
        super().__init__(name="holdfast-count", daemon=True)
        self._path = path
        self._since = changed_since
        self._found: Any = None

    def run(self) -> None:
        try:
            db = connect(self._path)
            try:
                self._found = db.execute(sql.query("steps_that_ran"), (self._since,)).get
            finally:
                db.close()
        except BaseException as error:
            self._found = error

    def found(self) -> tuple[int, tuple[Measured, ...]]:
        """After `join`. Raises what went wrong."""
        found = self._found
        if isinstance(found, apsw.Error):
            raise translate(found, self._path) from None
        if isinstance(found, BaseException):
            raise found
        count, payloads = found
        events = (e.decode("StepMeasured", text) for text in msgspec.json.decode(payloads, type=list[str]))
        used = (one for event in events if isinstance(event, e.StepMeasured) for one in event.measures)
        return count, of_measures(used)
