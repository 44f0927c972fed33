"""Finds the state machine of runs and steps: every command, tried on every kind of state there is."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import Impossible, evolve
from holdfast.kernel.failure import capture
from holdfast.kernel.state import RunState

_NEVER = 1 << 60
_FAILURE = capture(ValueError("no"))
_COMMANDS: Sequence[c.Command] = (
    c.ClaimRun("r", "me"),
    c.ReleaseRun("r", "me"),
    c.ReleaseRun("r", "me", waits="waiting"),
    c.ReopenRun("r"),
    c.StartStep("step#1", "step", "", 1),
    c.StartStep("once#1", "once", "", 2, "once"),
    c.CompleteStep("step#1"),
    c.CompleteStep("once#1"),
    c.FailAttempt("step#1", _FAILURE, _NEVER),
    c.FailAttempt("step#1", _FAILURE, 0),
    c.DoubtStep("r", "once#1", "cut off"),
    c.SettleStep("r", "once#1", "done"),
    c.SettleStep("r", "once#1", "retry"),
    c.SettleStep("r", "once#1", "fail", error=_FAILURE),
    c.Record(e.SleepStarted("sleep#1", 3, _NEVER)),
    c.Record(e.SleepEnded("sleep#1")),
    c.Record(e.GateOpened("gate#1", 4, "approval", "gate", "d")),
    c.DecideGate("r", "approved", "gate"),
    c.AbandonWait("step#1"),
    c.AbandonWait("sleep#1"),
    c.AbandonWait("gate#1"),
    c.AttendRun("divergence", "it diverged", "step#1"),
    c.PauseRun("r"),
    c.CancelRun("r"),
    c.CompleteRun(),
    c.FailRun(_FAILURE, ("step#1",)),
)

Change = tuple[str, str, str]
"""(status before, event, status after)."""


def changes() -> tuple[list[Change], list[Change]]:
    """What events change of a run's status, and of a step's, in the order in which they are found."""
    runs: dict[Change, None] = {}
    steps: dict[Change, None] = {}
    first = evolve(None, e.RunCreated(e.Code("flow"), ""), 1, 1)
    runs["", "RunCreated", first.status] = None
    seen = {_signature(first)}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for command in _COMMANDS:
            after = _try(state, command, runs, steps)
            if after is not None and _signature(after) not in seen:
                seen.add(_signature(after))
                queue.append(after)
    return list(runs), list(steps)


def _try(
    state: RunState, command: c.Command, runs: dict[Change, None], steps: dict[Change, None]
) -> RunState | None:
    """The state after the command, if it is not refused; what it changed is noted."""
    steps_now = {key: replace(step) for key, step in state.steps.items()}
    after = replace(state, steps=steps_now, order=dict(state.order), signals=dict(state.signals))
    try:
        events = decide(after, command)
        for event in events:
            before, statuses = after.status, {key: step.status for key, step in after.steps.items()}
            after = evolve(after, event, after.version + 1, after.version + 1)
            name = e.type_of(event)
            if after.status != before:
                runs.setdefault((before, name, after.status))
            for key, step in after.steps.items():
                if statuses.get(key) != step.status:
                    steps.setdefault((statuses.get(key, ""), name, step.status))
    except (HoldfastError, Impossible):
        return None
    return after


def _signature(state: RunState) -> tuple[object, ...]:
    statuses = tuple(sorted((key, step.status) for key, step in state.steps.items()))
    return state.status, bool(state.owner), statuses


def diagram(found: Sequence[Change]) -> list[str]:
    """A Mermaid diagram: one arrow for each pair of statuses, with all events that lead that way."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for before, event, after in found:
        arrows.setdefault((before, after), []).append(event)
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [
        f"    {before or '[*]'} --> {after}: {', '.join(sorted(set(names)))}"
        for (before, after), names in sorted(arrows.items())
    ]
    return [*lines, "```"]
