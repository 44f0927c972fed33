"""The records of a delivery outside its run: notes on its task, decisions in the memory.

Each is a step, and its author is the run: a rewind reverses them.
"""

from __future__ import annotations

from typing import Any

from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.service_call import await_service
from holdfast.kernel import task_rules
from holdfast.tracker.memories import Memories

_MOST_NOTE = 20_000
_MOST_MEMORY = 600


async def note(kind: str, text: str) -> None:
    """Write something down about the task of the run, if it was started for one."""
    task = _scope().execution.state.task
    if task and text.strip():
        await await_service("tasks.note", _note, (task, kind, text[:_MOST_NOTE]), {})


async def remember_decision(text: str, gate: str) -> None:
    """Keep a decision for later sessions: of the task, or of the project if there is none."""
    run = _scope().execution
    scope = f"task:{run.state.task}" if run.state.task else "project"
    await await_service(
        "memory.remember", _remember, (text[:_MOST_MEMORY], scope, f"run {run.id} {gate}"), {}
    )


def task_id() -> str:
    """The task that the run was started for; empty if none."""
    return _scope().execution.state.task


def _note(task: str, kind: str, text: str) -> None:
    tracker = _tracker()
    author, said = tracker.author(), tracker.redacted(text)
    tracker.change(task, lambda state, _: task_rules.note(state, kind, said, author))


def _remember(text: str, scope: str, source: str) -> str:
    return Memories(_tracker()).remember(text, kind="decision", scope=scope, source=source)


def _tracker() -> Any:
    inside: Any = current.get()
    return inside.execution.engine.handler("tracker")


def _scope() -> Scope:
    scope = current.get()
    assert type(scope) is Scope
    return scope
