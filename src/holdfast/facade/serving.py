"""The side of `Holdfast` that executes runs in processes of their own: serve, replay, resume one run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from holdfast import wiring
from holdfast.facade.open_store import OpenStore, blocking

if TYPE_CHECKING:
    from holdfast.engine.runs.code_location import Location
    from holdfast.operations.replaying import Replay
    from holdfast.serving.resumption import Resumption
    from holdfast.serving.served import Served, Taken
    from holdfast.serving.workers import Workers
    from holdfast.views.run_detail import RunDetail

OnServed = Callable[["RunDetail", BaseException | None], None]
"""(the run, why it did not come to its end or None)."""
OnReplayed = Callable[[int, int, str], None]
"""(number, of how many, run id), before each run."""


class Serving(OpenStore):
    """Methods that start processes for the code of runs, one for each interpreter and directory."""

    @blocking
    def serve(
        self,
        *,
        follow: bool = False,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        on_started: Callable[[str], None] | None = None,
        on_served: OnServed | None = None,
        on_taken: Callable[[Taken], None] | None = None,
        on_note: Callable[[str], None] | None = None,
        stdout: IO[Any] | int | None = None,
        stop: threading.Event | None = None,
    ) -> Served:
        """Resume every run that can continue without a person: interrupted ones, those whose gate was
        decided, whose signal came or whose sleep is over. Failed runs, and those that wait for a person, are
        left alone.

        The code of workflows is executed by worker processes, each with the modules of one directory; a
        worker is replaced when its files change. Commands are executed here. Any number of processes may
        serve one store. The callbacks are called from threads of their own. Meanwhile the index of `search`
        is kept up to date, every few seconds.

        follow      serve until `stop` is set or `hf.stop()` is called, not only what can continue now
        python      the interpreter for all of them (default: the one that each run was started with)
        root        where the project is now, for runs whose own project is gone
        on_started  called once with the id of this process as an owner, before the first run is taken
        on_served   called with a run that ended, that waits, or that could not be executed, and the error
                    that kept it from its end, or None
        on_taken    called with each run that was claimed, and who held it before
        on_note     called with a sentence about the interpreter that is used
        stdout      where the code of workflows prints to (default: standard output of this process)
        stop        set it to end serving: the runs stop at their next step boundary

        Raises `Refused` if the setting `resume` is off.
        """
        from holdfast.facade.drain_thread import DrainThread
        from holdfast.serving.serve_call import ServeCall

        engine = self._to_write()
        taken = None if on_taken is None else self._redacted(on_taken)
        workers = self._workers(engine.location, python, on_note, stdout=stdout, on_taken=taken)

        def served(run_id: str, error: BaseException | None) -> None:
            try:
                if on_served is not None:
                    on_served(self._reader.detail(run_id), error)
            except Exception:  # what the callback does is no matter of the other runs
                import logging  # 4 ms that `holdfast list` need not pay

                logging.getLogger("holdfast").exception("a callback of `serve` raised; serving continues")
            finally:
                wiring.keep_to_quota(self._place, engine)

        call = ServeCall(engine, workers, stop=stop or threading.Event(), on_served=served, on_taken=taken)
        self._serve_calls.append(call)
        indexing = DrainThread("search", self._store.pulse, self._fill_index)
        try:
            if on_started is not None:
                on_started(engine.owner_id)
            return call.serve(follow=follow, root=None if root is None else Path(root))
        finally:
            indexing.close()
            self._serve_calls.remove(call)

    def _fill_index(self) -> None:
        """Fill the search index, so that a search need not. An error here is reported by the next search."""
        try:
            self._open_search().drain()
        except Exception:
            import logging

            logging.getLogger("holdfast").debug("the search index could not be filled", exc_info=True)

    @blocking
    def replay(
        self,
        run_id: str | None = None,
        *,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        on_note: Callable[[str], None] | None = None,
        on_progress: OnReplayed | None = None,
    ) -> list[Replay]:
        """Check the history of a run against the code as it is now, without running a step; without a run, of
        all that can be resumed, the oldest first.

        The workflow's function is executed with the recorded results, in a process of its own, up to the
        first call that has none. What it does between its steps, it does; what it prints goes to standard
        error. Nothing is written to the store.

        python       the interpreter for the code (default: the one that each run was started with)
        root         where the project is now; without a run, it counts for runs whose own project is gone
        on_note      called with a sentence about the interpreter that is used
        on_progress  called with (number, of how many, run id) before each run

        Raises `NotTrusted` for a store that this user did not make or trust: it names the code to execute.
        """
        from holdfast.serving.replaying import replay, replayable

        wiring.refuse_foreign_code(self.home)
        ids = replayable(self._store) if run_id is None else [self._known(run_id)]
        given = None if root is None else Path(root)
        location = wiring.find_location(self._place, given, only_missing=run_id is None)
        workers = self._workers(location, python, on_note, stdout=sys.stderr)
        return replay(self._store, workers, ids, on_progress)

    @blocking
    def resumption(
        self,
        run_id: str,
        *,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        passed_on: bool = False,
        on_note: Callable[[str], None] | None = None,
    ) -> Resumption:
        """The process that can resume this run alone: its interpreter and its working directory.
        `passed_on`: this process was started for this run, and is not replaced. Raises `CodeNotFound` if that
        directory is gone, `NotFound` if `python` cannot be used."""
        from holdfast.serving.resumption import prepare

        return prepare(
            self._store, wiring.find_location(self._place), self._known(run_id),
            root=None if root is None else Path(root), python=python, passed_on=passed_on, on_note=on_note,
        )  # fmt: skip

    def _workers(
        self,
        location: Location,
        python: str | None,
        on_note: Callable[[str], None] | None,
        *,
        stdout: IO[Any] | int | None,
        on_taken: Callable[[Taken], None] | None = None,
    ) -> Workers:
        from holdfast.serving.interpreter import Interpreters
        from holdfast.serving.workers import Workers

        return Workers(
            self.home, location, Interpreters(python, on_note), stdout=stdout, on_taken=on_taken,
            on_scan=self._on_scan,
        )  # fmt: skip

    def _redacted(self, on_taken: Callable[[Taken], None]) -> Callable[[Taken], None]:
        import msgspec

        def report(taken: Taken) -> None:
            workflow = self._reader.redactor.redact(taken.workflow)
            on_taken(msgspec.structs.replace(taken, workflow=workflow))

        return report
