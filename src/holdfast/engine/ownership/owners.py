"""Owners: one open Holdfast is one owner, alive as long as it holds its lock.

The lock is a flock on a file of the owner's own; the kernel drops it when the process dies, however
it dies. The owner's row is written only after the lock is held, so a row without a lock is a dead
owner, never one that is being opened. Ids are never used again.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.clock import Clock
from holdfast.engine.processes.lock_file import is_held
from holdfast.errors import RunHeld, StoreError
from holdfast.file_lock import lock
from holdfast.process_identity import boot_id as boot_id
from holdfast.project import explained
from holdfast.store.rows import OwnerRow

if TYPE_CHECKING:
    from holdfast.store.port import Store

_BURIED_AT_ONCE = 20


class Owner:
    """This process as an owner of runs. Made at the first claim, ended by `close` or by death."""

    def __init__(self, home: Path, store: Store, clock: Clock) -> None:
        _bury_idle(home, store)
        self.id = clock.uuid().hex[:16]
        self._store = store
        self._path = lock_path(home, self.id)
        with explained(self._path.parent):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        lock(self._fd)  # one who looks whether it is held has it for a moment
        _held.add(self)
        try:
            store.put_owner(OwnerRow(self.id, os.uname().nodename, boot_id(), os.getpid(), clock.now_us()))
        except BaseException:  # it is never used: its lock would be held until the process ends
            self._unlink()
            self._drop()
            raise

    def beat(self) -> None:
        """A sign of life, which stays when this owner dies."""
        if self._fd >= 0:
            try:
                os.utime(self._fd)
            except OSError:
                pass  # then it is as old as the last one

    def close(self) -> None:
        """Leave no trace: the row first, so that no process looks for a lock that is gone."""
        if self._fd < 0:
            return
        try:
            self._store.drop_owner(self.id)
        except StoreError:
            pass  # a full or vanished store: the row stays, without a lock, and so reads as dead
        self._unlink()
        self._drop()

    def _unlink(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            pass  # a file without a row means nothing

    def _drop(self) -> None:
        """Close the descriptor. In a forked child this leaves the parent's lock alone: it ends with
        the last descriptor, and must end with the parent."""
        _held.discard(self)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def lock_path(home: Path, owner_id: str) -> Path:
    return home / "owners" / f"{owner_id}.lock"


def is_alive(home: Path, owner_id: str) -> bool:
    """Whether that owner's lock is held by a live process."""
    return is_held(lock_path(home, owner_id))


def held_by(store: Store, run_id: str, owner_id: str, way: str = "") -> RunHeld:
    """The error for a run that this live owner executes; `way` is what to do about it."""
    row = store.owner(owner_id)
    return RunHeld(run_id, row.pid if row else 0, row.host if row else "?", way)


def last_seen_us(home: Path, owner_id: str) -> int:
    """The last sign of life of an owner, by the wall clock; 0 if there is none left."""
    try:
        return os.stat(lock_path(home, owner_id)).st_mtime_ns // 1000
    except OSError:
        return 0


def bury(home: Path, store: Store, owner_id: str) -> None:
    """Remove what a dead owner left behind, once nothing refers to it. What cannot be removed now can wait
    for the next birth, and what is wrong with the store, the next commit says."""
    try:
        if not is_alive(home, owner_id):
            store.drop_owner(owner_id)
            lock_path(home, owner_id).unlink(missing_ok=True)
    except (StoreError, OSError):
        pass


def _bury_idle(home: Path, store: Store) -> None:
    """Bury dead owners that no run names: nothing is taken over from them.

    Found by their rows, never by their files: a file alone may be of an owner that is just being born,
    whose lock is not held yet. Several processes may bury the same one.
    """
    try:
        for owner in store.idle_owners(_BURIED_AT_ONCE):
            bury(home, store, owner.id)
    except StoreError:
        pass


def booted_at_us() -> int:
    """When this machine was started; 0 if it is not known."""
    try:
        for line in Path("/proc/stat").read_text().splitlines():
            if line.startswith("btime "):
                return int(line.split()[1]) * 1_000_000
    except OSError:
        pass
    return 0


_held: weakref.WeakSet[Owner] = weakref.WeakSet()


def _drop_all() -> None:
    for owner in list(_held):
        owner._drop()


os.register_at_fork(after_in_child=_drop_all)
