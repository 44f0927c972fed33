"""Which process a pid is: pids are used again, and those of before a reboot mean nothing."""

from __future__ import annotations

import os
from pathlib import Path


def boot_id() -> str:
    """The id of this boot of the machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def started_ticks(pid: int) -> int | None:
    """When a process was started, in ticks since the boot; None if there is none, or only what is left of it
    until its parent asks (a zombie). 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _probed(pid)
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _probed(pid: int) -> int | None:
    """Without /proc: whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0
