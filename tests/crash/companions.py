"""Companions of the appends of a run: what the owner's append says, a second stream repeats.

`accompany(hf)` makes the store of a life add two companions to the appends of owners: `Spent` on the run's
budget, with the digests of the events that the append writes, and `TaskMoved` on its task when the run
completes. Those of the engine are in other workloads (`tests.crash.metered`, `tests.crash.chores`): these are
of every append. `tests.crash.checker` compares both streams with the run's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.crash.history import SPENDING_TYPES, budget_of, canonical, digest, task_of

from holdfast import Holdfast
from holdfast.store.port import NO_EVENTS, Append, Companion, Decision, NewEvent, Recorded, Source


def accompany(hf: Holdfast) -> None:
    store: Any = hf._store
    append, append_soon = store.append, store.append_soon
    store.append = lambda one: append(_with_companions(one))
    store.append_soon = lambda one, done: append_soon(_with_companions(one), done)


def _with_companions(append: Append) -> Append:
    """Added as the append is sealed: only then its events are known."""
    seal = append.seal

    def sealed(append: Append) -> None:
        if seal is not None:
            seal(append)
        spent = [digest_of(event) for event in append.events if event.type in SPENDING_TYPES]
        if spent:
            append.also = [Companion(Source(budget_of(append.stream)), _spend(append, spent))]
        if any(event.type == "RunCompleted" for event in append.events):
            append.also = [*append.also, Companion(Source(task_of(append.stream)), _move(append))]

    append.seal = sealed
    return append


def digest_of(event: NewEvent) -> str:
    return digest(f"{event.type} {canonical(json.loads(event.payload))}")


def _spend(append: Append, spent: Sequence[str]) -> Callable[[Sequence[Recorded]], Decision]:
    at = append.events[-1].at

    def decide(recorded: Sequence[Recorded]) -> Decision:
        payload = canonical({"of": spent, "seen": len(recorded)})
        return Decision("budget", [NewEvent("Spent", at, payload)])

    return decide


def _move(append: Append) -> Callable[[Sequence[Recorded]], Decision]:
    at = append.events[-1].at

    def decide(recorded: Sequence[Recorded]) -> Decision:
        return NO_EVENTS if recorded else Decision("task", [NewEvent("TaskMoved", at, "{}")])

    return decide
