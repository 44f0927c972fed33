"""What is known of a run while it goes on, kept up to date by its events."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.cli.steps import StepView
from holdfast.clock import instant

if TYPE_CHECKING:
    from holdfast.engine.records import LogEvent


class Watch:
    """The steps of a run and of its child runs. Not thread-safe."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, StepView]] = {}

    def know(self, run_id: str, steps: list[StepView]) -> None:
        """Begin with what the history has."""
        self._runs[run_id] = {step.key: step for step in steps}

    def of(self, run_id: str) -> list[StepView]:
        return list(self._runs.get(run_id, {}).values())

    def children(self, run_id: str) -> dict[str, list[StepView]]:
        """The steps of all other runs, by id."""
        return {other: list(steps.values()) for other, steps in self._runs.items() if other != run_id}

    def see(self, event: LogEvent) -> StepView | None:
        """Take in an event; the step that it changed."""
        key = event.data.get("key")
        if key is None or event.type in ("OutputCaptured", "ValueRecorded"):
            return None
        steps = self._runs.setdefault(event.run_id, {})
        step = steps.setdefault(key, StepView(key))
        _apply(step, event.type, event.data, event.at)
        return step


def _apply(step: StepView, kind: str, data: dict[str, Any], at: datetime) -> None:
    error = data.get("error")
    step.note = error_text(error) if error else data.get("why", "")
    if kind == "StepStarted":
        step.name, step.attempt = data["name"], data.get("attempt", 1)
        step.effect, step.kind = data.get("effect", "idempotent"), data.get("kind", "step")
        step.child = data.get("child", "")
        step.status, step.started, step.ended = "running", at, None
    elif kind == "StepRan":
        step.name, step.status = data["name"], "completed"
        step.started, step.ended = instant(data["started_at"]), at
    elif kind == "SleepStarted":
        step.kind, step.status, step.started, step.due = "sleep", "sleeping", at, instant(data["until"])
    elif kind in ("StepCompleted", "SleepEnded"):
        step.status, step.ended = "completed", at
    elif kind == "StepAttemptFailed":
        step.status, step.ended, step.due = "retrying", at, instant(data["retry_at"])
    elif kind == "StepFailed":
        step.status, step.ended = "failed", at
    elif kind == "StepInDoubt":
        step.status = "in_doubt"
    elif kind == "StepSettled":
        step.status = {"done": "completed", "fail": "failed"}.get(data["outcome"], "reopened")
    elif kind == "StepReopened":
        step.status = "reopened"


def error_text(error: dict[str, Any]) -> str:
    """A recorded error as Python writes its last line; it was redacted before it was recorded."""
    module, _, name = error.get("type", "").partition(":")
    name = name if module in ("builtins", "__main__") else name.rpartition(".")[2]
    message = error.get("message", "")
    return f"{name}: {message}" if message else name
