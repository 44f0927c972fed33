"""Deleting what is under our names, with a look at what it is: what others wrote is saved before."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from typing import TypeAlias

from holdfast.workspace.contents.batch import LARGE
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.pieces import pieces
from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.lock_safe_open import opened
from holdfast.workspace.restoring.restore_journal import Item, Move
from holdfast.workspace.snapshots.listing import Entry

_WIDE = 0o700

Ours: TypeAlias = Callable[[bytes, int, bytes, os.stat_result], bool]
"""(path, directory, name, status) → whether it is what we think, and may be deleted."""


class Removal:
    """Deletes entries of directories that are open."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.rescued: dict[bytes, Entry] = {}
        """Files written at the last moment, by path: saved, and no longer in the tree."""

    def delete(self, fd: int, name: bytes, path: bytes, is_ours: Ours) -> bool:
        """Delete an entry with all that is in it → whether there was one."""
        status = status_of(fd, name)
        if status is None:
            return False
        if stat.S_ISDIR(status.st_mode):
            with beneath.directory(fd, name) as top:
                self._empty(top, path, is_ours)
            os.rmdir(name, dir_fd=fd)
        else:
            self._delete_file(fd, name, path, status, is_ours)
        return True

    def _empty(self, top: int, path: bytes, is_ours: Ours) -> None:
        """Delete all that is in a directory, by a list: a tree can be deeper than a stack."""
        walk = beneath.Walk(top)
        directories = [b""]
        try:
            for directory in directories:
                fd = walk.to(directory)
                _widen(fd)
                for found in os.listdir(fd):
                    name = os.fsencode(found)
                    inner = beneath.join(directory, name)
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        directories.append(inner)
                    else:
                        self._delete_file(fd, name, beneath.join(path, inner), status, is_ours)
            for directory in reversed(directories[1:]):
                parent, name = beneath.split(directory)
                os.rmdir(name, dir_fd=walk.to(parent))
        finally:
            walk.close()

    def _delete_file(self, fd: int, name: bytes, path: bytes, status: os.stat_result, is_ours: Ours) -> None:
        if not is_ours(path, fd, name, status):
            self.rescue(path, fd, name, status)
        os.unlink(name, dir_fd=fd)

    def rescue(self, path: bytes, fd: int, name: bytes, status: os.stat_result) -> None:
        """Save what others wrote at the last moment."""
        with self._contents.writing() as batch:
            if stat.S_ISLNK(status.st_mode):
                ref = batch.put(os.readlink(name, dir_fd=fd))
            elif stat.S_ISREG(status.st_mode):
                with opened(fd, name) as file:
                    small = status.st_size < LARGE
                    ref = batch.put(os.pread(file, LARGE, 0)) if small else batch.put_file(file)
            else:
                return
        self.rescued[path] = Entry(status.st_mode, ref)


def status_of(fd: int, name: bytes) -> os.stat_result | None:
    """The type of a directory entry; None if there is none."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_as_seen(item: Item, status: os.stat_result) -> bool:
    """Whether what is there is what the snapshot saved. A directory is looked into when it is deleted."""
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(item.before_mode):
        return False
    return stat.S_ISDIR(status.st_mode) or item.seen == (status.st_size, status.st_mtime_ns, status.st_ino)


def rewritten(fd: int, name: bytes, move: Move) -> bytes | None:
    """The path of a file that is as the snapshot saw it, and holds something else; None if there is none."""
    if not stat.S_ISDIR(move.item.before_mode):
        return move.item.path if _is_rewritten(fd, name, move.item) else None
    start = len(move.item.path) + 1
    with beneath.directory(fd, name) as top, closing(beneath.Walk(top)) as walk:
        for item in move.inner:
            parent, inner = beneath.split(item.path[start:])
            try:
                if item.before and item.before.is_file and _is_rewritten(walk.to(parent), inner, item):
                    return item.path
            except OSError as exc:
                if exc.errno not in beneath.NOT_THERE:
                    raise
    return None


def _is_rewritten(fd: int, name: bytes, item: Item) -> bool:
    status = status_of(fd, name)
    if status is None or not stat.S_ISREG(status.st_mode) or not is_as_seen(item, status):
        return False
    return item.before is not None and not _holds(fd, name, status, item.before)


def was_there(move: Move) -> Ours:
    """Whether something is what the snapshot before the restore saw."""
    items = {item.path: item for item in (move.item, *move.inner)}
    return lambda path, _fd, _name, status: path in items and is_as_seen(items[path], status)


def was_made(move: Move) -> Ours:
    """Whether something holds what the restore has put there."""
    items = {item.path: item for item in (move.item, *move.inner)}

    def is_ours(path: bytes, fd: int, name: bytes, status: os.stat_result) -> bool:
        item = items.get(path)
        return item is not None and item.after is not None and _holds(fd, name, status, item.after)

    return is_ours


def _holds(fd: int, name: bytes, status: os.stat_result, entry: Entry) -> bool:
    """Whether a file or a link holds the content of `entry`."""
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(entry.mode):
        return False
    digest = sha256()
    if entry.is_link:
        digest.update(os.readlink(name, dir_fd=fd))
        return digest.digest() == entry.ref
    with opened(fd, name) as file:
        for piece in pieces(file):
            digest.update(piece)
    return digest.digest() == entry.ref


def _widen(fd: int) -> None:
    """A directory that its owner may not change is emptied all the same."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & _WIDE != _WIDE:
        os.fchmod(fd, mode | _WIDE)
