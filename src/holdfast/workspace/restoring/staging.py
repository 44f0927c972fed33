"""Making what is new beside the old: files, links, and whole directories, as the snapshot has them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from holdfast.errors import ContentsDamaged
from holdfast.workspace.contents import pieces
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.fs import beneath
from holdfast.workspace.restoring.restore_journal import Move
from holdfast.workspace.snapshots.listing import Entry

_WIDE = 0o700
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Staging:
    """Makes entries in directories that are open. `pieces` reads contents; with `sync` each file lasts."""

    def __init__(self, pieces: Callable[[Ref], Iterator[bytes]], *, sync: bool) -> None:
        self._pieces = pieces
        self._sync = sync
        self.damaged: list[bytes] = []
        """Paths whose content could not be read: they were not made."""

    def make(self, directory: int, name: bytes, move: Move) -> bool:
        """Make what a move brings, under a name of ours; False if its content is damaged."""
        after = move.item.after
        assert after is not None, "what only goes is not made"
        if not after.is_directory:
            return self._make(directory, name, after, move.item.path)
        os.mkdir(name, _WIDE, dir_fd=directory)
        with beneath.directory(directory, name) as top:
            self._fill(top, move)
        return True

    def _fill(self, top: int, move: Move) -> None:
        """A new directory, each directory before its entries; the modes last, innermost first."""
        walk = beneath.Walk(top)
        start = len(move.item.path) + 1
        made = [(b"", move.item.after_mode)]
        try:
            for item in move.inner:
                if item.after is None:
                    continue
                inner = item.path[start:]
                parent, name = beneath.split(inner)
                if item.after.is_directory:
                    os.mkdir(name, _WIDE, dir_fd=walk.to(parent))
                    made.append((inner, item.after_mode))
                else:
                    self._make(walk.to(parent), name, item.after, item.path)
            for inner, mode in reversed(made):
                fd = walk.to(inner)
                os.fchmod(fd, stat.S_IMODE(mode))
                if self._sync:
                    os.fsync(fd)
        finally:
            walk.close()

    def _make(self, directory: int, name: bytes, entry: Entry, path: bytes) -> bool:
        """A file or a link, as it was."""
        try:
            if entry.is_link:
                os.symlink(b"".join(self._pieces(entry.ref)), name, dir_fd=directory)
                return True
            fd = os.open(name, _NEW_FLAGS, 0o600, dir_fd=directory)
            try:
                pieces.write(fd, self._pieces(entry.ref))
                os.fchmod(fd, stat.S_IMODE(entry.mode))
                if self._sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except ContentsDamaged:
            if not entry.is_link:
                os.unlink(name, dir_fd=directory)
            self.damaged.append(path)
            return False
        return True
