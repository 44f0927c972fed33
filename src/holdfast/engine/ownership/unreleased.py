"""Runs that this process could not release: it executes them no more, and the log still names it.

On a full disk the record of a step fails, and then the release of its run. The process lives, so no other
may take the run; here it can be taken up, cancelled and paused at once. The follower releases it when the
store takes writes again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.ownership.owners import is_alive

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine


class Left(NamedTuple):
    """An execution that has ended. Each has an epoch of its own, so one that is over stays over."""

    epoch: int
    at: int
    """When it ended, in microseconds: what changed in files later was not the run's."""


class Unreleased:
    """Thread-safe. May hold runs that are released in truth: the log decides, by owner and epoch."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._left: dict[str, Left] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, run_id: str, epoch: int) -> None:
        """The execution of this epoch has ended, and it is not known that its release was written."""
        with self._lock:
            self._left[run_id] = Left(epoch, self._engine.clock.now_us())
        self._engine.follower.ensure()

    def find(self, run_id: str, epoch: int) -> Left | None:
        """The execution that ended here without a release, if it is that of this epoch."""
        left = self._left.get(run_id)
        return left if left is not None and left.epoch == epoch else None

    def all(self) -> list[tuple[str, Left]]:
        with self._lock:
            return list(self._left.items())

    def forget(self, run_id: str, left: Left) -> None:
        with self._lock:
            if self._left.get(run_id) is left:
                del self._left[run_id]


def is_held(engine: Engine, run_id: str, owner: str, epoch: int) -> bool:
    """Whether a process executes a run that has this owner and this epoch in the log, or is about to.

    A claim raises the epoch. So a caller that acts on the answer must see the same owner and epoch in its
    write transaction, and needs to know nothing of the turns of this process's threads.
    """
    if not owner or engine.unreleased.find(run_id, epoch) is not None:
        return False
    return is_alive(engine.home, owner)
