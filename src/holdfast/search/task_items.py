"""Tasks in the index: each is one item, as it is now. A task that is archived is not found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.kernel import task
from holdfast.search.event_items import decoded
from holdfast.search.item import Changes, Item

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Entry, Store

FAMILY: Final = "tasks"


class TaskItems:
    """A task is found by its id, name, labels and assignee, its body, how it ended or why it is blocked, its
    notes and its status."""

    name = FAMILY
    types = frozenset(one.__name__ for one in task.EVENTS)

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._changed: dict[str, int] = {}

    def take(self, entry: Entry, changes: Changes) -> None:  # noqa: ARG002
        self._changed[task.task_of(entry.stream)] = entry.at

    def finish(self, changes: Changes) -> None:
        for id, at in self._changed.items():
            entries = list(self._store.entries(task.stream_of(id)))
            state = task.fold((decoded(one), one.version, one.at) for one in entries)
            if state is None or state.fields.archived:
                changes.drop(FAMILY, id)
            else:
                changes.put(self._item(id, entries[0].position, state, at))
        self._changed.clear()

    def _item(self, id: str, position: int, state: task.TaskState, at: int) -> Item:
        fields, shown = state.fields, self._redactor.redact
        texts = (fields.body, fields.summary, fields.error, fields.blocked, fields.unchecked)
        return Item(
            position,
            FAMILY,
            id,
            kind="task",
            status=fields.status,
            at=at,
            title=shown(fields.name),
            body="\n".join(shown(text) for text in texts if text),
            rest="\n".join([*(shown(note.text) for note in state.notes), fields.status]),
            names="\n".join([*map(shown, fields.labels), shown(fields.assignee)]),
        )
