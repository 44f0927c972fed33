"""The usage of one run, step by step. Each total is the sum of its rows.

Everything in the log counts, also what a rewind has left, because it was used. An attempt that was cut off
counts as one attempt without a duration, because its end is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.json_view import View
from holdfast.kernel import events as e
from holdfast.kernel.measures import Measured, added, as_data

if TYPE_CHECKING:
    from holdfast.views.run_detail import RunDetail

CountFiles = Callable[[e.FilesSaved, e.FilesSaved], int | None]
"""How many files differ between two snapshots; None if that is not known any more."""

_ENDS = (e.StepCompleted, e.StepAttemptFailed, e.StepFailed, e.StepInDoubt)
_LOST = (e.StepAttemptFailed, e.StepFailed, e.StepInDoubt)
_WAITS = (e.SleepEnded, e.GateDecided, e.WaitAbandoned)


class Used(msgspec.Struct, frozen=True):
    """Usage. Times are microseconds.

    lost           attempts that failed, were cut off or are in doubt
    duration       of attempts that ended
    waited         in sleeps, at gates and for child runs
    output         bytes printed, redacted, as far as the log keeps them
    result         bytes of results
    files          files changed, each attempt counted by itself
    files_unknown  attempts of which that is not known any more: their snapshots were collected
    """

    attempts: int = 0
    lost: int = 0
    duration: int = 0
    waited: int = 0
    output: int = 0
    result: int = 0
    files: int = 0
    files_unknown: int = 0
    measured: tuple[Measured, ...] = ()

    JSON: ClassVar = {
        "attempts": "attempts that began",
        "lost_attempts": "those that failed, were cut off or are in doubt",
        "duration_s": "seconds in attempts that ended; attempts side by side count both",
        "waited_s": "seconds in sleeps, at gates and for child runs",
        "output_bytes": "what was printed, as far as the log keeps it",
        "result_bytes": "results",
        "files_changed": "files that the attempts changed, each counted by itself",
        "files_unknown": "attempts of which that is not known any more: their snapshots were collected",
        "measured": "what was used, an object for each model, as a step's",
    }

    def plus(self, other: Used) -> Used:
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__[:-1]}
        return Used(measured=added(self.measured, other.measured), **sums)

    def to_json(self) -> dict[str, Any]:
        return {
            "attempts": self.attempts,
            "lost_attempts": self.lost,
            "duration_s": self.duration / 1e6,
            "waited_s": self.waited / 1e6,
            "output_bytes": self.output,
            "result_bytes": self.result,
            "files_changed": self.files,
            "files_unknown": self.files_unknown,
            "measured": as_data(self.measured),
        }


NOTHING = Used()


def total(usages: Iterable[Used]) -> Used:
    found = NOTHING
    for one in usages:
        found = found.plus(one)
    return found


class StepUsed(msgspec.Struct, frozen=True):
    """One step. `live`: it belongs to the run's history as it is; otherwise a rewind has left it."""

    key: str
    name: str
    kind: str
    status: str
    live: bool
    usage: Used

    JSON: ClassVar = {
        "key": "its identity in the run",
        "name": "the last part of that",
        "kind": "what kind of step it is",
        "status": "its status; null if a rewind has left it",
        "live": "false: a rewind has left it",
        **Used.JSON,
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "name": self.name,
            "kind": self.kind,
            "status": self.status or None,
            "live": self.live,
            **self.usage.to_json(),
        }


class ChildUsed(msgspec.Struct, frozen=True):
    """A child run, with its own children."""

    id: str
    workflow: str
    status: str
    usage: Used

    JSON: ClassVar = {
        "id": "the child run",
        "workflow": "its workflow",
        "status": "its status",
        **Used.JSON,
    }

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "workflow": self.workflow, "status": self.status, **self.usage.to_json()}


class RunStatistics(View, frozen=True):
    """The usage of a run: by its steps in the order of their first start, by its child runs, and in all.

    executed_s  how long the run was executed, from each claim to its release
    elapsed_s   from its creation to its end, or to its last change
    """

    id: str
    workflow: str
    title: str
    status: str
    created_at: datetime
    elapsed_s: float
    executed_s: float
    steps: tuple[StepUsed, ...]
    children: tuple[ChildUsed, ...] = ()

    JSON: ClassVar = {
        "run": "the run",
        "workflow": "its workflow",
        "status": "its status",
        "created_at": "when it was created",
        "elapsed_s": "seconds from its creation to its end, or to its last change",
        "executed_s": "seconds in which it was executed",
        "steps": "each step, in the order of the first start: `key`, `name`, `kind`, `status`, `live` "
        "(false: a rewind has left it), and the fields of `total`",
        "children": "each child run: `id`, `workflow`, `status`, and the fields of `total`, its own children "
        "included",
        "total": "the sum of `steps`: `attempts`, `lost_attempts`, `duration_s`, `waited_s`, `output_bytes`, "
        "`result_bytes`, `files_changed`, `files_unknown`, `measured`",
        "overall": "the sum of `total` and of `children`",
    }
    JSON_FROM: ClassVar = {"run": "id"}

    @property
    def total(self) -> Used:
        """The sum of the steps."""
        return total(step.usage for step in self.steps)

    @property
    def overall(self) -> Used:
        """The same with the child runs."""
        return total((self.total, *(child.usage for child in self.children)))


def run_statistics(run: RunDetail, count_files: CountFiles) -> RunStatistics:
    """`count_files` is asked for each attempt that had the files."""
    return RunStatistics(
        run.id, run.workflow, run.title, run.status, run.created_at,
        ((run.ended_at or run.updated_at) - run.created_at).total_seconds(), run.executed_s(),
        tuple(_Folding(run, count_files).rows()), tuple(_children(run, count_files)),
    )  # fmt: skip


def _children(run: RunDetail, count_files: CountFiles) -> Iterable[ChildUsed]:
    for child in run.children():
        found = run_statistics(child, count_files)
        yield ChildUsed(child.id, child.workflow, child.status, found.overall)


class _Folding:
    """One pass over the history."""

    def __init__(self, run: RunDetail, count_files: CountFiles) -> None:
        self._run = run
        self._count_files = count_files
        self._steps: dict[str, Used] = {}
        self._about: dict[str, tuple[str, str]] = {}
        self._begun: dict[str, int] = {}
        self._waits: dict[str, int] = {}
        self._before: dict[str, e.FilesSaved] = {}
        self._brought: dict[str, e.FilesSaved] = {}

    def rows(self) -> Iterable[StepUsed]:
        for event, _, at in self._run.recorded:
            self._take(event, at)
        for line in self._run.output():
            self._add(line.step, Used(output=len(line.text.encode())))
        for key in self._begun:  # cut off, or under way
            self._add(key, Used(lost=0 if self._is_running(key) else 1))
        live = self._run.state.steps
        for key, usage in self._steps.items():
            name, kind = self._about.get(key, ("", "step"))
            step = live.get(key)
            status = "" if step is None else step.status
            yield StepUsed(key, self._run.redact(name), kind, status, step is not None, usage)

    def _is_running(self, key: str) -> bool:
        step = self._run.state.steps.get(key)
        return step is not None and step.status == "running" and self._run.owner_pid is not None

    def _take(self, event: e.Event, at: int) -> None:
        if isinstance(event, e.StepStarted):
            self._about[event.key] = event.name, event.kind
            cut_off = event.key in self._begun
            self._begun[event.key] = at
            self._add(event.key, Used(attempts=1, lost=int(cut_off)))
        elif isinstance(event, e.StepRan):
            self._about[event.key] = event.name, "step"
            took = max(0, at - event.started_at)
            self._add(event.key, Used(attempts=1, duration=took, result=self._size(event.result, event.blob)))
        elif isinstance(event, _ENDS):
            self._end(event, at)
        elif isinstance(event, (e.SleepStarted, e.GateOpened)):
            gate = (event.name, event.kind) if isinstance(event, e.GateOpened) else None
            self._about[event.key] = gate or ("sleep", "sleep")
            self._waits[event.key] = at
            self._add(event.key, Used(attempts=1))
        elif isinstance(event, _WAITS):
            since = self._waits.pop(event.key, at)
            self._add(event.key, Used(waited=max(0, at - since)))
        elif isinstance(event, e.StepMeasured):
            self._add(event.key, Used(measured=added((), event.measures)))
        elif isinstance(event, e.FilesSaved) and event.key:
            self._take_files(event)

    def _end(self, event: e.Event, at: int) -> None:
        key: str = event.key  # type: ignore[attr-defined]
        begun = self._begun.pop(key, at)
        size = self._size(event.result, event.blob) if isinstance(event, e.StepCompleted) else 0
        took = max(0, at - begun)
        is_child = self._about.get(key, ("", ""))[1] == "child"
        lost = int(isinstance(event, _LOST))
        spent = Used(lost=lost, waited=took) if is_child else Used(lost=lost, duration=took)
        self._add(key, spent.plus(Used(result=size)))

    def _take_files(self, saved: e.FilesSaved) -> None:
        """Count the files that differ between the snapshots before and after an attempt; for an attempt in a
        copy, between the snapshot before it and the one of the files that it brought."""
        key = saved.key
        if saved.place == "before":
            self._before[key] = saved
            self._brought.pop(key, None)
        elif saved.place == "brought":
            self._brought[key] = saved
        elif saved.place == "after" and key in self._before:
            count = self._count_files(self._before.pop(key), self._brought.pop(key, saved))
            self._add(key, Used(files=count or 0, files_unknown=int(count is None)))

    def _size(self, inline: msgspec.Raw, blob: str) -> int:
        return len(self._run.blob(blob)) if blob else len(bytes(inline))

    def _add(self, key: str, usage: Used) -> None:
        self._steps[key] = self._steps.get(key, NOTHING).plus(usage)
