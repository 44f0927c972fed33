"""A plan while a run executes it: its graph on a terminal, lines in a pipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.cli.drawing import plan_graph
from holdfast.cli.drawing.moments import between
from holdfast.cli.drawing.picture import Picture
from holdfast.cli.drawing.progress import LiveProgress
from holdfast.cli.drawing.terminal import Line, clean, json_text, out
from holdfast.clock import instant
from holdfast.views.records import iso

if TYPE_CHECKING:
    from holdfast import LogEvent
    from holdfast.plans import Plan
    from holdfast.views.records import StepInfo
    from holdfast.views.run_detail import RunDetail

WIDEST = 160
_WORST_FIRST = ("failed", "in_doubt", "running", "retrying", "waiting", "sleeping")
REPLACES = frozenset({"Rewound", "GenerationRestored"})
"""The events that replace the history of their run."""


class PlanStatuses:
    """The status of each step of a plan: the worst of what is in its scope."""

    def __init__(self, steps: Iterable[StepInfo] = ()) -> None:
        self._of_key: dict[str, str] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._changed_us: dict[str, int] = {}
        for step in steps:
            self.see(step)

    def see(self, step: StepInfo) -> str:
        """Take in a step of the run; the id of the plan step that it belongs to, or nothing."""
        scope, slash, _ = step.key.partition("/")
        if not slash:
            return ""
        id = scope.partition("[")[0]
        status = "failed" if step.outcome in ("rejected", "unanswered") else step.status
        counts = self._counts.setdefault(id, Counter())
        if step.key in self._of_key:
            counts[self._of_key[step.key]] -= 1
        counts[status] += 1
        self._of_key[step.key] = status
        self._changed_us[id] = max(self._changed_us.get(id, 0), step.started_us, step.ended_us)
        return id

    def of(self, id: str) -> str:
        """Empty for a step that has not begun."""
        counts = self._counts.get(id)
        return "" if counts is None else next((one for one in _WORST_FIRST if counts[one]), "completed")

    def changed_at(self, id: str) -> datetime | None:
        """When something in its scope last began or ended; None for a step that has not begun."""
        at = self._changed_us.get(id, 0)
        return instant(at) if at else None

    def all_of(self, plan: Plan, *, completed: bool) -> dict[str, str]:
        """Of the steps that have begun. If the run has completed, the others were skipped."""
        found = {step.id: self.of(step.id) for step in plan.steps}
        return {id: status or "skipped" for id, status in found.items() if status or completed}


class PlanLines:
    """In a pipe: one line for each change of a plan step's status."""

    def __init__(self, plan: Plan, *, as_json: bool = False) -> None:
        self._plan = plan
        self._as_json = as_json
        self._picture = Picture()
        self._run_id = ""
        self._told: dict[str, str] = {}
        """The status of each plan step that was printed last."""

    def show(self, detail: RunDetail, title: str = "") -> None:  # noqa: ARG002
        """The run as it is now: a line for each step that has begun, or is not as it was printed."""
        self._run_id = detail.id
        self._picture.know(detail.id, detail.steps)
        self._statuses = PlanStatuses(detail.steps)
        found = self._statuses.all_of(self._plan, completed=detail.status == "completed")
        for step in self._plan.steps:
            self._print(step.id, found.get(step.id, ""))

    def on_event(self, event: LogEvent) -> None:
        step = self._picture.see(event) if event.run_id == self._run_id else None
        id = "" if step is None else self._statuses.see(step)
        if step is None or not id:
            return
        status = self._statuses.of(id)
        words = f": {clean(step.note)}" if status in ("failed", "in_doubt", "retrying") and step.note else ""
        if status == "completed" and step.started_at is not None:
            words = f" in {between(step.started_at, step.ended_at)}"
        self._print(id, status, words)

    def end(self, detail: RunDetail) -> None:
        """The run has ended or stopped: steps that did not begin were skipped if it has completed."""
        for id, status in self._statuses.all_of(self._plan, completed=detail.status == "completed").items():
            self._print(id, status)

    def _print(self, id: str, status: str, words: str = "") -> None:
        known = self._told.get(id, "")
        if status == known:
            return
        self._told[id] = status
        status = status or "pending"
        if self._as_json:
            at = iso(self._statuses.changed_at(id))
            out.json_text(json_text({"step": id, "status": status, "at": at}) + "\n")
        else:
            out.line(f"{clean(id)} {status.replace('_', ' ')}{words}")


class PlanProgress(LiveProgress):
    """On a terminal: the graph, drawn again in its place; at the end it stays, on standard output."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(whole=False)
        self._plan = plan
        self._rows = list(plan_graph.rows(plan))
        self._statuses = PlanStatuses()
        self._completed = False

    def show(self, detail: RunDetail, title: str = "") -> None:
        """The run as it is now; with a title where it begins."""
        with self._lock:
            self._picture.know(detail.id, detail.steps)
            self._statuses = PlanStatuses(detail.steps)
            self._completed = detail.status == "completed"
        if title:
            self.begin(detail.id, title, detail.steps)

    def _take(self, event: LogEvent) -> None:
        step = self._picture.see(event)
        if step is not None and event.run_id == self._run_id:
            self._statuses.see(step)

    def end(self, detail: RunDetail) -> None:
        """The run has ended or stopped: the whole graph as it is then."""
        self._live.stop()
        self._completed = detail.status == "completed"
        out.lines(self._graph(min(out.width, WIDEST)))

    def _lines(self, most: int, *, stopped: bool = False, spinner: str = "") -> list[Line]:  # noqa: ARG002
        lines = self._graph(min(self._console.width - 4, WIDEST), spinner)
        return plan_graph.window(lines, self._rows, self._found(), most)

    def _graph(self, width: int, spinner: str = "") -> list[Line]:
        return list(
            plan_graph.lines(
                self._plan, width, self._found(), unicode=self._unicode, spinner=spinner, drawn=self._rows
            )
        )

    def _found(self) -> dict[str, str]:
        with self._lock:
            return self._statuses.all_of(self._plan, completed=self._completed)
