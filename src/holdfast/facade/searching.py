"""The side of `Holdfast` that searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.errors import BadInput
from holdfast.facade.open_store import OpenStore, blocking, several

if TYPE_CHECKING:
    from holdfast.store.sqlite.backup import Progress
    from holdfast.views.search_hit import SearchPage


class Searching(OpenStore):
    """Full-text search over all that the store has."""

    @blocking
    def search(
        self,
        query: str = "",
        *,
        within: str | Sequence[str] = ("tasks", "runs", "memory", "events"),
        status: str | Sequence[str] | None = None,
        kind: str | Sequence[str] | None = None,
        since: datetime | None = None,
        withdrawn: bool = False,
        limit: int = 20,
        after: str = "",
        on_progress: Progress | None = None,
    ) -> SearchPage:
        """Find the items that have all words of the query, the best first; without a query, the newest.

        query        words, `"phrases"`, `prefix*`, `-word`; everything else is text to look for
        within       any of `tasks`, `runs`, `memory` and `events`
        status       any of these; an event has the status of its run
        kind         any of these: see `SearchHit.kind`
        since        what changed since then
        withdrawn    also memory that was withdrawn or superseded
        after        the `after` of the page before: nothing comes twice or is left out while others write
        on_progress  called with what is done, how much of it, and of how much, while many events are indexed

        The index is a file in the store's directory that is derived from the log, and kept also by a Holdfast
        that is `read_only`. Where it cannot be written, a temporary one is made for each call.
        """
        from holdfast.clock import microseconds
        from holdfast.search.finding import Filter
        from holdfast.search.searching import HIDDEN
        from holdfast.views.search_hit import FAMILIES

        families, statuses = several(within), several(status)
        unknown = [one for one in families if one not in FAMILIES]
        if unknown or not families:
            raise BadInput(f"search(within={within!r}): name some of {', '.join(FAMILIES)}")
        if limit < 1:
            raise BadInput(f"search(limit={limit}): a page has at least 1 hit")
        which = Filter(
            tuple(dict.fromkeys(families)),
            statuses,
            several(kind),
            None if since is None else microseconds(since),
            withdrawn or not HIDDEN.isdisjoint(statuses),
        )
        searching = self._open_search()
        return searching.page(query, which, limit=limit, after=after, progress=self._indexing(on_progress))

    def _indexing(self, on_progress: Progress | None) -> Callable[[int], None] | None:
        if on_progress is None:
            return None
        from holdfast.store.sqlite.database_file import extent

        total = 0

        def progress(position: int) -> None:
            nonlocal total
            total = max(total or extent(self._store.path).events, position)
            on_progress("indexing", position, total)

        return progress
