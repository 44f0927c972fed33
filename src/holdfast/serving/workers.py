"""The worker processes of a store: one for each interpreter, working directory and directory of code.

Modules of two directories never meet in one process. A worker whose files have changed since it loaded them
is replaced: it ends with the runs that it has, and a new one takes the next run. If a worker dies that had
several runs, any of them may have ended it: each is resumed at once in a worker of its own, so that the
others make progress.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.runs.recovery import check_directory
from holdfast.errors import EndedElsewhere, HoldfastError
from holdfast.serving.interpreter import Interpreters
from holdfast.serving.protocol import SIGNALS, error_of, send
from holdfast.serving.served import Taken
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.runs.code_location import Location
    from holdfast.kernel.events import Code

logger = logging.getLogger("holdfast")

_IDLE = 4
"""How many workers are kept when they have nothing to do."""
_LOOK_EVERY_S = 0.5
_TRIES = 5


class _Key(NamedTuple):
    interpreter: str
    cwd: str
    directory: str
    alone: str = ""
    """The only run that it has, if a worker died that had it together with others."""


class _Gone(Exception):
    """The worker ended before it took the run."""


class _Died(Exception):
    """The worker ended while it had the run, and perhaps `others`."""

    def __init__(self, code: int, others: bool) -> None:
        self.code = code
        self.others = others


class Workers:
    """Thread-safe. `close` waits until all have ended."""

    def __init__(
        self,
        home: Path,
        location: Location,
        interpreters: Interpreters,
        *,
        stdout: IO[Any] | int | None = None,
        on_taken: Callable[[Taken], None] | None = None,
        on_scan: Callable[[int, int], None] | None = None,
    ) -> None:
        """`stdout` is where the code of the runs prints to. `on_taken` gets each run that a worker has
        claimed, `on_scan` the progress of its scans of the files, (0, 0) at their end; both from any
        thread."""
        self._home = home
        self._on_taken = on_taken
        self._on_scan = on_scan
        self._alone: set[str] = set()
        self._location = location
        self._interpreters = interpreters
        self._stdout = stdout
        self._lock = threading.Lock()
        self._starting: dict[_Key, threading.Lock] = {}
        self._workers: dict[_Key, _Worker] = {}
        self._retired: list[_Worker] = []
        self._why = ""

    def resume(self, run_id: str, code: Code) -> HoldfastError | None:
        """Execute the run until it ends or waits; returns the error that stopped it, or None."""
        try:
            return error_of(self._ask("resume", run_id, code)["error"])
        except HoldfastError as error:
            return error

    def replay(self, run_id: str, code: Code) -> dict[str, Any]:
        """The findings of `operations.replaying.replay`, as data."""
        reply = self._ask("replay", run_id, code)
        error = error_of(reply["error"])
        if error is not None:
            raise error
        found: dict[str, Any] = reply["replay"]
        return found

    def stop(self, why: str) -> None:
        """Make all runs stop at their next step boundary."""
        with self._lock:
            self._why = why
            workers = [*self._workers.values(), *self._retired]
        for worker in workers:
            worker.send({"do": "stop", "why": why})

    def close(self) -> None:
        """Ask all workers to end, and wait for them."""
        with self._lock:
            workers = [*self._workers.values(), *self._retired]
            self._workers, self._retired = {}, []
        for worker in workers:
            worker.send({"do": "end"})
        for worker in workers:
            worker.process.wait()

    def _ask(self, what: str, run_id: str, code: Code) -> dict[str, Any]:
        now = self._location.now(code)
        check_directory(run_id, code, now)
        key = _Key(
            self._interpreters.choose(run_id, now.interpreter),
            now.cwd or os.getcwd(),
            _directory(now),
            run_id if run_id in self._alone else "",
        )
        for _ in range(_TRIES):
            worker = self._worker(key)
            try:
                reply = worker.ask(what, run_id)
            except _Gone:
                self._retire(key, worker)
                continue
            except _Died as died:
                self._retire(key, worker)
                if not died.others or self._why:
                    raise EndedElsewhere(_ended(run_id, key.directory, died.code), died.code) from None
                self._alone.add(run_id)
                key = key._replace(alone=run_id)
                continue
            except HoldfastError:
                self._retire(key, worker)
                raise
            if "changed" not in reply:
                self._release(key, worker)
                return reply
            self._retire(key, worker)
        raise EndedElsewhere(f"no worker for the code in {key.directory} took it; its files keep changing", 1)

    def _worker(self, key: _Key) -> _Worker:
        """The worker of that key, with one more run to come."""
        with self._lock:
            turn = self._starting.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                worker = self._workers.get(key)
                if worker is not None and worker.process.poll() is None:
                    worker.waited_for += 1
                    return worker
            given = self._location.given
            root = () if given is None else (str(given), *(("only",) if self._location.only_missing else ()))
            scans = "1" if self._on_scan is not None else "0"
            worker = _Worker(key, [str(self._home), key.directory, scans, *root], self._stdout, self._report)
            with self._lock:
                worker.waited_for += 1
                self._workers[key] = worker
                why = self._why
            if why:  # all others were stopped meanwhile
                worker.send({"do": "stop", "why": why})
            return worker

    def _report(self, message: dict[str, Any]) -> None:
        """Pass on what a worker reports beside its answers. Those must still be read if a callback raises."""
        try:
            if "claimed" in message and self._on_taken is not None:
                self._on_taken(Taken(**message["claimed"]))
            elif "scan" in message and self._on_scan is not None:
                self._on_scan(*message["scan"])
        except Exception:
            logger.exception("a callback of `serve` raised; serving continues")

    def _retire(self, key: _Key, worker: _Worker) -> None:
        """Give the worker no more runs; it ends when its last one has ended."""
        with self._lock:
            if self._workers.get(key) is worker:
                del self._workers[key]
            self._retired = [one for one in self._retired if one.process.poll() is None] + [worker]
        worker.send({"do": "end"})

    def _release(self, key: _Key, worker: _Worker) -> None:
        """Called after an answer: retire a worker that was started for a single run."""
        if key.alone:
            self._alone.discard(key.alone)
            self._starting.pop(key, None)
            self._retire(key, worker)
        self._retire_idle()

    def _retire_idle(self) -> None:
        """Retire idle workers, except the few that were used last."""
        with self._lock:
            idle = [(key, one) for key, one in self._workers.items() if not one.waited_for]
        idle.sort(key=lambda pair: pair[1].last_used)
        for key, worker in idle[:-_IDLE]:
            self._retire(key, worker)


class _Worker:
    """One process, and the requests that it has not answered."""

    def __init__(
        self,
        key: _Key,
        arguments: list[str],
        stdout: IO[Any] | int | None,
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs, _signals_later():
                self.process = subprocess.Popen(
                    [
                        key.interpreter,
                        "-P",
                        "-m",
                        "holdfast.serving.worker",
                        str(theirs.fileno()),
                        *arguments,
                    ],
                    cwd=key.cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    pass_fds=(theirs.fileno(),),
                )
        except OSError as error:
            ours.close()
            raise EndedElsewhere(f"{key.interpreter} cannot be started in {key.cwd}: {error}", 1) from error
        self._report = report
        self._channel = ours
        self._channel.settimeout(_LOOK_EVERY_S)
        self._lock = threading.Lock()
        self._number = 0
        self._asked: dict[int, _Asked] = {}
        self._gone = False
        self._refusal: HoldfastError | None = None
        self.waited_for = 0
        self.last_used = time.monotonic()
        threading.Thread(target=self._listen, name="holdfast-worker", daemon=True).start()

    def ask(self, what: str, run_id: str) -> dict[str, Any]:
        """The answer. Raises `_Gone` if it ended before it took the run, `_Died` if it did while it had it,
        and the error with which it has refused to serve at all."""
        asked = _Asked()
        with self._lock:
            self._number += 1
            number = self._number
            if not self._gone:
                self._asked[number] = asked
        try:
            if number not in self._asked or not self.send({"do": what, "run": run_id, "number": number}):
                raise self._refusal or _Gone
            return asked.reply.result()
        finally:
            with self._lock:
                self._asked.pop(number, None)
            self.waited_for -= 1
            self.last_used = time.monotonic()

    def send(self, fields: dict[str, Any]) -> bool:
        """False if it is gone."""
        with self._lock:
            return send(self._channel, fields)

    def _listen(self) -> None:
        """Read answers until the worker has ended: a process that it has left running may keep the socket
        open."""
        said = b""
        spoke = False
        while True:
            try:
                piece = self._channel.recv(65536)
            except TimeoutError:
                if self.process.poll() is None:
                    continue
                piece = b""
            except OSError:
                piece = b""
            if not piece:
                break
            *lines, said = (said + piece).split(b"\n")
            for line in lines:
                spoke = True
                self._take(json.loads(line))
        self._end(self.process.wait(), spoke)

    def _take(self, reply: dict[str, Any]) -> None:
        if "refused" in reply:
            self._refusal = error_of(reply["refused"])
        if "claimed" in reply or "scan" in reply:
            self._report(reply)
            return
        asked = self._asked.get(reply.get("number", 0))
        if asked is None:
            return
        if "taken" in reply:
            asked.taken = True
        else:
            asked.reply.set_result(reply)

    def _end(self, code: int, spoke: bool) -> None:
        with self._lock:
            self._gone = True
            left = list(self._asked.values())
            self._channel.close()
        left = [asked for asked in left if not asked.reply.done()]
        taken = [asked for asked in left if asked.taken or not spoke]
        for asked in left:
            if self._refusal is not None:
                asked.reply.set_exception(self._refusal)
            elif asked in taken:
                asked.reply.set_exception(_Died(code, others=spoke and len(taken) > 1))
            else:
                asked.reply.set_exception(_Gone())


@contextmanager
def _signals_later() -> Iterator[None]:
    """A process that is started here gets Ctrl-C and SIGTERM when it is ready for them and unblocks them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Asked:
    def __init__(self) -> None:
        self.taken = False
        self.reply: Future[dict[str, Any]] = Future()


def _directory(code: Code) -> str:
    """The directory of the code: the one of its script, or the one that its module is imported from."""
    if code.script and not code.module:
        return str(Path(code.script).parent)
    return ("" if code.argv else code.directory) or code.cwd


def _ended(run_id: str, where: str, code: int) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    again = quoted(Way("resume", run_id))
    return f"run {run_id} stopped: its process for {where} {how}; {again} continues"
