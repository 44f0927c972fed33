"""Keeps the mirror and the search index up to date while a Holdfast stays open: for long-running programs and
for `serve`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_EVERY_S: Final = 2.0
_SHARE: Final = 20
"""A drain that took a second is followed by 20 without one: draining takes at most 5 % of the process."""


class DrainThread:
    """Drains when the log has changed, at most every two seconds. A process that lives shorter drains only
    when it closes."""

    def __init__(
        self,
        name: str,
        pulse: Callable[[], int],
        drain: Callable[[], object],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        """`pulse` is another number when the log has changed; `drain` raises nothing."""
        self._pulse = pulse
        self._drain = drain
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = threading.Thread(
            target=self._run, name=f"holdfast-{name}", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:  # the system has no more threads now: the last drain is at the end
            self._thread = None

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        seen, pause = 0, self._every_s
        while not self._stop.wait(pause):
            try:
                pulse = self._pulse()
            except Exception:  # the store is gone: its next use raises that
                continue
            if pulse != seen:
                seen, begun = pulse, time.monotonic()
                self._drain()
                pause = max(self._every_s, _SHARE * (time.monotonic() - begun))
