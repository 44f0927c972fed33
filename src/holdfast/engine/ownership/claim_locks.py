"""ClaimLocks: of the threads of one process, one at a time claims a run, until it is among the live ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import RunHeld

T = TypeVar("T")

_PATIENCE_S = 10.0
_NOBODY = 0


class ClaimLocks:
    """Thread-safe. The thread that has the turn for a run has claimed it, or is about to."""

    def __init__(self) -> None:
        self._threads: dict[str, int] = {}
        """Run → the thread whose turn it is; `_NOBODY` while a claim that was cut off is undone."""
        self._changed = threading.Condition()

    def take(self, run_id: str, live: Callable[[], T | None]) -> T | None:
        """Wait for the turn. If another thread has made the run live by then, give that instead. Raises
        `RunHeld` if that one takes too long: nothing but the turn keeps two threads of one owner apart."""
        with self._changed:
            free = self._changed.wait_for(lambda: run_id not in self._threads, _PATIENCE_S)
            found = live()
            if found is None:
                if not free:
                    way = f"another thread of it has tried to claim the run for {_PATIENCE_S:g} s; try again"
                    raise RunHeld(run_id, os.getpid(), os.uname().nodename, way)
                self._threads[run_id] = threading.get_ident()
            return found

    def take_over(self, run_id: str) -> bool:
        """The turn goes to this thread, from the one that handed the run to it; False if that was cut off."""
        with self._changed:
            if not self._threads.get(run_id, _NOBODY):
                return False
            self._threads[run_id] = threading.get_ident()
            return True

    def cut_off(self, run_id: str) -> bool:
        """Whether this thread had the turn. Then no thread gets it before `leave`."""
        with self._changed:
            mine = self._threads.get(run_id) == threading.get_ident()
            if mine:
                self._threads[run_id] = _NOBODY
            return mine

    def leave(self, run_id: str) -> None:
        """The claim has failed, or the run is live."""
        with self._changed:
            self._threads.pop(run_id, None)
            self._changed.notify_all()
