"""The picture of a run while it is executed, updated by its events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.clock import microseconds
from holdfast.counts import counted
from holdfast.views.gate import decision_text
from holdfast.views.records import StepInfo

if TYPE_CHECKING:
    from holdfast import LogEvent

_TAIL_CHARS = 2000


_NO_STEPS = frozenset(
    {
        "OutcomeDelivered",
        "OutputCaptured",
        "ValueRecorded",
        "PatchSeen",
        "StageEntered",
        "OutcomeReported",
        "FilesSaved",
        "StepMeasured",
        "EvidenceWritten",
        "EvidenceVerified",
    }
)


class Picture:
    """The steps of a run and of its child runs, and what they emit. Not thread-safe."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, StepInfo]] = {}
        self.emitted: dict[str, Any] = {}
        """Name → its last value; of a stream of text, its end."""

    def know(self, run_id: str, steps: list[StepInfo]) -> None:
        """Begin with what the history has."""
        self._runs[run_id] = {step.key: step for step in steps}

    def of(self, run_id: str) -> list[StepInfo]:
        return list(self._runs.get(run_id, {}).values())

    def children(self, run_id: str) -> dict[str, list[StepInfo]]:
        """The steps of all other runs, by id."""
        return {other: list(steps.values()) for other, steps in self._runs.items() if other != run_id}

    def see(self, event: LogEvent) -> StepInfo | None:
        """Take in an event; the step that it changed."""
        if event.type == "Emitted":
            self._emit(event.data["name"], event.data["value"])
            return None
        key = event.data.get("key")
        if key is None or event.type in _NO_STEPS:
            return None
        steps = self._runs.setdefault(event.run_id, {})
        step = steps.setdefault(key, StepInfo(key))
        _apply(step, event.type, event.data, microseconds(event.at))
        return step

    def is_running(self, run_id: str, key: str, attempt: int) -> bool:
        """Whether the start of this attempt was seen, and not its end."""
        step = self._runs.get(run_id, {}).get(key)
        return step is not None and step.status == "running" and step.attempt == attempt

    def _emit(self, name: str, value: Any) -> None:
        before = self.emitted.pop(name, None)  # the one that changed last is the last
        if isinstance(value, str) and isinstance(before, str):
            value = (before + value)[-_TAIL_CHARS:]
        self.emitted[name] = value


def _apply(step: StepInfo, kind: str, data: dict[str, Any], at: int) -> None:
    error = data.get("error")
    step.note = error_text(error) if error else data.get("why", "")
    if kind == "StepStarted":
        step.name, step.attempt = data["name"], data.get("attempt", 1)
        step.effect, step.kind = data.get("effect", "idempotent"), data.get("kind", "step")
        step.child = data.get("child", "")
        step.status, step.started_us, step.ended_us = "running", at, 0
    elif kind == "StepRan":
        step.name, step.status = data["name"], "completed"
        step.started_us, step.ended_us = data["started_at"], at
    elif kind == "SleepStarted":
        step.kind, step.status, step.started_us, step.due_us = "sleep", "sleeping", at, data["until"]
    elif kind in ("StepCompleted", "SleepEnded"):
        step.status, step.ended_us = "completed", at
    elif kind == "StepAttemptFailed":
        step.status, step.ended_us, step.due_us = "retrying", at, data["retry_at"]
    elif kind == "StepFailed":
        step.status, step.ended_us = "failed", at
    elif kind == "StepInDoubt":
        step.status = "in_doubt"
    elif kind == "StepSettled":
        step.status = {"done": "completed", "fail": "failed"}.get(data["outcome"], "reopened")
    elif kind == "StepReopened":
        step.status = "reopened"
    elif kind == "GateOpened":
        step.kind, step.name, step.started_us = data["kind"], data["name"], at
        step.status = "running" if data.get("automatic") else "waiting"
        step.due_us = data.get("until", 0)
    elif kind == "GateDecided":
        step.status, step.ended_us, step.due_us, step.outcome = "completed", at, 0, data["outcome"]
        step.note = decision_text(step.outcome, data.get("by", ""), data.get("comment", ""))
    elif kind == "WaitAbandoned":
        step.status, step.ended_us, step.due_us = "abandoned", at, 0
    elif kind == "CheckpointTaken":
        step.kind, step.name, step.status = "checkpoint", data["name"], "completed"
        step.started_us = step.ended_us = at


def put_back(data: dict[str, Any]) -> Iterator[str]:
    """Changes to the files around a step, beside its own."""
    changed, kept, rescued = data.get("changes", 0), data.get("kept", ()), data.get("rescued", "")
    refs, tips = data.get("refs", ()), data.get("tips", "")
    if data["place"] == "taken_back" and (changed or kept):
        texts = []
        if changed:
            texts.append(f"{counted(changed, 'change')} of the earlier attempt rolled back")
            texts.append(
                f"`holdfast workspace restore {data['instead_of'][:12]}` brings {_them(changed)} back"
            )
        if kept:
            texts.append(f"kept, because others changed {_them(len(kept))}: {', '.join(kept)}")
        yield f"{data['key']}: {'; '.join(texts)}"
    if refs:
        where = f"; `git for-each-ref {tips}` lists what they were" if tips else ""
        yield f"{data['key']}: the earlier attempt's changes to git rolled back: {', '.join(refs)}{where}"
    if rescued:
        yield (
            f"{data['key']}: files were written to while they were restored; "
            f"`holdfast workspace restore {rescued[:12]}` brings that back"
        )


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def error_text(error: dict[str, Any]) -> str:
    """A recorded error as Python writes its last line; it was redacted before it was recorded."""
    module, _, name = error.get("type", "").partition(":")
    name = name if module in ("builtins", "__main__") else name.rpartition(".")[2]
    message = error.get("message", "")
    return f"{name}: {message}" if message else name
