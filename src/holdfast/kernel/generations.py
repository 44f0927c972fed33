"""Generations: a run's history is a tree, and one branch of it is live.

A rewind puts the live generation aside and opens a new one, which takes over what was recorded up to a
point. Nothing of the one that was put aside is lost: restored, it continues as if it had never been left,
with its own idempotency keys and child runs. What happens to a run belongs to the generation that is
live then: signals and decisions too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.errors import OnceAgain, Refused, RunHeld, StepNotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.identity import scope_of
from holdfast.kernel.state import OVER, Generation, RunState, Signal, StepState

_MAY_HAVE_HAPPENED = frozenset({"completed", "in_doubt", "running"})


# What is decided


def decide_rewind(state: RunState, command: c.RewindRun) -> Sequence[e.Event]:
    """Raises `RunHeld`, `StepNotFound`, `OnceAgain`; `Refused` for a step that has not ended."""
    _refuse_held(state, command)
    version = command.at or _end_of(state, command)
    _refuse_once(command, done_once(again(state, up_to(state.steps, version))))
    return [
        e.Rewound(following(state), state.generation, version, state.epoch + 1, command.operation),
    ]


def _end_of(state: RunState, command: c.RewindRun) -> int:
    """The version in which the step that it goes back to had ended."""
    step = state.steps.get(command.to)
    if step is None:
        raise StepNotFound(command.run_id, command.to)
    if step.status not in OVER:
        raise Refused(
            f"step {step.key} of run {command.run_id} is {step.status.replace('_', ' ')}; a run is rewound "
            f"to a step that has ended, or to `before:{step.key}`"
        )
    return step.version


def decide_restore(state: RunState, command: c.RestoreGeneration) -> Sequence[e.Event]:
    """Raises `RunHeld`, `OnceAgain`; `Refused` if the live generation is another one by now."""
    _refuse_held(state, command)
    if state.generation != command.leaving or command.generation not in state.past:
        raise Refused(
            f"run {command.run_id} is in generation {state.generation}, not in {command.leaving}: something "
            "else was done to it since; `holdfast op log` shows what"
        )
    _refuse_once(command, done_once(again_if_restored(state, command.generation)))
    return [e.GenerationRestored(command.generation, state.epoch + 1, command.operation)]


def _refuse_held(state: RunState, command: c.RewindRun | c.RestoreGeneration) -> None:
    if state.owner not in ("", command.dead):
        raise RunHeld(command.run_id, 0, state.owner)


def _refuse_once(command: c.RewindRun | c.RestoreGeneration, steps: Sequence[StepState]) -> None:
    if steps and not command.rerun_once:
        raise OnceAgain(command.run_id, list(dict.fromkeys(step.key for step in steps)))


def following(state: RunState) -> int:
    """The number of the next generation: none is used twice."""
    return 1 + max([state.generation, *state.past])


def up_to(steps: Mapping[str, StepState], version: int) -> dict[str, StepState]:
    """The steps that a rewind to `version` keeps: what last changed them came before."""
    return {key: step for key, step in steps.items() if step.version <= version}


def done_once(steps: Iterable[StepState]) -> list[StepState]:
    """Those that must not run again unless a person allows it: `once`, and they happened, or may have."""
    return [step for step in steps if step.effect == "once" and step.status in _MAY_HAVE_HAPPENED]


def again(state: RunState, kept: Mapping[str, StepState]) -> list[StepState]:
    """Recorded steps of all generations, the live one first, that would run again in a run that
    continues with no more than `kept`. Includes abandoned generations: their side effects happened."""
    every = {
        (step.key, step.version): step
        for steps in (state.steps, *(one.steps for one in state.past.values()))
        for step in steps.values()
    }
    return [step for step in every.values() if not _is_known(step, kept.get(step.key))]


def again_if_restored(state: RunState, generation: int) -> list[StepState]:
    """The same for the generation that is restored; in a completed one nothing runs any more."""
    other = state.past[generation]
    return [] if other.status == "completed" else again(state, other.steps)


def only_here(state: RunState, generation: int) -> list[StepState]:
    """The steps that the live generation has recorded and the other one has not."""
    there = {step.key: step.version for step in state.past[generation].steps.values()}
    return [step for step in state.steps.values() if there.get(step.key) != step.version]


def _is_known(step: StepState, kept: StepState | None) -> bool:
    """Whether a run that has `kept` does not repeat this step: it has the outcome, it stops at the
    doubt, or it continues the same attempt or child run."""
    if kept is None:
        return False
    same = kept.version == step.version or (kept.child != "" and kept.child == step.child)
    return same or kept.status == "completed" or bool(done_once([kept]))


# What follows from it


def rewind(state: RunState, event: e.Rewound) -> None:
    """Put the live generation aside and open one with what its parent had recorded up to the point."""
    _put_aside(state)
    parent = state.past.get(event.parent)
    _take_up(state, event.generation, event.epoch)
    if parent is not None:
        # Copies: what continues in this generation must not change what the one before recorded.
        kept = up_to(parent.steps, event.version)
        state.steps = {key: msgspec.structs.replace(step) for key, step in kept.items()}
        state.signals = {
            version: _as_taken(signal, state.steps)
            for version, signal in parent.signals.items()
            if version <= event.version
        }
        for step in state.steps.values():
            if step.delivered > event.version:
                step.delivered = 0
        state.timers = [fired for fired in parent.timers if fired.version <= event.version]
        state.loose = parent.loose
        state.files = [saved for saved in parent.files if saved.version <= event.version]
    _count(state)
    state.status, state.reason = "paused", "rewound"


def restore(state: RunState, event: e.GenerationRestored) -> None:
    """Put the live generation aside and take up another one where it was left."""
    _put_aside(state)
    _take_up(state, event.generation, event.epoch)
    found = state.past.pop(event.generation)
    for name in Generation.__struct_fields__:
        setattr(state, name, getattr(found, name))
    _count(state)


def _put_aside(state: RunState) -> None:
    left = {name: getattr(state, name) for name in Generation.__struct_fields__}
    state.past[state.generation] = Generation(**left)


def _take_up(state: RunState, generation: int, epoch: int) -> None:
    """An empty generation that no process owns."""
    state.generation, state.owner, state.stalls = generation, "", 0
    state.epoch = epoch or state.epoch
    state.steps, state.signals, state.files = {}, {}, []
    state.timers, state.loose = [], 0
    state.seen_at = 0
    state.reason = state.cause = state.attention_step = ""
    state.pause = state.paused = state.cancel = None
    state.result, state.blob, state.error, state.failed_steps = e.NOTHING, "", None, ()
    state.ended_at = 0


def _as_taken(signal: Signal, steps: dict[str, StepState]) -> Signal:
    """A copy of the signal, free again if the gate that took it is not among the steps."""
    return msgspec.structs.replace(signal, taken_by=signal.taken_by if signal.taken_by in steps else "")


def _count(state: RunState) -> None:
    """The parts of the state that follow from its steps."""
    state.order = {(scope_of(key), step.ordinal): key for key, step in state.steps.items() if step.ordinal}
    state.sleepers = sum(step.status == "sleeping" for step in state.steps.values())
    state.waiters = len(state.open_gates())
    stages = [step.name for step in state.steps.values() if step.kind == "stage"]  # in the order of the log
    state.stage = stages[-1] if stages else ""
