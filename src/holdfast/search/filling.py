"""Brings an index up to the end of the store's log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.kernel.task import task_of
from holdfast.search.index import Index
from holdfast.search.item import Family, named_stream
from holdfast.store.port import Entry, Resync, Store

AT_ONCE: Final = 2000
"""How many events are one transaction of the index: another process waits no longer than for these."""

_DELETED: Final = "StreamDeleted"
_RESTORED: Final = "StreamRestored"

Progress = Callable[[int], None]


def fill(
    index: Index, store: Store, families: Callable[[], Sequence[Family]], progress: Progress | None = None
) -> None:
    """Add what was appended to the log since the index was last filled. What a batch of events changes in the
    index, and how far the log was read, is one transaction. An index of another history of the store, as
    after the restore of a backup, is emptied and filled again.

    `progress` is called with the position in the log after each batch but the last one.
    """
    while True:
        before = index.cursor
        if before and before == store.tail():
            return
        with index.transaction():
            before = index.cursor  # another process may have filled it
            made = families()
            types = sorted(frozenset((_DELETED, _RESTORED)).union(*(family.types for family in made)))
            try:
                page = store.feed(before, limit=AT_ONCE, types=types)
            except Resync:
                index.clear()
                page = store.feed("", limit=AT_ONCE, types=types)
            for entry in page.entries:
                if entry.type == _DELETED:
                    for family in made:
                        index.drop(family.name, _key(entry))
                for one in store.entries(named_stream(entry)) if entry.type == _RESTORED else (entry,):
                    for family in made:
                        if one.type in family.types:
                            family.take(one, index)
            for family in made:
                family.finish(index)
            index.read_up_to(page.cursor)
        if len(page.entries) < AT_ONCE:
            return
        if progress is not None:
            progress(page.entries[-1].position)


def _key(entry: Entry) -> str:
    """The key of what was deleted: the id of a run or a task."""
    stream = named_stream(entry)
    return task_of(stream) or stream
