"""The write gate: one writer at a time among all processes, served in turn.

SQLite's own lock is polled (busy_timeout): with four busy processes a writer was seen to wait
1,332 ms. A blocking flock is a queue kept by the kernel: 12 ms, and equal shares.
"""

from __future__ import annotations

import fcntl
import os
from types import TracebackType


class WriteGate:
    """Held around every write transaction. The lock file is never the database: closing a
    descriptor of the database would drop the locks that SQLite holds on it."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except BaseException:  # Ctrl-C as the lock was granted: nobody else would get it
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

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

    def close(self) -> None:
        os.close(self._fd)
