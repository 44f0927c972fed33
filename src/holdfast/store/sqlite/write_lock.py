"""The write lock: one writer at a time among all processes, served in turn.

SQLite's own lock is polled (busy_timeout): with four busy processes a writer was seen to wait
1,332 ms. A blocking flock is a queue kept by the kernel: 12 ms, and equal shares.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType

from holdfast.file_lock import lock, open_lock, try_lock, unlock

_LONG_S = 5.0
"""Whoever holds the gate for so long does not work: it is stopped, or its disk is."""
_LOOK_EVERY_S = 1.0
_A_WRITE_S = 0.005


class WriteLock:
    """Held around every write transaction. The lock file is never the database: closing a
    descriptor of the database would drop the locks that SQLite holds on it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = open_lock(path)

    def __enter__(self) -> None:
        try:
            if not try_lock(self._fd):
                self._wait()
        except BaseException:  # Ctrl-C as the lock was granted: nobody else would get it
            unlock(self._fd)
            raise

    def _wait(self) -> None:
        since = time.monotonic()
        _watch(self, since)
        try:
            lock(self._fd)
        finally:
            _waiting.pop(self, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unlock(self._fd)

    @property
    def marked(self) -> bool:
        """Whether there was a store here once: a database that is missing or empty now is a loss."""
        return os.fstat(self._fd).st_size > 0

    def mark(self) -> None:
        """There is a store now. One that cannot be marked is marked by the next process that opens it."""
        try:
            os.pwrite(self._fd, b"1", 0)
        except OSError:
            pass

    def tell(self, waited_s: float) -> None:
        """Say who keeps this process waiting: a stopped one holds the gate until it continues or dies, and
        nobody would know why nothing happens."""
        import logging

        pid, state = _holder(self._fd) or (0, "")
        who = f"process {pid}" if pid else "another process"
        stopped = ", which is stopped (SIGSTOP)" if state == "T" else ""
        text = "waiting for %d s to write to the store: %s is held by %s"
        logging.getLogger("holdfast").warning(text, waited_s, self._path, who + stopped)

    def release_stopped_writer(self, pid: int) -> None:
        """If the process `pid` was stopped while it held the gate: let it continue until it has left it, and
        stop it again. Nobody could write otherwise, short of ending that process."""
        import signal

        try:
            while _holder(self._fd) == (pid, "T"):
                os.kill(pid, signal.SIGCONT)
                time.sleep(_A_WRITE_S)
                os.kill(pid, signal.SIGSTOP)
                while _state(pid) not in "TZX":
                    time.sleep(_A_WRITE_S)
        except OSError:
            pass  # it died meanwhile: that opens the gate too; or it is not this user's to stop

    def close(self) -> None:
        os.close(self._fd)


# Long waits are told of, once each, by a thread that lives while there are any.

_waiting: dict[WriteLock, float] = {}
_watching = threading.Lock()
_watcher: threading.Thread | None = None


def _watch(gate: WriteLock, since: float) -> None:
    global _watcher
    with _watching:
        _waiting[gate] = since
        if _watcher is None or not _watcher.is_alive():  # a forked child has none
            _watcher = threading.Thread(target=_look, name="holdfast-gate", daemon=True)
            _watcher.start()


def _look() -> None:
    global _watcher
    while True:
        time.sleep(_LOOK_EVERY_S)
        with _watching:
            if not _waiting:
                _watcher = None
                return
        now = time.monotonic()
        for gate, since in list(_waiting.items()):
            if now - since >= _LONG_S and _waiting.pop(gate, None) is not None:
                gate.tell(now - since)


def _holder(fd: int) -> tuple[int, str] | None:
    """Who has the lock of this file, and its state in the letters of ps, where the system tells."""
    try:
        inode = str(os.fstat(fd).st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, pid, file, *_ = line.split()
            if kind == "FLOCK" and file.rpartition(":")[2] == inode:
                return int(pid), _state(int(pid))
    except (OSError, ValueError):
        pass
    return None


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
