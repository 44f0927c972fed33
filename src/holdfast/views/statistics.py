"""Statistics of the runs of a store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.kernel.measures import Measured as Measured
from holdfast.kernel.measures import as_data
from holdfast.store.statistics import Durations as Durations
from holdfast.store.statistics import FailingStep as FailingStep
from holdfast.store.statistics import StepTotals as StepTotals
from holdfast.store.statistics import WorkflowTotals as WorkflowTotals
from holdfast.views.records import iso

if TYPE_CHECKING:
    from holdfast.views.reader import Reader


class Statistics(msgspec.Struct, frozen=True):
    """Counts, durations and attempts. Times are microseconds; `workflows` and `failing` begin with the
    largest; `events` and `size` (bytes) are those of the whole store.

    interrupted  runs that have not ended and have no live owner; they are among the others, too
    """

    since: datetime | None
    workflows: list[WorkflowTotals]
    durations: Durations
    steps: StepTotals
    failing: list[FailingStep]
    interrupted: int
    path: str
    events: int
    size: int
    measured: tuple[Measured, ...] = ()

    JSON: ClassVar = {
        "since": "what `--since` was, or null",
        "runs": "`total`, `by_status`, and how many of them are `interrupted`",
        "durations": "of completed runs from creation to end: `count`, `p50_s`, `p95_s`, `max_s` (null if "
        "there is "
        "none)",
        "workflows": "`workflow`, `total`, `by_status`, `durations`; the one with most runs first",
        "steps": "`total`, `by_status`, `attempts`, `retried` (steps with more than one attempt)",
        "failing_steps": "the ten worst: `workflow`, `step` (a name), `steps`, `lost_attempts` (that "
        "failed or were "
        "cut off), `failed` (steps that are failed now)",
        "measured": "what steps used, an object for each model, as a step's",
        "store": "`path`, `bytes`, `events`",
    }

    @property
    def by_status(self) -> dict[str, int]:
        """Runs by their status, the largest number first."""
        counts: dict[str, int] = {}
        for one in self.workflows:
            for status, n in one.by_status.items():
                counts[status] = counts.get(status, 0) + n
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def to_json(self) -> dict[str, Any]:
        return {
            "since": iso(self.since),
            "runs": {
                "total": sum(one.runs for one in self.workflows),
                "by_status": self.by_status,
                "interrupted": self.interrupted,
            },
            "durations": _durations(self.durations),
            "workflows": _workflows(self.workflows),
            "steps": {
                "total": self.steps.steps,
                "by_status": self.steps.by_status,
                "attempts": self.steps.attempts,
                "retried": self.steps.retried,
            },
            "failing_steps": [
                {
                    "workflow": one.workflow,
                    "step": one.name,
                    "steps": one.steps,
                    "lost_attempts": one.lost_attempts,
                    "failed": one.failed,
                }
                for one in self.failing
            ],
            "measured": as_data(self.measured),
            "store": {"path": self.path, "bytes": self.size, "events": self.events},
        }


def statistics(reader: Reader, path: str, since: datetime | None) -> Statistics:
    found = reader.statistics(since)
    interrupted = reader.page(status=("interrupted",), since=since, limit=0).total
    return Statistics(
        since,
        found.workflows,
        found.durations,
        found.steps,
        found.failing,
        interrupted,
        path,
        found.events,
        found.size,
        found.measured,
    )


def _workflows(workflows: Sequence[WorkflowTotals]) -> list[dict[str, Any]]:
    return [
        {
            "workflow": one.workflow,
            "total": one.runs,
            "by_status": one.by_status,
            "durations": _durations(one.durations),
        }
        for one in workflows
    ]


def _durations(found: Durations) -> dict[str, Any]:
    """Seconds; null where no run has completed."""
    seconds = [us / 1e6 if found.count else None for us in (found.p50, found.p95, found.longest)]
    return {"count": found.count, **dict(zip(("p50_s", "p95_s", "max_s"), seconds, strict=True))}
