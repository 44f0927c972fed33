"""The side of `Holdfast` that follows what other processes do: attached runs, the feed of all events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast import wiring
from holdfast.facade.open_store import OpenStore, blocking, texts

if TYPE_CHECKING:
    from holdfast.engine.runs.run import Run
    from holdfast.views.feed import FeedPage


class Following(OpenStore):
    """Methods that change nothing and execute nothing; a read-only Holdfast has them, too."""

    def attach(self, run_id: str) -> Run[Any]:
        """A handle on a run that another process executes, or none does: it never executes the run.

        `result()` and `await` return when the run ends: its result, or its error, or `RunCancelled`. A run
        that is interrupted, paused or waits for a person is waited for. `result(timeout=S)`, and closing this
        Holdfast, raise `RunWaiting`. In a running event loop it is `await` that raises `RunNotFound`.

        Raises `NotTrusted` for a store that this user did not make or trust: a result may be of a class of
        the code that it names, which is loaded then.
        """
        wiring.refuse_foreign_code(self.home)
        return self._engine.attach(run_id)

    @blocking
    def feed(
        self,
        after: str = "",
        limit: int = 1000,
        types: Sequence[str] | None = None,
        wait_s: float = 0.0,
    ) -> FeedPage:
        """A page of the events of all streams, in the order of the log, redacted. It has only what is on the
        disk for good.

        after   the cursor of the page before; empty: from the beginning
        limit   at most so many events
        types   only events of these types
        wait_s  if there is no event yet, wait so many seconds for one

        The cursor of the page leads to the next one, also where the page is empty. Raises `Resync` if the
        cursor is not of this store's history: then begin again without one.
        """
        from holdfast.views.feed import read_page

        return read_page(
            self._store,
            self._reader.redactor,
            after,
            limit=limit,
            types=texts(types, "types="),
            wait_s=wait_s,
        )
