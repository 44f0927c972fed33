"""Completing a task: its checks first, then one command that sees whether the claim still holds."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadInput
from holdfast.kernel import events as e
from holdfast.kernel import task_rules
from holdfast.kernel.task import TaskState
from holdfast.tracker.checks import run_checks
from holdfast.tracker.tracker import Tracker


def complete(
    tracker: Tracker,
    task: str,
    number: int | None = None,
    *,
    summary: str = "",
    evidence: Any = None,
    unchecked: str | None = None,
) -> TaskState:
    """Complete a task; the same claim may do so twice. Raises `CheckFailed`, `ClaimLost`, `TaskHeld`,
    `Refused`. With `unchecked`, which says why, no check is run, and the reason is recorded."""
    if unchecked is not None and not unchecked.strip():
        raise BadInput("unchecked needs a reason, which is recorded with the task")
    author = tracker.author()
    given = tracker.redacted({"summary": summary, "evidence": evidence, "unchecked": unchecked or ""})
    while True:
        state = tracker.load(task)
        # Before the checks: what is refused anyway need not wait for them.
        if task_rules.complete(task, state, number, author, **given) is None:
            return state
        checks = () if unchecked else state.fields.checks
        run_checks(tracker, task, checks)
        changed: list[bool] = []

        def decide(
            inside: TaskState, _: int, checked: tuple[str, ...] = checks, changed: list[bool] = changed
        ) -> e.Event | None:
            if not unchecked and inside.fields.checks != checked:
                changed.append(True)
                return None
            return task_rules.complete(task, inside, number, author, checked=checked, **given)

        after = tracker.change(task, decide)
        if not changed:
            return after
