"""The order in which the code of a run received its outcomes.

An outcome is what the code waits for: the end of a step, a child run or a sleep, the decision of a gate, a
checkpoint, a timer of the code's own. Most have their place in the log where they are recorded. A gate is
decided by others, so its place is where the run delivered it (`OutcomeDelivered`); one that was decided and
not delivered comes after everything else.
"""

from __future__ import annotations

from holdfast.kernel.state import ALWAYS, GATES, OVER, UNSEEN, RunState, StepState


def timer_key(scope: str, number: int) -> str:
    """The identity of a timer that the code of a scope sets."""
    return f"{scope}timer@{number}"


def is_called(step: StepState) -> bool:
    """Whether the code makes this call, and must make it again in a replay. `patched` may be removed."""
    return step.kind != "patch" and (step.ordinal > 0 or step.kind != "checkpoint")


def is_awaited(step: StepState) -> bool:
    """Whether the code waits for this call. A checkpoint without a place among the calls is the engine's."""
    return step.kind not in UNSEEN and (step.ordinal > 0 or step.kind != "checkpoint")


def outcomes(state: RunState) -> list[tuple[int, str]]:
    """The place and the key of every recorded outcome, in the order in which the code received them."""
    found = [
        (_place(step, state.loose), step.key)
        for step in state.steps.values()
        if step.status in OVER and is_awaited(step)
    ]
    for fired in state.timers:
        found += [(fired.version, timer_key(fired.scope, n)) for n in range(fired.first, fired.last + 1)]
    found.sort(key=_first)
    return found


def _place(step: StepState, loose: int) -> int:
    if step.kind not in GATES or step.delivered:
        return step.delivered or step.version
    return step.version if step.version <= loose else ALWAYS + step.version


def _first(place: tuple[int, str]) -> int:
    return place[0]
