"""The remains of a dead owner: commands that are still being ended, and when it was last seen alive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.engine.ownership import owners
from holdfast.engine.ownership.heartbeat import BEAT_S
from holdfast.engine.processes.tree_lock import drop_lock, read_stamp, wait_until_dead
from holdfast.errors import HoldfastError, RunHeld, StoreError

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState

_TREE_PATIENCE_S = 10.0


class CommandStillEnding(RunHeld):
    """No process executes the run, but a command of its last owner is not dead yet."""

    def __init__(self, run_id: str, whose: str = "dead") -> None:
        self.run_id = run_id
        self.pid = 0
        self.host = ""
        HoldfastError.__init__(
            self, f"run {run_id}: a command of its {whose} owner is still being ended; try again in a moment"
        )


def command_locks(home: Path, run_id: str) -> Path:
    """The directory of the locks that supervisors of this run's commands hold."""
    return home / "commands" / run_id


def wait_for_commands(locks: Path, run_id: str, epoch: int, whose: str = "dead") -> int:
    """A dead owner's command dies within a second; until its whole tree is dead no process continues.

    Only commands of `epoch` and before: one of a later owner is that owner's own. Returns when the last of
    them was dead, in microseconds; 0 if that is not recorded.
    """
    deadline = time.monotonic() + _TREE_PATIENCE_S
    ended_at = 0
    for lock in locks_up_to(locks, epoch):
        if not wait_until_dead(lock, max(0.0, deadline - time.monotonic())):
            raise CommandStillEnding(run_id, whose)
        stamp = read_stamp(lock)
        ended_at = max(ended_at, stamp.ended_at_ns // 1000 if stamp is not None else 0)
        drop_lock(lock)
    return ended_at


def seen_alive_us(engine: Engine, run_id: str, state: RunState) -> int:
    """When the owner that a run names, which is dead or could not release it, was last seen at it; 0 if it
    names none. Returns when its commands are dead, too."""
    ended_at = wait_for_commands(command_locks(engine.home, run_id), run_id, state.epoch)
    left = engine.unreleased.find(run_id, state.epoch)
    return last_seen_us(engine, state.owner, ended_at) if left is None else max(ended_at, left.at)


def last_seen_us(engine: Engine, dead: str, ended_at: int) -> int:
    """When a dead owner, or a command of it that lived longer, can last have changed files; 0 if there is no
    dead owner. A sign of life is as old as the time between two of them, at most."""
    if not dead:
        return 0
    row = engine.store.owner(dead)
    if row is not None and row.boot != owners.boot_id():  # it died with the machine, if not before
        return max(ended_at, owners.booted_at_us())
    seen = owners.last_seen_us(engine.home, dead)
    return max(ended_at, seen + int(BEAT_S * 1e6) if seen and not ended_at else seen)


def locks_up_to(locks: Path, epoch: int) -> list[Path]:
    """The locks of commands that owners up to `epoch` have started."""
    try:
        paths = sorted(locks.iterdir())
    except FileNotFoundError:
        return []  # no command runs
    except OSError as error:
        raise StoreError(
            f"whether a command runs under {locks} cannot be determined: {error.strerror}"
        ) from error
    return [path for path in paths if path.suffix == ".lock" and _epoch(path) <= epoch]


def _epoch(lock: Path) -> int:
    number = lock.name.partition("-")[0]
    return int(number) if number.isdigit() else 0
