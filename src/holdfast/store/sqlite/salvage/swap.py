"""Putting a repaired database in the place of a damaged one, while no process can open either.

The old files get a second place first. Until the new one has its name, the directory has no database, so
that opening the store meanwhile is refused. If the repair is killed at any moment, the next one restores the
old files, or finds that the swap was finished.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from holdfast.durable_file import replace_file, sync_directory
from holdfast.errors import StoreHeld
from holdfast.project import DATABASE
from holdfast.store.sqlite.backup import BESIDE, beside, explained
from holdfast.store.sqlite.forked import is_open_here
from holdfast.store.sqlite.restore import REPAIRED
from holdfast.store.sqlite.seal import sync
from holdfast.store.sqlite.write_lock import WriteLock

UNFINISHED: Final = "unfinished"
_SHARED: Final = (0x40000002, 510)
"""The bytes that every open connection of SQLite keeps locked, and that a new one must lock."""


@contextmanager
def closed_to_others(home: Path) -> Iterator[int]:
    """Inside, no other process has the database open or can open it. Gives its descriptor, -1 if there is no
    database. No other descriptor of the file may be closed inside: that would drop the lock. Raises
    StoreHeld."""
    path = home / DATABASE
    with ExitStack() as stack:
        with explained(home):
            write_lock = WriteLock(str(home / "write.lock"))
        stack.callback(write_lock.close)
        stack.enter_context(write_lock)
        if not write_lock.had_store:
            write_lock.record_store()
        fd = -1
        if is_open_here(path):
            raise StoreHeld(home, os.getpid())
        if path.exists():
            with explained(home):
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED[1], _SHARED[0])
            except OSError:
                raise StoreHeld(home, _locking(fd)) from None
        yield fd


def _locking(fd: int) -> int:
    """The process that has the database open, where the system says; 0 if not."""
    try:
        inode = str(os.fstat(fd).st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "POSIX" and words[5].rpartition(":")[2] == inode and int(words[4]) != os.getpid():
                return int(words[4])
    except (OSError, ValueError, IndexError):
        pass
    return 0


def incarnation_of(home: Path) -> str:
    """The incarnation of the store that the directory has, or had, by its write lock; empty if it names
    none."""
    write_lock = WriteLock(str(home / "write.lock"))
    try:
        return write_lock.incarnation
    finally:
        write_lock.close()


def put(fresh: Path, home: Path, kept: Path) -> None:
    """Make the file `fresh` the store's database; the files that were there go to the directory `kept`."""
    path = home / DATABASE
    with fresh.open("rb") as file:
        sync(file.fileno())
    replace_file(kept / UNFINISHED, b"")
    if path.exists():
        (kept / DATABASE).hardlink_to(path)
        sync_directory(kept)
        path.unlink()
        sync_directory(home)
    for suffix in BESIDE:
        try:
            move(beside(path, suffix), beside(kept / DATABASE, suffix))
        except FileNotFoundError:
            pass
    sync_directory(kept)
    move(fresh, path)
    sync_directory(home)
    (kept / UNFINISHED).unlink()


def move(source: Path, target: Path) -> None:
    source.rename(target)


def undo_unfinished(home: Path) -> None:
    """Restore the files that a killed repair has moved."""
    path = home / DATABASE
    for mark in sorted(home.glob(f"{REPAIRED}*/{UNFINISHED}")):
        kept = mark.parent
        second = kept / DATABASE
        if path.exists() and not (second.exists() and second.samefile(path)):
            mark.unlink()  # the new database has its name: only the mark was left
            continue
        for suffix in BESIDE:
            moved = beside(second, suffix)
            if moved.exists() and not beside(path, suffix).exists():
                moved.rename(beside(path, suffix))
        if second.exists() and not path.exists():
            second.rename(path)
        elif second.exists():
            second.unlink()
        sync_directory(home)
        mark.unlink()
