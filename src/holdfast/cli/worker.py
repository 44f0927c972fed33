"""A process that executes the runs of one directory's code: `python -P -m holdfast.cli.worker FD HOME ...`.

It is started by `resume --all` and `replay` (`holdfast.cli.workers`), which asks it over a socket, a line of
JSON for each request and each answer. If it cannot open the store, it answers with the reason and ends.
Before it takes a run it looks whether the files that it has loaded are still the same; if not, it refuses the
run, and another worker takes it. It ends on request, or when the process that started it is gone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.stopping import INTERRUPTED, SIGNALS

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.runs.loaded_files import LoadedFiles
    from holdfast.engine.runs.serving import OnTaken

PROTOCOL = 1
"""Raised when requests or answers change: two that do not agree do not work together."""
_GRACE_S = 10.0


class Worker:
    """Takes runs until it is told to end, and then ends when the last of them has."""

    def __init__(
        self,
        channel: socket.socket,
        engine: Engine,
        loaded: LoadedFiles,
        on_taken: OnTaken | None = None,
    ) -> None:
        self._on_taken = on_taken
        self._channel = channel
        self._engine = engine
        self._loaded = loaded
        self._lock = threading.Lock()
        self._under_way: list[threading.Thread] = []
        self._stopping = False
        self._ending = threading.Event()

    def serve(self) -> None:
        self._answer({"protocol": PROTOCOL})
        threading.Thread(target=self._listen, daemon=True).start()
        self._ending.wait()
        for thread in self._under_way:
            thread.join()

    def _listen(self) -> None:
        """Also while the last runs end: they may still be stopped, and the asker may still go."""
        with self._channel.makefile("rb") as requests:
            for line in requests:
                self._obey(json.loads(line))
        if self._stopping:
            os._exit(INTERRUPTED)  # whoever asked was told to stop at once, after it was told to stop
        # It was killed. The runs stop as soon as they can, and are not waited for long.
        last = threading.Timer(_GRACE_S, os._exit, (INTERRUPTED,))
        last.daemon = True
        last.start()
        self.stop("the process that served the store is gone")
        self._ending.set()

    def stop(self, why: str) -> None:
        """Stop the runs at their next step boundary."""
        self._stopping = True
        self._engine.stop(why)

    def dismiss(self) -> None:
        """Somebody wants this very process to end."""
        self.stop("SIGTERM stopped it")
        self._ending.set()

    def _obey(self, request: dict[str, Any]) -> None:
        if request["do"] == "stop":
            self.stop(request["why"])
        elif request["do"] == "end":
            self._ending.set()
        elif (changed := self._loaded.changed()) is not None:
            self._answer({"number": request["number"], "changed": str(changed)})
        elif not self._ending.is_set():
            self._answer({"number": request["number"], "taken": True})
            work = self._resume if request["do"] == "resume" else self._replay
            thread = threading.Thread(target=work, args=(request["number"], request["run"]), daemon=True)
            self._under_way = [one for one in self._under_way if one.is_alive()] + [thread]
            thread.start()

    def _resume(self, number: int, run_id: str) -> None:
        from holdfast.engine.runs.serving import take
        from holdfast.errors import RunNotFound

        error: BaseException | None
        try:
            row = self._engine.store.run(run_id)
            if row is None:
                raise RunNotFound(run_id)
            run = take(self._engine, row, self._on_taken)
            run.rested.wait()
            error = run.outcome.error
        except BaseException as refused:  # whatever the run's code does: it is answered
            error = refused
        self._loaded.changed()  # what was loaded for it is noted now
        self._answer({"number": number, "error": _fields(error)})

    def _replay(self, number: int, run_id: str) -> None:
        import msgspec

        from holdfast.operations.replaying import replay

        try:
            found = {"replay": msgspec.to_builtins(replay(self._engine, run_id)), "error": None}
        except BaseException as error:
            found = {"error": _fields(error)}
        self._answer({"number": number, **found})

    def _answer(self, fields: dict[str, Any]) -> None:
        with self._lock:
            _send(self._channel, fields)


def _fields(error: BaseException | None) -> dict[str, Any] | None:
    from holdfast.errors import HoldfastError

    if error is None:
        return None
    if isinstance(error, HoldfastError):
        return {"code": error.code, "message": str(error)}
    return {"code": "", "message": f"{type(error).__name__}: {error}"}


def main() -> None:
    """`FD HOME DIRECTORY REPORTS [ROOT [ONLY_MISSING]]`: the socket, the store, where the code is, whether to
    print (`1`) which runs it takes, and what `--root` said."""
    # Ctrl-C reaches every process of the terminal; whoever started this one decides what it means. Before any
    # thread is started: what a thread starts must not inherit blocked signals.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    from holdfast.engine.runs.code import own_process
    from holdfast.engine.runs.loaded_files import LoadedFiles
    from holdfast.errors import HoldfastError

    descriptor, home, directory = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    loaded = LoadedFiles(directory)
    os.set_inheritable(descriptor, False)
    channel = socket.socket(fileno=descriptor)
    own_process()
    try:
        _serve(channel, loaded, home, sys.argv[4] == "1", sys.argv[5:])
    except HoldfastError as error:
        _send(channel, {"refused": _fields(error)})


def _serve(channel: socket.socket, loaded: LoadedFiles, home: str, reports: bool, root: list[str]) -> None:
    from holdfast import wiring
    from holdfast.cli import access
    from holdfast.cli.serving import say_taken

    place = wiring.find_place({"home": home}, create=False)
    store = wiring.open_store(place)
    try:
        # The process that started this one has made the backup, and has finished what was cut off.
        opening = access.open_engine if reports else wiring.open_engine
        given = Path(root[0]) if root else None
        engine = opening(place, store, to_look=True, root=given, only_missing=bool(root[1:]))
        try:
            worker = Worker(channel, engine, loaded, say_taken if reports else None)
            # In a thread: the one that the signal interrupts may hold what stopping needs.
            signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=worker.dismiss).start())
            worker.serve()
        finally:
            engine.close()
    finally:
        store.close()


def _send(channel: socket.socket, fields: dict[str, Any]) -> None:
    try:
        channel.sendall(json.dumps(fields).encode() + b"\n")
    except OSError:
        pass  # the reader is gone


if __name__ == "__main__":
    main()
