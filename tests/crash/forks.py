"""Lives as forks: everything is imported and warm, so that a life costs what its work costs.

A process that was started with the shim (`shim.environment()`), with no threads and no store open, forks a
`Nursery` once. That one does nothing but fork lives: a life opens the store, runs a workload, and ends by
itself, by its fault, or by a kill at one of its lines. The first process checks, and lives most lives itself
that nobody kills: it never forks again, so none of its pages is shared and copied.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from tests.crash import shim, workloads
from tests.crash.lives import said_of, whole_lines
from tests.crash.side import Side
from tests.crash.workloads import WORKLOADS, Way

PATIENCE_S = 30.0


def prepare(names: Sequence[str]) -> None:
    """Live once through each of these workloads here: so all that a life imports is there, and every fork
    begins warm. Leaves no thread."""
    # Programs that a life starts need no shim.
    os.environ.pop("LD_PRELOAD", None)
    for name in names:
        with tempfile.TemporaryDirectory() as directory:
            WORKLOADS[name].prepare(Path(directory))
            workloads.live(name, Path(directory), Side(None))
    _wait_for_threads()
    gc.collect()
    gc.freeze()


@dataclass
class Life:
    """How a life went, as seen from outside."""

    lines: list[str] = field(default_factory=list)
    stderr: str = ""
    status: int = 0
    """As `waitpid` gives it."""
    hung: bool = False
    fault: shim.Outcome | None = None

    @property
    def killed(self) -> bool:
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL

    @property
    def tries(self) -> int:
        return 1 + len(said_of(self.lines, "again"))

    @property
    def cut(self) -> bool:
        """Whether it may have cut something off: it was killed, or an error ended it or a try of it."""
        return self.killed or any(line.startswith(("again ", "error ")) for line in self.lines)

    def said(self, verb: str) -> str | None:
        """The rest of the last line with that verb."""
        return next(iter(said_of(self.lines, verb)[::-1]), None)


@dataclass(frozen=True)
class Kill:
    """Kill the life so long after it has said a line; until then it waits there, or at its next write."""

    line: str
    after_s: float = 0.0
    hold: str = "here"
    """`here`: the thread that said it goes no further. `write`, `sync`: it is held before its next one."""


def live(
    name: str,
    home: Path,
    fault: shim.Fault | None = None,
    *,
    past: Sequence[str] = (),
    lines_of_commands: Path | None = None,
    way: Way = "run",
    tries: int = 1,
    settle: tuple[str, str] | None = None,
    kill: Kill | None = None,
    bystander: bool = False,
    steerer: bool = False,
) -> Life:
    """One life of a workload in a fork, and what it said. With a `bystander` another process has the store
    open meanwhile, and is killed after it: so nobody tidies up at the last moment. With a `steerer` another
    process steers the runs, and continues that when the life is over."""
    database = home / "holdfast.db"
    if bystander and database.exists():
        with _standing_by(database):
            return live(
                name, home, fault, past=past, lines_of_commands=lines_of_commands, way=way, tries=tries,
                settle=settle, kill=kill, steerer=steerer,
            )  # fmt: skip
    shim.plan(fault or shim.RECORDING, home)
    steering = _Steerer(name, home) if steerer else None
    lines, errors = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(lines[0])
            os.dup2(errors[1], 2)
            side = Side(lines[1], past, lines_of_commands)
            if kill is not None:
                side.hooks[kill.line] = _holder(kill, home)
            shim.arm()
            workloads.live(name, home, side, way=way, tries=tries, settle=settle, steered_here=not steerer)
            shim.disarm()
            sys.stderr.flush()
        except BaseException:
            os.write(lines[1], f"crash {traceback.format_exc()!r}\n".encode())
        finally:
            os._exit(0)
    os.close(lines[1])
    os.close(errors[1])
    life = _follow(pid, lines[0], errors[0], kill)
    life.fault = shim.outcome()
    if steering is not None:
        life.lines += steering.end()
    return life


class _Steerer:
    """A process that steers the runs of a workload; no fault strikes it."""

    def __init__(self, name: str, home: Path) -> None:
        lines, stop = os.pipe(), os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(stop[1])
                workloads.steer(name, home, Side(lines[1]), stop[0])
            finally:
                os._exit(0)
        os.close(lines[1])
        os.close(stop[0])
        self._lines, self._stop = lines[0], stop[1]

    def end(self) -> list[str]:
        """Let it do what is left; what it has said."""
        os.close(self._stop)
        life = _follow(self._pid, self._lines, None, None)
        return [*life.lines, *(["broken it hung"] if life.hung or life.killed else [])]


class Nursery:
    """A process that forks lives, one at a time. Made before this process lives by itself."""

    def __init__(self) -> None:
        self._ours, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._ours.close()
            with suppress(EOFError):
                while True:
                    args, kwargs = theirs.recv()
                    theirs.send(live(*args, **kwargs))
            os._exit(0)
        theirs.close()

    def live(self, *args: Any, **kwargs: Any) -> Life:
        """As `live`, in a fork of the nursery."""
        self._ours.send((args, kwargs))
        life: Life = self._ours.recv()
        return life

    def close(self) -> None:
        self._ours.close()
        os.waitpid(self._pid, 0)


def live_here(
    name: str,
    home: Path,
    fault: shim.Fault | None = None,
    *,
    past: Sequence[str] = (),
    lines_of_commands: Path | None = None,
    way: Way = "run",
    tries: int = 1,
    settle: tuple[str, str] | None = None,
) -> Life:
    """The same in this very process, which has lived for long, with no fault or one that does not kill. What
    it writes to standard error is kept. Ends this process if it hangs: there is nobody else to tell."""
    side = Side(None, past, lines_of_commands)
    with tempfile.TemporaryFile() as errors, _standard_error(errors.fileno()) as real:
        descriptors = _descriptors()
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True, file=real)
        with _struck_by(fault, home):
            workloads.live(name, home, side, way=way, tries=tries, settle=settle)
            _wait_for_threads()
        faulthandler.cancel_dump_traceback_later()
        if _descriptors() > descriptors:
            sys.stderr.write(f"a closed Holdfast has left {_descriptors() - descriptors} descriptors open\n")
        sys.stderr.flush()
        errors.seek(0)
        life = Life(side.past[len(past) :], errors.read().decode(errors="replace"))
    life.fault = None if fault is None else shim.outcome()
    return life


@contextmanager
def _struck_by(fault: shim.Fault | None, home: Path) -> Iterator[None]:
    """What is done meanwhile in this process has the fault."""
    if fault is None:
        yield
        return
    shim.plan(fault, home)
    shim.arm()
    try:
        yield
    finally:
        shim.disarm()


def _descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def _standard_error(fd: int) -> Iterator[int]:
    """Standard error goes to `fd` for a while; gives where it really goes."""
    real = os.dup(2)
    os.dup2(fd, 2)
    try:
        yield real
    finally:
        os.dup2(real, 2)
        os.close(real)


def _wait_for_threads() -> None:
    """A Holdfast that is closed leaves no thread, but for some that are just ending."""
    deadline = time.monotonic() + 5.0
    while (left := threading.enumerate()[1:]) and time.monotonic() < deadline:
        time.sleep(0.0002)
    if left:
        names = [thread.name for thread in left]
        sys.stderr.write(f"threads that a closed Holdfast has left behind: {names}\n")


@contextmanager
def _standing_by(database: Path) -> Iterator[None]:
    """A process that has read the database and holds it open."""
    opened, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            db = sqlite3.connect(database)
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            os.write(said, b"open")
            signal.pause()
        finally:
            os._exit(0)
    os.close(said)
    os.read(opened, 4)
    os.close(opened)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _holder(kill: Kill, home: Path) -> Callable[[], None]:
    """What the life does once it has said the line."""
    if kill.hold == "here":
        return lambda: time.sleep(PATIENCE_S)
    kind = shim.Kind.WRITE if kill.hold == "write" else shim.Kind.SYNC
    fault = shim.Fault(shim.Mode.DELAY, 1, kinds=kind, argument=int(PATIENCE_S * 1e6))
    return lambda: shim.plan(fault, home)


def _follow(pid: int, lines: int, errors: int | None, kill: Kill | None) -> Life:
    """Read what a life says until its end; end it where that was asked for, or when it hangs."""
    said: dict[int, bytes] = {fd: b"" for fd in (lines, errors) if fd is not None}
    open_ones = list(said)
    deadline = time.monotonic() + PATIENCE_S
    wanted = kill.line.encode() + b"\n" if kill is not None else None
    hung = False
    while open_ones:
        ready = select.select(open_ones, [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            hung = wanted is not None or not hung
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + PATIENCE_S
        for fd in ready:
            data = os.read(fd, 1 << 16)
            said[fd] += data
            if not data:
                open_ones.remove(fd)
                os.close(fd)
        if wanted is not None and wanted in said[lines]:
            assert kill is not None
            time.sleep(kill.after_s)
            os.kill(pid, signal.SIGKILL)
            wanted = None
    status = os.waitpid(pid, 0)[1]
    stderr = said[errors].decode(errors="replace") if errors is not None else ""
    return Life(whole_lines(said[lines]), stderr, status, hung)
