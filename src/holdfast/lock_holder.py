"""Which process holds a lock on a file, where the system says so (Linux: /proc/locks)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple


class LockHolder(NamedTuple):
    """A process that holds a lock, and its state in the letters of ps (`T`: stopped)."""

    pid: int
    state: str

    def __str__(self) -> str:
        return f"process {self.pid}" + (", which is stopped (SIGSTOP)," if self.state == "T" else "")


def find_holder(file: os.stat_result, kind: Literal["FLOCK", "POSIX"]) -> LockHolder | None:
    """The process that holds an exclusive lock of this kind on the file; None if none does, or the system
    does not say. Of POSIX locks, those of this process do not count: they exclude only others."""
    try:
        for line in Path("/proc/locks").read_text().splitlines():
            # 3: FLOCK  ADVISORY  WRITE 1234 00:2a:5678 0 EOF
            words = line.split()
            if words[1] != kind or words[3] != "WRITE" or words[5].rpartition(":")[2] != str(file.st_ino):
                continue
            pid = int(words[4])
            if pid > 0 and not (kind == "POSIX" and pid == os.getpid()):
                return LockHolder(pid, state_of(pid))
    except (OSError, ValueError, IndexError):
        pass
    return None


def state_of(pid: int) -> str:
    """The state of a process in the letters of ps. Raises `OSError` if there is no such process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
