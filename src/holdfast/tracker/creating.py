"""Making tasks, with their links, in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import TaskNotFound
from holdfast.kernel import links, task_rules
from holdfast.kernel import task as tasks
from holdfast.store.port import END, NO_EVENTS, Decision, Recorded, Source, new_event
from holdfast.tracker.edit_record import edit_decision, edit_source
from holdfast.tracker.tracker import Tracker


def create(
    tracker: Tracker,
    fields: Mapping[str, Any],
    *,
    needs: Sequence[str] = (),
    parent: str | None = None,
    discovered_from: str | None = None,
) -> str:
    """Create a task with its links and return its id. Raises `BadInput`, `TaskNotFound`. Its links close no
    cycle: nothing leads to a task that is new."""
    author = tracker.author()
    given = tracker.redacted(dict(fields))
    made = task_rules.create(given, author)
    task = tracker.new_id(author, f"task {given} {[*needs]} {parent} {discovered_from}")
    wanted = [(on, "blocks") for on in dict.fromkeys(map(tasks.check_id, needs))]
    wanted += [(parent, "parent")] if parent else []
    wanted += [(discovered_from, "discovered-from")] if discovered_from else []
    for on, _ in wanted:
        if tracker.store.task(tasks.check_id(on)) is None:
            raise TaskNotFound(on)
    now = tracker.clock.now_us()
    added = [new_event(links.add(task, on, kind, author), now) for on, kind in wanted]

    def decide(recorded: Sequence[Sequence[Recorded]]) -> list[Decision]:
        if recorded[0]:
            return [NO_EVENTS] * len(recorded)  # the step has made it, and runs again after a crash
        first = [Decision(tasks.KIND, [new_event(made, now)]), edit_decision(task, made, 0, now)]
        return [*first, Decision(links.KIND, added)] if added else first

    sources = [Source(tasks.stream_of(task)), edit_source(tracker.clock)]
    # The links after the task: a rebuild sees a link only when both of its tasks are there.
    sources += [Source(links.STREAM, END)] if added else []
    tracker.store.command_all(sources, decide)
    return task
