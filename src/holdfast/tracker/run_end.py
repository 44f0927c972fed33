"""The end of a run moves the task that it was started for, in the commit of that end.

A completed run completes its task, a failed one fails it, a cancelled one gives it back. A task with checks
is released by a completed run: checks are commands, which no commit waits for; the process that started the
run completes the task then. Nothing here refuses: a task that another has by now is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.kernel import events as e
from holdfast.kernel import task as tasks
from holdfast.kernel.author import NOBODY, Author
from holdfast.kernel.task import TaskState
from holdfast.store.port import NO_EVENTS, Companion, Decision, NewEvent, Recorded, Source, new_event

_MOST_WHY = 4000
"""Characters of a run's error that its task keeps; the run has all of it."""


def companions(
    run: str, task: str, events: Sequence[NewEvent], author: Callable[[], Author]
) -> tuple[Companion, ...]:
    """The companions of an append of the run: the move of its task if the run ends there, else nothing."""
    end = next((one for one in reversed(events) if one.type in e.RUN_ENDS), None)
    if end is None:
        return ()
    writer = author()

    def decide(recorded: Sequence[Recorded]) -> Decision:
        state = tasks.fold(recorded)
        if state is None or not _is_its_own(state, recorded, run):
            return NO_EVENTS
        event = _moved(state, run, e.decode(end.type, end.payload), writer)
        return NO_EVENTS if event is None else Decision(tasks.KIND, [new_event(event, end.at)])

    return (Companion(Source(tasks.stream_of(task)), decide),)


def _is_its_own(state: TaskState, recorded: Sequence[Recorded], run: str) -> bool:
    """Whether the run has the claim, or was the last to move the task: one that failed and is resumed. What
    others wrote down about it meanwhile does not count."""
    claim = state.fields.claim
    if claim is not None:
        return claim.run == run
    moved = (one.event for one in reversed(recorded) if not isinstance(one.event, _REMARKS))
    last: Author = getattr(next(moved, None), "author", NOBODY)
    return last.run == run and state.fields.status in ("failed", "pending") and not state.fields.archived


_REMARKS = (tasks.TaskNoted, tasks.TaskEdited, tasks.TaskBlocked)


def _moved(state: TaskState, run: str, end: e.Event, author: Author) -> e.Event | None:
    number = state.fields.claim.number if state.fields.claim is not None else 0
    if isinstance(end, e.RunCompleted) and not state.fields.checks:
        return tasks.TaskCompleted(number, f"run {run} completed", author=author)
    if isinstance(end, e.RunFailed):
        why = f"run {run} failed: {end.error.type_name}: {end.error.message}"
        return tasks.TaskFailed(number, why[:_MOST_WHY], author)
    if not number:
        return None
    if isinstance(end, e.RunCompleted):
        return tasks.ClaimReleased(number, f"run {run} completed; the checks are to be run", author)
    return tasks.ClaimReleased(number, f"run {run} was cancelled", author)
