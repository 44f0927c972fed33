"""Statistics of the runs of a store: counts, durations, attempts. Times are microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.kernel.measures import Measured, added

MOST_FAILING = 10


class Outcomes(NamedTuple):
    """The runs of a workflow that have one status. `took`, if they completed: the time of each from its
    creation to its end."""

    workflow: str
    status: str
    runs: int
    took: list[int]


class Durations(msgspec.Struct, frozen=True):
    """Of completed runs. A percentile is the smallest duration that so many of them do not exceed."""

    count: int = 0
    p50: int = 0
    p95: int = 0
    longest: int = 0


class WorkflowTotals(msgspec.Struct, frozen=True):
    workflow: str
    by_status: dict[str, int]
    durations: Durations

    @property
    def runs(self) -> int:
        return sum(self.by_status.values())


class StepTotals(msgspec.Struct, frozen=True):
    """Steps of live histories. `retried`: with more than one attempt."""

    attempts: int = 0
    retried: int = 0
    by_status: dict[str, int] = {}

    @property
    def steps(self) -> int:
        return sum(self.by_status.values())


class FailingStep(msgspec.Struct, frozen=True):
    """All steps of one name in one workflow, of which some attempts failed or were cut off."""

    workflow: str
    name: str
    steps: int
    lost_attempts: int
    failed: int


class Statistics(msgspec.Struct, frozen=True):
    """`workflows` and `failing` begin with the largest; `events` and `size` (bytes) are the whole store's.
    `measured` is what the runs have used, one for each model, also before a rewind."""

    workflows: list[WorkflowTotals]
    durations: Durations
    steps: StepTotals
    failing: list[FailingStep]
    events: int
    size: int
    measured: tuple[Measured, ...] = ()


def of_runs(outcomes: Iterable[Outcomes]) -> tuple[list[WorkflowTotals], Durations]:
    """The totals of each workflow, and the durations of all completed runs."""
    counts: dict[str, dict[str, int]] = {}
    completed: dict[str, list[int]] = {}
    for one in outcomes:
        of_status = counts.setdefault(one.workflow, {})
        of_status[one.status] = of_status.get(one.status, 0) + one.runs
        completed.setdefault(one.workflow, []).extend(one.took)
    totals = [WorkflowTotals(name, counts[name], durations(took)) for name, took in completed.items()]
    totals.sort(key=lambda one: (-one.runs, one.workflow))
    return totals, durations([took for of_one in completed.values() for took in of_one])


def of_measures(measures: Iterable[Measured]) -> tuple[Measured, ...]:
    """The sum of each model, by its name."""
    return tuple(sorted(added((), measures), key=lambda one: one.model))


def durations(took: list[int]) -> Durations:
    """Sorts `took` in place."""
    if not took:
        return Durations()
    took.sort()
    return Durations(len(took), _percentile(took, 50), _percentile(took, 95), took[-1])


def _percentile(ordered: Sequence[int], percent: int) -> int:
    return ordered[-(-len(ordered) * percent // 100) - 1]
