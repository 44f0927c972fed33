"""Serving a store: commands are executed in this process, the code of workflows by worker processes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import Refused, StoreClosed
from holdfast.serving.served import Served, Taken

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.engine import Engine
    from holdfast.engine.runs.serving import OnServed
    from holdfast.serving.workers import Workers
    from holdfast.store.port import OwnerRow, RunRow

logger = logging.getLogger("holdfast")

OnTaken = Callable[[Taken], None]


class ServeCall:
    """One call of `hf.serve`. `stop` may be called from any thread."""

    def __init__(
        self,
        engine: Engine,
        workers: Workers,
        *,
        stop: threading.Event,
        on_served: OnServed,
        on_taken: OnTaken | None,
    ) -> None:
        from holdfast.engine.runs.serving import Service

        if not engine.options.resume:
            raise Refused(
                "the setting `resume` is off: no run is resumed automatically here; name a run, or change it"
            )
        self._engine = engine
        self._workers = workers
        self._stop = stop
        self._why = "serving was stopped"
        self._on_taken = on_taken
        self.ended = threading.Event()
        """Set when `serve` has stopped its workers and runs."""
        limit = engine.options.recover_limit
        taken = None if on_taken is None else self._report
        self._service = Service(engine, limit, on_served, workers.resume, taken)

    def stop(self, why: str) -> None:
        """End serving: its runs stop at their next step boundary."""
        self._why = why
        self._stop.set()

    def serve(self, *, follow: bool, root: Path | None) -> Served:
        """Serve what can be executed now; with `follow`, until it is stopped. `root` counts for runs whose
        own project is gone."""
        location = self._engine.location
        given, only_missing = location.given, location.only_missing
        location.look_in(root, only_missing=True)
        try:
            (self._service.run if follow else self._service.drain)(self._stop)
        except StoreClosed:
            if not self._stop.is_set():
                raise
        except BaseException:  # Ctrl-C in the caller's thread, most likely: nothing is served any more
            self._stop.set()
            raise
        finally:
            if self._stop.is_set():
                self._workers.stop(self._why)
                self._service.end(self._why)
            self._workers.close()
            location.look_in(given, only_missing=only_missing)
            self.ended.set()
        return Served(self._service.served, self._stop.is_set())

    def _report(self, row: RunRow, held: OwnerRow | None) -> None:
        assert self._on_taken is not None
        held_pid = None if held is None else held.pid
        try:
            self._on_taken(Taken(row.id, row.workflow, os.getpid(), row.status, row.owner, held_pid))
        except Exception:  # the run is claimed, and executed whatever the callback does
            logger.exception("a callback of `serve` raised; serving continues")
