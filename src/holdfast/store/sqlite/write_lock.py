"""The write lock: one writer at a time among all processes, served in turn.

SQLite's own lock is polled (busy_timeout): with four busy processes a writer was seen to wait
1,332 ms. A blocking flock is a queue kept by the kernel: 12 ms, and equal shares.
"""

from __future__ import annotations

import os
import threading
import time
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from types import TracebackType

from holdfast.file_lock import lock, open_lock, unlock

_MARK_BYTES = 17
_LONG_S = 5.0
"""A process that holds the lock for so long does not work: it is stopped, or its disk is."""
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
            try:
                flock(self._fd, LOCK_EX | LOCK_NB)  # by every commit: no call in between
            except BlockingIOError:
                self._wait()
        except BaseException:  # Ctrl-C as the lock was granted: no other process would get it
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
        flock(self._fd, LOCK_UN)

    @property
    def had_store(self) -> bool:
        """Whether there was a store here once: a database that is missing or empty now is a loss."""
        return os.fstat(self._fd).st_size > 0

    @property
    def incarnation(self) -> str:
        """The incarnation of the store that is, or was, here; empty if an older version wrote the file."""
        try:
            return os.pread(self._fd, _MARK_BYTES, 0)[1:].decode("ascii", "replace")
        except OSError:  # it is read again at the next opening
            return ""

    def record_store(self, incarnation: str = "") -> None:
        """Record that there is a store. If that fails, the next process that opens it records it."""
        try:
            os.pwrite(self._fd, b"1" + incarnation.encode(), 0)
        except OSError:
            pass

    def warn(self, waited_s: float) -> None:
        """Warn which process keeps this one waiting: a stopped one holds the lock until it continues or dies,
        and without the warning nothing would show why this one stands still."""
        import logging

        from holdfast.lock_holder import find_holder

        who = str(find_holder(os.fstat(self._fd), "FLOCK") or "another process").rstrip(",")
        text = "waiting for %d s to write to the store: %s is held by %s"
        logging.getLogger("holdfast").warning(text, waited_s, self._path, who)

    def release_stopped_writer(self, pid: int) -> None:
        """If the process `pid` was stopped while it held the lock, continue it until it has released the
        lock, and stop it again. Otherwise no process could write until that one is ended."""
        import signal

        from holdfast.lock_holder import find_holder, state_of

        try:
            while find_holder(os.fstat(self._fd), "FLOCK") == (pid, "T"):
                os.kill(pid, signal.SIGCONT)
                time.sleep(_A_WRITE_S)
                os.kill(pid, signal.SIGSTOP)
                while state_of(pid) not in "TZX":
                    time.sleep(_A_WRITE_S)
        except OSError:
            pass  # it died meanwhile: that frees the lock too; or it is not this user's to stop

    def close(self) -> None:
        os.close(self._fd)


# Long waits are reported, once each, by a thread that lives while there are any.

_waiting: dict[WriteLock, float] = {}
_watching = threading.Lock()
_watcher: threading.Thread | None = None


def _watch(write_lock: WriteLock, since: float) -> None:
    global _watcher
    with _watching:
        _waiting[write_lock] = since
        if _watcher is None or not _watcher.is_alive():  # a forked child has none
            watcher = threading.Thread(target=_look, name="holdfast-write-lock", daemon=True)
            try:
                watcher.start()
            except RuntimeError:  # no thread is left: the next long wait is reported
                return
            _watcher = watcher


def _look() -> None:
    global _watcher
    while True:
        time.sleep(_LOOK_EVERY_S)
        with _watching:
            if not _waiting:
                _watcher = None
                return
        now = time.monotonic()
        for write_lock, since in list(_waiting.items()):
            if now - since >= _LONG_S and _waiting.pop(write_lock, None) is not None:
                write_lock.warn(now - since)
