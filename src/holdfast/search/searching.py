"""Search: fill the index, find, and make hits of what was found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.clock import instant
from holdfast.kernel.state import UNFINISHED
from holdfast.search import snippet
from holdfast.search.event_items import EventItems
from holdfast.search.filling import fill
from holdfast.search.finding import Filter, Found, find
from holdfast.search.index import Index, script
from holdfast.search.index_file import fill_file, with_index
from holdfast.search.item import MOST_CHARS, Family
from holdfast.search.memory_items import MemoryItems
from holdfast.search.query import Query, read_query
from holdfast.search.run_items import RunItems
from holdfast.search.task_items import TaskItems
from holdfast.version import __version__
from holdfast.views.search_hit import SearchHit, SearchPage

if TYPE_CHECKING:
    from holdfast.store.port import Store
    from holdfast.views.reader import Reader

HIDDEN: Final = frozenset({"superseded", "withdrawn"})
"""Statuses of items that are found only on request."""
_OF_RUNS: Final = ("runs", "events")


class Search:
    """Searches one store. `history` names it: a store that was restored from a backup has another one.
    `patterns` are what the redactor hides beyond what it always does: with others, the index is made
    again."""

    def __init__(
        self, home: Path, store: Store, reader: Reader, *, history: str, patterns: Sequence[str]
    ) -> None:
        self._home = home
        self._store = store
        self._reader = reader
        self._history = history
        made_by = (script("index.sql"), __version__, MOST_CHARS, tuple(patterns))
        self._format = hashlib.sha256(msgspec.json.encode(made_by)).hexdigest()

    def drain(self) -> bool:
        """Bring the index up to the end of the log; False if its file cannot be written now."""
        return fill_file(self._home, self._format, lambda index: self._fill(index, None))

    def page(
        self,
        text: str,
        which: Filter,
        *,
        limit: int,
        after: str,
        progress: Callable[[int], None] | None = None,
    ) -> SearchPage:
        """The items that fit the query and the filter now."""
        if "interrupted" in which.statuses:
            found = self._reader.page(status=("interrupted",))
            which = msgspec.structs.replace(which, interrupted=tuple(run.id for run in found.runs))

        def use(index: Index) -> SearchPage:
            self._fill(index, progress)
            query = read_query(text, index.tokens)
            found = find(index, query, which, store=self._history, limit=limit, after=after)
            return SearchPage([self._hit(one, query, index) for one in found.items], found.after)

        return with_index(self._home, self._format, use)

    def _fill(self, index: Index, progress: Callable[[int], None] | None) -> None:
        fill(index, self._store, self._families, progress)

    def _families(self) -> list[Family]:
        redactor = self._reader.redactor
        return [
            TaskItems(self._store, redactor),
            RunItems(self._store, self._reader),
            MemoryItems(self._store, redactor),
            EventItems(self._store, redactor),
        ]

    def _hit(self, found: Found, query: Query, index: Index) -> SearchHit:
        # A value that only this process knows to be secret may be in the index of another one.
        redact, tokens = self._reader.redactor.redact, index.tokens
        title = snippet.one_line(redact(found.title))
        body = redact(found.body)
        shown = snippet.cut(body, query, tokens) or snippet.cut(redact(found.rest), query, tokens)
        part, part_marks = shown or (snippet.beginning(body), ())
        return SearchHit(
            found.family,
            found.key,
            found.kind,
            self._status(found),
            instant(found.at),
            title,
            snippet.marks(title, query, tokens),
            part,
            part_marks,
            found.version,
            redact(found.step),
            self._number(found),
        )

    def _number(self, found: Found) -> int:
        """The short number of a task or a run; 0 for a memory, and for what is gone since."""
        if found.family == "memory":
            return 0
        if found.family == "tasks":
            task = self._store.task(found.key)
            return 0 if task is None else task.place
        run = self._store.run(found.key)
        return 0 if run is None else run.number

    def _status(self, found: Found) -> str:
        if found.family in _OF_RUNS and found.status in UNFINISHED:
            run = self._reader.run(found.key)
            return found.status if run is None else run.shown_status
        return found.status
