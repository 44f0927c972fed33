"""Memories in the index. One that was withdrawn or superseded is hidden: it is found on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.kernel import memory
from holdfast.search.event_items import decoded
from holdfast.search.item import Changes, Item
from holdfast.store.port import MemoryFilter

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Entry, Store

FAMILY: Final = "memory"
_TITLE_CHARS: Final = 80


class MemoryItems:
    """A memory is found by its id and text, its kind, scope and source, what it cites, and its status."""

    name = FAMILY
    types = frozenset(one.__name__ for one in memory.EVENTS)

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._begun: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def take(self, entry: Entry, changes: Changes) -> None:  # noqa: ARG002
        event = decoded(entry)
        if isinstance(event, memory.Remembered):
            self._begun.setdefault(event.id, entry.position)
        if isinstance(event, memory.EVENTS):
            self._changed[event.id] = None

    def finish(self, changes: Changes) -> None:
        done: set[str] = set()
        for changed in self._changed:
            id = changed
            while id and id not in done:  # whether it is superseded depends on those that came after it
                done.add(id)
                found = self._memory(id)
                place = self._begun.get(id) or changes.id_of(FAMILY, id)
                if found is not None and place is not None:
                    changes.put(self._item(found, place))
                id = "" if found is None else found.supersedes
        self._begun.clear()
        self._changed.clear()

    def _memory(self, id: str) -> memory.Memory | None:
        found = self._store.memories(MemoryFilter(prefix=id, every=True))
        return next((one for one in found if one.id == id), None)

    def _item(self, found: memory.Memory, place: int) -> Item:
        shown = self._redactor.redact
        text = shown(found.text)
        line = " ".join(text[: 10 * _TITLE_CHARS].split())
        rest = (found.kind, found.status, found.scope, found.source, *found.cites, found.reason)
        return Item(
            place,
            FAMILY,
            found.id,
            kind=found.kind,
            status=found.status,
            hidden=found.status != "current",
            at=found.changed_at or found.at,
            title=line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1].rstrip()}…",
            body=text,
            rest="\n".join(shown(one) for one in rest if one),
        )
