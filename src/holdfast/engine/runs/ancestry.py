"""Ancestry: which run is whose child. That never changes, so the store is asked once for each run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

_MOST = 50_000


class Ancestry:
    """Thread-safe: whatever two threads find out at once is the same."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parents: dict[str, str] = {}

    def parent(self, run_id: str) -> str:
        """The id of its parent; empty if it has none, or is not there."""
        parent = self._parents.get(run_id)
        if parent is None:
            row = self._engine.store.run(run_id)
            if row is None:
                return ""
            if len(self._parents) >= _MOST:
                self._parents = {}
            parent = self._parents[run_id] = row.parent
        return parent

    def eldest(self, run_id: str) -> str:
        """The run at the root of its family: its children continue inside it."""
        while parent := self.parent(run_id):
            run_id = parent
        return run_id
