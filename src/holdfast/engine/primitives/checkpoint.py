"""A run reports on itself: checkpoints, stages, values for watchers, changes in its code."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from holdfast.engine.execution import thread_driver
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.scope import InsideStep, Scope, current, refuse_in_async, scope_of_caller
from holdfast.engine.files.checkpoint_append import CheckpointAppend
from holdfast.errors import BadInput
from holdfast.kernel import codec
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.identity import check_step_name, check_text

_STAGE_CHARS = 200
_STAGE = re.compile(rf"(?=.*\S)[^\x00-\x1f\x7f\u2028\u2029]{{1,{_STAGE_CHARS}}}")


class Checkpoint:
    """Call it in a `def` workflow; in an async one, `await checkpoint.aio(...)`."""

    def __call__(self, name: str, **data: Any) -> None:
        """A point with a name, with data that describe it, to which the run can be rewound. Durable when
        this returns."""
        scope = scope_of_caller("checkpoint()")
        if scope is not None:
            take(scope, name, _with_data(scope, data))

    def aio(self, name: str, **data: Any) -> Coroutine[Any, Any, None]:
        """The same for async workflows."""
        scope = scope_of_caller("checkpoint()")
        if scope is None:
            return nothing()
        return take_soon(scope, name, _with_data(scope, data))


Make = Callable[[str, int, str], CheckpointAppend]
"""(key, ordinal, name) → what is to be written, for a checkpoint that the history does not have."""


def take(scope: Scope, name: str, make: Make, what: str = "checkpoint") -> None:
    """A checkpoint in a `def` workflow; `what` is what the code calls it."""
    refuse_in_async(scope.execution, what)
    key, taken = _take(scope, name, make)
    if taken is None:
        thread_driver.replayed(scope.execution, key)
    else:
        thread_driver.barrier(scope.execution, key, name)
        with thread_driver.aside(scope.execution):
            taken.write(key)


def take_soon(scope: Scope, name: str, make: Make, what: str = "checkpoint") -> Coroutine[Any, Any, None]:
    """The same in an async workflow."""
    writing = _write(scope.execution, *_take(scope, name, make))
    return scope.execution.unawaited.expect(what, repr(name), writing)


async def _write(run: Execution, key: str, taken: CheckpointAppend | None) -> None:
    delivery = run.tasks_delivery
    assert delivery is not None
    if taken is None:
        cancelled = await delivery.replayed(key)
    else:
        cancelled = await delivery.barrier(key) if delivery.guarded else None
        cancelled = await taken.write_soon(key) or cancelled
    if cancelled is not None:
        raise cancelled


async def nothing() -> None:
    """A checkpoint outside of runs."""


def _with_data(scope: Scope, data: dict[str, Any]) -> Make:
    def make(key: str, ordinal: int, name: str) -> CheckpointAppend:
        run = scope.execution
        value, blob, blobs = run.engine.store_value(data, f"the data of checkpoint {name}")
        return CheckpointAppend(run, e.CheckpointTaken(key, ordinal, name, value, blob), blobs)

    return make


def _take(scope: Scope, name: str, make: Make) -> tuple[str, CheckpointAppend | None]:
    """The checkpoint's key, and what is to be written; None if the history has it."""
    run = scope.execution
    key = scope.counters.key(check_step_name(name))
    ordinal = scope.counters.ordinal
    if run.recall(key, name, ordinal, "", "checkpoint") is not None:
        return key, None
    return key, make(key, ordinal, name)


def emit(name: str, value: object) -> None:
    """Publish a value to watchers of the run: progress, tokens. Kept in the log.

    In a workflow it is recorded once, with the run's next commit. In a step's body it goes to the log at
    once, without waiting for the disk; an attempt that is made again emits again.
    """
    check_step_name(name)
    raw = msgspec.Raw(codec.encode(value, f"what is emitted as {name}"))
    inside = current.get()
    if isinstance(inside, InsideStep):
        run = inside.execution
        entry = run.append_of(
            [c.Record(e.Emitted(name, raw, step=inside.key, attempt=inside.attempt))], durable=False
        )
        run.engine.store.append_soon(entry, run.engine.flusher.outcome_for(run))
        return
    scope = scope_of_caller("emit()")
    if scope is None:
        return
    key = scope.counters.key(name)
    ordinal = scope.counters.ordinal
    if scope.execution.recall(key, name, ordinal, "", "emit") is None:
        scope.execution.note(c.Record(e.Emitted(name, raw, key, ordinal)))


def stage(name: str) -> None:
    """Enter a stage: what the run is busy with, for people, beside its status. `holdfast show` and
    `RunInfo.stage` have the last one that was entered.

    It does no I/O and serves both colours: it is recorded once, with the run's next commit. After a rewind
    the run is in the stage that it was in at that point. Code that enters another stage in the same place
    than before diverges. Outside a run it does nothing; in a step's body it raises `BadInput`.
    """
    if not _STAGE.fullmatch(check_text(name, "stage(name)")):
        raise BadInput(f"stage({name!r}): 1 to {_STAGE_CHARS} characters on one line")
    scope = scope_of_caller("stage()", f"stage({name!r})")
    if scope is None:
        return
    run = scope.execution
    key = scope.counters.key("stage")
    ordinal = scope.counters.ordinal
    past = run.recall(key, "stage", ordinal, "", "stage")
    if past is None:
        run.note(c.Record(e.StageEntered(key, ordinal, name)))
    elif past.name != name:
        run.diverge(f"{key}, entering {past.name!r}", f"{key}, entering {name!r}", key)


def patched(id: str) -> bool:
    """Whether the new code counts for this run: True in runs that come here for the first time, False in
    those that had passed this place before the change.

        if patched("two-drafts"):
            draft = best(ask(q), ask(q))
        else:
            draft = ask(q)
    """
    check_step_name(id)
    scope = scope_of_caller("patched()")
    if scope is None:
        return True
    run = scope.execution
    if run.control is not None:
        raise run.control
    key = f"patched@{id}"
    known = run.patches.get(id)
    if known is None:
        passed = run.delivery.had_been_here(scope.counters)
        recorded = key in run.state.steps
        known = run.patches[id] = recorded or not passed
        if known and not recorded:
            run.note(c.Record(e.PatchSeen(key, id)))
    return known


checkpoint = Checkpoint()
