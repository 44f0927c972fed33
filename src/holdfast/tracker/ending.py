"""Completing a task: its checks first, then one command that sees whether the claim still holds, and whether
the tasks that it needs are completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import BadInput, Refused, TaskNotFound
from holdfast.kernel import task as tasks
from holdfast.kernel import task_rules
from holdfast.kernel.author import Author
from holdfast.kernel.task import TaskState
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, new_event
from holdfast.tracker.blockers import OpenTask, blockers, open_of, sources
from holdfast.tracker.checks import run_checks
from holdfast.tracker.edit_record import edit_decision, edit_source
from holdfast.tracker.tracker import Tracker, missing


def complete(
    tracker: Tracker,
    task: str,
    number: int | None = None,
    *,
    summary: str = "",
    evidence: Any = None,
    unchecked: str | None = None,
    anyway: str | None = None,
) -> TaskState:
    """Complete a task; the same claim may do so twice. Raises `CheckFailed`, `ClaimLost`, `TaskHeld`, and
    `Refused` if it needs what is open. With `unchecked`, which says why, no check is run; with `anyway`,
    which says why, open tasks that it needs do not count. The reasons are recorded."""
    for name, reason in (("unchecked", unchecked), ("anyway", anyway)):
        if reason is not None and not reason.strip():
            raise BadInput(f"{name} needs a reason, which is recorded with the task")
    author = tracker.author()
    given = tracker.redacted({"summary": summary, "evidence": evidence, "unchecked": unchecked or ""})
    why = tracker.redacted(anyway or "")
    while True:
        state = tracker.load(task)
        # Before the checks: what is refused anyway need not wait for them.
        if task_rules.complete(task, state, number, author, **given) is None:
            return state
        version, needed = blockers(tracker, task)
        if not why:
            _refuse_open(task, open_of(needed, [tracker.store.load(tasks.stream_of(one)) for one in needed]))
        checks = () if unchecked else state.fields.checks
        run_checks(tracker, task, checks)
        made = _Completing(tracker, author, task, number, given, why, None if unchecked else checks, needed)
        whole = [Source(tasks.stream_of(task)), edit_source(tracker.clock), *sources(version, needed)]
        try:
            tracker.store.command_all(whole, made.decide)
        except TaskNotFound:
            raise missing(tracker.store, task) from None
        if made.after is not None:
            return made.after


class _Completing:
    """One attempt to complete a task; `after` stays None if its checks or its links have changed since they
    were read."""

    def __init__(
        self,
        tracker: Tracker,
        author: Author,
        task: str,
        number: int | None,
        given: Mapping[str, Any],
        anyway: str,
        checks: tuple[str, ...] | None,
        needed: Sequence[str],
    ) -> None:
        self.after: TaskState | None = None
        self._tracker = tracker
        self._author = author
        self._task = task
        self._number = number
        self._given = given
        self._anyway = anyway
        self._checks = checks
        self._needed = needed

    def decide(self, recorded: Sequence[Sequence[Recorded]]) -> list[Decision]:
        own, _, newer, *others = recorded
        nothing = [NO_EVENTS] * len(recorded)
        state = tasks.fold(own)
        if state is None:
            raise TaskNotFound(self._task)
        if newer or self._checks not in (None, state.fields.checks):
            return nothing
        found = open_of(self._needed, others)
        event = task_rules.complete(
            self._task,
            state,
            self._number,
            self._author,
            checked=self._checks or (),
            anyway=self._anyway if found else "",
            needed=tuple(one.id for one in found),
            **self._given,
        )
        if event is None:
            self.after = state
            return nothing
        if not self._anyway:
            _refuse_open(self._task, found)
        now = self._tracker.clock.now_us()
        self.after = tasks.evolve(state, event, state.version + 1, now)
        edited = edit_decision(self._task, event, state.version, now)
        return [Decision(tasks.KIND, [new_event(event, now)]), edited, *nothing[2:]]


def _refuse_open(task: str, found: Sequence[OpenTask]) -> None:
    """Raise `Refused` if the task needs what is open; all of that is named."""
    if not found:
        return
    first, which = found[0], ", and ".join(map(str, found))
    raise Refused(
        f"task {task[:8]} needs {which}; complete {'that' if len(found) == 1 else 'those'} first, remove the "
        f"link with `holdfast task unlink {task[:8]} {first.id[:8]}`, or give a reason with --anyway"
    )
