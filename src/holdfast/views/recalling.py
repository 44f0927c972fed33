"""Finding memories: by words, kind and scope, now or as they were."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from holdfast.kernel import memory as m
from holdfast.kernel.events import decode
from holdfast.store.port import MemoryFilter, Recorded, Store
from holdfast.views.moments import Happened

_PAGE = 1000


def recall(
    store: Store,
    query: str,
    which: MemoryFilter,
    *,
    happened: Happened | None = None,
    limit: int | None = None,
) -> list[m.Memory]:
    """The memories in which every word of `query` occurs, in any case, the newest first; with `happened`, of
    those that there were at that moment, as they were then."""
    words = query.casefold().split()
    found: list[m.Memory] = []
    for one in _now(store, which) if happened is None else _then(store, which, happened):
        if limit is not None and len(found) >= limit:
            break
        text = f"{one.text}\n{one.source}\n{' '.join(one.cites)}".casefold() if words else ""
        if all(word in text for word in words):
            found.append(one)
    return found


def _now(store: Store, which: MemoryFilter) -> Iterator[m.Memory]:
    before = 0
    while page := store.memories(which, before=before, limit=_PAGE):
        yield from page
        before = page[-1].version


def _then(store: Store, which: MemoryFilter, happened: Happened) -> Iterator[m.Memory]:
    entries = takewhile(happened, store.entries(m.STREAM))
    every = m.fold(Recorded(decode(one.type, one.payload), one.version, one.at) for one in entries)
    return (one for one in reversed(list(every)) if which.lets_through(one))
