"""The databases that a forked child must not touch.

SQLite keeps the state of a file's locks in memory, and a forked child inherits it: a new connection to a file
that the parent had open would assume locks that it does not hold. And a mutex inside SQLite that another
thread held at the moment of the fork is never released in the child, which then hangs when it opens any
database.
"""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import Protocol

from holdfast.errors import StoreClosed
from holdfast.store.sqlite.inode import Inode, inode_of


class Abandoned(Protocol):
    @property
    def path(self) -> Path: ...

    def abandon(self) -> tuple[Inode | None, object]:
        """In a forked child: become unusable, without a call into SQLite. Gives the database's inode, and
        what must never be freed."""
        ...


_open: weakref.WeakSet[Abandoned] = weakref.WeakSet()
_beside_threads = False
_hazard = False
_inherited: set[Inode | None] = set()
_kept: list[object] = []


def watch(store: Abandoned) -> None:
    """From here on, forked children are refused the store."""
    _open.add(store)


def forget(store: Abandoned) -> None:
    """It is closed: a child that is forked from now on may open it."""
    _open.discard(store)


def is_open_here(path: Path) -> bool:
    """Whether this process has the store of that database open. Its locks would not show: they are the
    process's own."""
    return any(store.path.resolve() == path.resolve() for store in list(_open))


def refuse_inherited(path: Path) -> None:
    """Raise `StoreClosed` if this process cannot safely open the database."""
    if _hazard:
        raise StoreClosed(
            f"the store {path} cannot be opened here: this process was forked while a store was open and "
            "other threads ran; fork before that, or start the process anew (spawn, exec)"
        )
    if _inherited and inode_of(str(path)) in _inherited - {None}:
        raise StoreClosed(
            f"the store {path} was open in the process that this one was forked from, and cannot be "
            "used safely here: open it only after the fork, or start the process anew (spawn, exec)"
        )


def _before() -> None:
    global _beside_threads
    _beside_threads = threading.active_count() > 1


def _in_child() -> None:
    global _hazard
    for store in list(_open):
        inode, kept = store.abandon()
        _inherited.add(inode)
        _kept.append(kept)
        _hazard = _hazard or _beside_threads
    _open.clear()


os.register_at_fork(before=_before, after_in_child=_in_child)
