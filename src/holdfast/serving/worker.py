"""A process that executes the runs of one directory's code: `python -P -m holdfast.serving.worker FD ...`.

`Workers` starts it for `hf.serve` and `hf.replay`, and sends it requests over a socket
(`holdfast.serving.protocol`). If it cannot open the store, it answers with the reason and ends. Before it
takes a run it checks whether the files that it has loaded are still the same; if not, it refuses the run, and
another worker takes it. It ends on request, or when the process that started it is gone. It prints nothing
itself: standard output and standard error belong to the code of the runs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.serving.protocol import INTERRUPTED, PROTOCOL, SIGNALS, error_fields, send

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.outside.records import LogEvent
    from holdfast.engine.runs.loaded_files import LoadedFiles
    from holdfast.store.port import OwnerRow, RunRow

_GRACE_S = 10.0


class Worker:
    """Takes runs until it is asked to end, and ends when the last of them has ended."""

    def __init__(self, channel: Channel, engine: Engine, loaded: LoadedFiles) -> None:
        self._channel = channel
        self._engine = engine
        self._loaded = loaded
        self._under_way: list[threading.Thread] = []
        self._stopping = False
        self._ending = threading.Event()

    def serve(self) -> None:
        self._channel.send({"protocol": PROTOCOL})
        threading.Thread(target=self._listen, daemon=True).start()
        self._ending.wait()
        for thread in self._under_way:
            thread.join()

    def _listen(self) -> None:
        """Read requests, also while the last runs end: they may still be stopped, and the parent process may
        still end."""
        for request in self._channel.messages():
            self._obey(request)
        if self._stopping:
            os._exit(INTERRUPTED)  # the asking process was stopped a second time, and ended at once
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
        """End because this process got SIGTERM."""
        self.stop("SIGTERM stopped it")
        self._ending.set()

    def _obey(self, request: dict[str, Any]) -> None:
        if request["do"] == "stop":
            self.stop(request["why"])
        elif request["do"] == "end":
            self._ending.set()
        elif (changed := self._loaded.changed()) is not None:
            self._channel.send({"number": request["number"], "changed": str(changed)})
        elif not self._ending.is_set():
            self._channel.send({"number": request["number"], "taken": True})
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
            run = take(self._engine, row, partial(self._claimed, number))
            run.rested.wait()
            error = run.outcome.error
        except BaseException as refused:  # the request is answered even if the run's code raises
            error = refused
        self._loaded.changed()  # what was loaded for it is noted now
        self._channel.send({"number": number, "error": error_fields(error)})

    def _claimed(self, number: int, row: RunRow, held: OwnerRow | None) -> None:
        claimed = {
            "run_id": row.id,
            "workflow": row.workflow,
            "pid": os.getpid(),
            "status": row.status,
            "owner": row.owner,
            "owner_pid": None if held is None else held.pid,
        }
        self._channel.send({"number": number, "claimed": claimed})

    def _replay(self, number: int, run_id: str) -> None:
        import msgspec

        from holdfast.operations.replaying import replay

        try:
            found = {"replay": msgspec.to_builtins(replay(self._engine, run_id)), "error": None}
        except BaseException as error:
            found = {"error": error_fields(error)}
        self._channel.send({"number": number, **found})


class Channel:
    """The socket to the process that asks. Thread-safe."""

    def __init__(self, channel: socket.socket) -> None:
        self._socket = channel
        self._lock = threading.Lock()

    def send(self, fields: dict[str, Any]) -> None:
        with self._lock:
            send(self._socket, fields)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Until the other side is gone."""
        with self._socket.makefile("rb") as lines:
            for line in lines:
                yield json.loads(line)

    def send_scan(self, entries: int, size: int) -> None:
        self.send({"scan": [entries, size]})

    def end_scan(self, event: LogEvent) -> None:
        """The files that were scanned are saved."""
        if event.type == "FilesSaved":
            self.send_scan(0, 0)


def main() -> None:
    """`FD HOME DIRECTORY SCANS [ROOT [ONLY_MISSING]]`: the socket, the store, where the code is, whether to
    report (`1`) scans of the files, and the directory that `--root` names."""
    # Ctrl-C reaches every process of the terminal; the one that started this one decides what it means.
    # Before any thread is started: what a thread starts must not inherit blocked signals.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    from holdfast.engine.runs.code import own_process
    from holdfast.engine.runs.loaded_files import LoadedFiles
    from holdfast.errors import HoldfastError

    descriptor, home, directory = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    loaded = LoadedFiles(directory)
    os.set_inheritable(descriptor, False)
    channel = Channel(socket.socket(fileno=descriptor))
    own_process()
    try:
        _serve(channel, loaded, home, sys.argv[4] == "1", sys.argv[5:])
    except HoldfastError as error:
        channel.send({"refused": error_fields(error)})


def _serve(channel: Channel, loaded: LoadedFiles, home: str, scans: bool, root: list[str]) -> None:
    from holdfast import wiring

    place = wiring.find_place({"home": home}, create=False)
    store = wiring.open_store(place)
    try:
        # The process that started this one has made the backup, and has finished what was cut off.
        engine = wiring.open_engine(
            place,
            store,
            on_event=channel.end_scan if scans else None,
            on_progress=channel.send_scan if scans else None,
            to_look=True,
            root=Path(root[0]) if root else None,
            only_missing=bool(root[1:]),
        )
        try:
            worker = Worker(channel, engine, loaded)
            # In a thread: the one that the signal interrupts may hold what stopping needs.
            signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=worker.dismiss).start())
            worker.serve()
        finally:
            engine.close()
    finally:
        store.close()


if __name__ == "__main__":
    main()
