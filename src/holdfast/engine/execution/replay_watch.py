"""Watches a replay whose code waits for something that holdfast does not know.

The code is at rest and has not asked for the next recorded outcome, but a task waits for a socket, a thread
or the queue of another program: it may still ask. After some seconds this is logged; when the patience is
over, it is a divergence.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.engine.execution import delivery as delivery_rules

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from holdfast.engine.execution.task_delivery import TaskDelivery

_WARN_S = 5.0

logger = logging.getLogger("holdfast")


class ReplayWatch:
    """One per async run."""

    def __init__(self, delivery: TaskDelivery) -> None:
        self._delivery = delivery
        self._timer: TimerHandle | None = None

    def begin(self) -> None:
        """Start the timer, unless it is running."""
        if self._timer is None:
            delay = min(_WARN_S, self._patience())
            self._timer = self._delivery.later(delay, self._warn, self._delivery.progress)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _warn(self, progress: int) -> None:
        self._timer, missing = None, self._missing(progress)
        if not missing:
            self._delivery.wake()
            return
        places = [wait.place for wait in self._delivery.waits() if wait.kind != "holdfast" and wait.place]
        logger.warning(
            "run %s waits in its replay: the history has %s next, and the code waits at %s",
            self._delivery.run.id, missing, ", ".join(places) or "no place that holdfast knows",
        )  # fmt: skip
        left = max(0.0, self._patience() - _WARN_S)
        self._timer = self._delivery.later(left, self._lose_patience, progress)

    def _lose_patience(self, progress: int) -> None:
        self._timer = None
        if self._missing(progress):
            self._delivery.lose_patience()
        else:
            self._delivery.wake()

    def _missing(self, progress: int) -> str:
        """The call that the code has not made, if nothing has happened since."""
        return self._delivery.missing() if progress == self._delivery.progress else ""

    def _patience(self) -> float:
        waits = self._delivery.waits()
        alone = len(self._delivery.run.engine.live) <= 1  # else another run may hold the lock
        own = alone and bool(waits) and all(wait.kind != "unknown" for wait in waits)
        most = delivery_rules.PATIENCE_S
        return min(delivery_rules.OWN_PATIENCE_S, most) if own else most
