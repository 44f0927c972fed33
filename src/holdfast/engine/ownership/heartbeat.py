"""Signs of life: after a crash, what changed in the files later than the last of them was not the run's."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.execution import Execution

BEAT_S = 0.5


class Heartbeat:
    """Says that this owner is alive, as long as runs with files are executed here."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._runs: set[str] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def beat_for(self, run: Execution) -> None:
        """Interrupts the run if no thread is left: without a heartbeat, what an attempt changed before a
        crash would not be rolled back."""
        self._engine.beat()
        with self._lock:
            self._runs.add(run.id)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._beat, name="holdfast-heartbeat", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise run.interrupt(f"no thread for its heartbeat: {error}") from None
            self._thread = thread

    def _beat(self) -> None:
        while True:
            self._closed.wait(BEAT_S)
            with self._lock:
                self._runs &= self._engine.live.keys()
                if not self._runs or self._engine.closing or self._closed.is_set():
                    self._thread = None
                    return
            self._engine.beat()

    def close(self) -> None:
        """Nothing is executed any more. Waits for its thread: a later fork has none beside it."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join()
