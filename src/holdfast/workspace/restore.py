"""Doing what a plan says, so that a crash at any point leaves the old files or the new ones.

The work of `journal.py`: stage, apply, tidy up, and the way back. Every operation names an entry of a
directory that was opened by descriptor (`beneath.py`), and every one can be repeated: what was done is seen
from which of our names are there. What is deleted in the end is what was saved in a snapshot before; anything
else that is found under our names was written by somebody at the last moment, and is saved then.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TypeAlias

import msgspec

from holdfast.errors import ContentsDamaged
from holdfast.workspace import beneath, storage
from holdfast.workspace.contents import LARGE, Contents
from holdfast.workspace.journal import Item, Journal, JournalFile, Move, Phase
from holdfast.workspace.listing import Entry

_WIDE = 0o700
_PIECE = 1024 * 1024
_FEW = 32
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK))

Ours: TypeAlias = Callable[[bytes, int, bytes, os.stat_result], bool]
"""(path, directory, name, status) → whether it is what we think, and may be deleted."""


class Disturbed(Exception):
    """Somebody changed a path between the snapshot and its turn."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        super().__init__(f"{beneath.shown(path)} was changed meanwhile")


class Restore:
    """One restore, from its journal: done, gone on with, or taken back."""

    def __init__(self, root: int, contents: Contents, file: JournalFile, journal: Journal) -> None:
        self._root = root
        self._contents = contents
        self._file = file
        self.journal = journal
        self._walk = beneath.Walk(root)
        self._one_by_one = sum(1 + len(move.inner) for move in journal.moves) <= _FEW
        self.rescued: dict[bytes, Entry] = {}
        """What somebody wrote at the last moment, by path: it was saved, and is not in the tree any more."""
        self.unreachable: list[bytes] = []
        """Paths whose directory somebody moved away, so that they could not be put right."""
        self.damaged: list[bytes] = []
        """Paths whose content could not be read, so that they were left alone."""

    # The way forward

    def stage(self, *, partial: bool) -> None:
        """Make everything new beside the old. Raises ContentsDamaged unless it may be `partial`."""
        self._file.write(self.journal)
        for path, before, _ in self.journal.modes:
            if before & _WIDE != _WIDE:
                self._set_mode(path, before | _WIDE)
        usable = [move for move in self.journal.moves if self._stage(move)]
        if self.damaged and not partial:
            raise ContentsDamaged([beneath.shown(path) for path in self.damaged])
        self._sync()
        if self.damaged:
            self.journal = msgspec.structs.replace(self.journal, moves=usable)
            self._file.write(self.journal)
        self._enter(Phase.APPLYING)

    def apply(self) -> None:
        """Move the old aside and the new into its place. Raises Disturbed or OSError: then `undo`.

        What only goes is first, so that a name that differs from it in case alone finds its place free.
        """
        for move in sorted(self.journal.moves, key=lambda move: move.item.after is not None):
            self._apply(move)
        for item in self.journal.chmods:
            self._set_file_mode(item.path, item.after_mode)
        self._sync()
        self._enter(Phase.DONE)

    def undo(self) -> None:
        """Everything back into its place."""
        self._enter(Phase.UNDOING)
        for move in sorted(self.journal.moves, key=lambda move: move.item.after is None):
            with self._reaching(move.item.path):
                self._undo(move)
        for item in self.journal.chmods:
            with self._reaching(item.path):
                self._set_file_mode(item.path, item.before_mode)
        self._sync()
        self._enter(Phase.UNDONE)

    def tidy(self) -> None:
        """Delete what is left under our names, set the modes of directories, forget the journal."""
        done = self.journal.phase is Phase.DONE
        for move in self.journal.moves:
            with self._reaching(move.item.path):
                self._tidy(move)
        for path, before, after in reversed(self.journal.modes):
            with self._reaching(path):
                self._set_mode(path, after if done else before)
        self._sync()
        self._walk.close()
        self._file.remove()

    def recover(self) -> None:
        """After a crash: on from where it was. While staging nothing had changed: only our names go."""
        if self.journal.phase is Phase.APPLYING:
            try:
                self.apply()
            except (Disturbed, OSError):
                self.undo()
        elif self.journal.phase is Phase.UNDOING:
            self.undo()
        self.tidy()

    def _enter(self, phase: Phase) -> None:
        self._walk.close()
        self._file.mark(phase)
        self.journal = msgspec.structs.replace(self.journal, phase=phase)

    # Making what is new

    def _stage(self, move: Move) -> bool:
        """Make the new content of a path and all beneath; False if it cannot be read."""
        after = move.item.after
        if after is None:
            return True
        fd, _ = self._at(move.item.path)
        staged = self.journal.staged(move)
        if not after.is_directory:
            return self._make(fd, staged, after, move.item.path)
        os.mkdir(staged, _WIDE, dir_fd=fd)
        with beneath.directory(fd, staged) as top:
            self._stage_inner(top, move)
        return True

    def _stage_inner(self, top: int, move: Move) -> None:
        """What is in a new directory, each directory before its entries; the modes last, innermost first."""
        start = len(move.item.path) + 1
        made = [(b"", move.item.after_mode)]
        for item in move.inner:
            if item.after is None:
                continue
            inner = item.path[start:]
            parent, name = beneath.split(inner)
            with beneath.directory(top, parent) as fd:
                if item.after.is_directory:
                    os.mkdir(name, _WIDE, dir_fd=fd)
                    made.append((inner, item.after_mode))
                else:
                    self._make(fd, name, item.after, item.path)
        for inner, mode in reversed(made):
            with beneath.directory(top, inner) as fd:
                os.fchmod(fd, stat.S_IMODE(mode))
                if self._one_by_one:
                    os.fsync(fd)

    def _make(self, directory: int, name: bytes, entry: Entry, path: bytes) -> bool:
        """A file or a link, as it was; False if its content is damaged."""
        try:
            if entry.is_link:
                os.symlink(self._contents.read(entry.ref), name, dir_fd=directory)
                return True
            fd = os.open(name, _NEW_FLAGS, 0o600, dir_fd=directory)
            try:
                for piece in self._contents.pieces(entry.ref):
                    _write_all(fd, piece)
                os.fchmod(fd, stat.S_IMODE(entry.mode))
                if self._one_by_one:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except ContentsDamaged:
            if not entry.is_link:
                os.unlink(name, dir_fd=directory)
            self.damaged.append(path)
            return False
        return True

    # Moving it into place, and back

    def _apply(self, move: Move) -> None:
        item = move.item
        fd, name = self._at(item.path)
        staged, aside = self.journal.staged(move), self.journal.aside(move)
        if item.after is not None and _status(fd, staged) is None:
            return
        if item.before is not None and _status(fd, aside) is None:
            self._put_aside(fd, name, aside, item)
        if item.after is not None:
            if move.is_swap:
                there, old = _status(fd, name), _status(fd, aside)
                if there is not None and not (old and os.path.samestat(there, old)):
                    raise Disturbed(item.path)
                os.rename(staged, name, src_dir_fd=fd, dst_dir_fd=fd)
            else:
                _place(fd, staged, name, item.path)

    @staticmethod
    def _put_aside(fd: int, name: bytes, aside: bytes, item: Item) -> None:
        """A file that another one replaces keeps its name until then. Raises Disturbed."""
        try:
            linked = item.is_swap and _link(fd, name, aside)
            if not linked:
                os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        except FileNotFoundError as exc:
            raise Disturbed(item.path) from exc
        status = _status(fd, aside)
        if status is None or not _is_as_seen(item, status):
            if linked:
                os.unlink(aside, dir_fd=fd)
            else:
                os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
            raise Disturbed(item.path)

    def _undo(self, move: Move) -> None:
        fd, name = self._at(move.item.path)
        if move.is_swap:
            self._undo_swap(fd, name, move)
            return
        staged, aside = self.journal.staged(move), self.journal.aside(move)
        there, new, old = _status(fd, name), _status(fd, staged), _status(fd, aside)
        if there is not None and new is not None and os.path.samestat(there, new):
            os.unlink(name, dir_fd=fd)
            there = None
        placed = move.item.after is not None and new is None and (old is not None or move.item.before is None)
        if there is not None and placed:
            os.rename(name, staged, src_dir_fd=fd, dst_dir_fd=fd)
            there = None
        if old is not None and there is None:
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
        elif old is not None:
            self._delete(fd, aside, move.item.path, self._was_there(move))

    def _undo_swap(self, fd: int, name: bytes, move: Move) -> None:
        """The old file takes its name back from the new one; from somebody else's it does not."""
        staged, aside = self.journal.staged(move), self.journal.aside(move)
        there, new, old = _status(fd, name), _status(fd, staged), _status(fd, aside)
        if old is None:
            return
        if there is None:
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
        elif os.path.samestat(there, old):
            os.unlink(aside, dir_fd=fd)
        elif new is None:
            if not self._was_made(move)(move.item.path, fd, name, there):
                self._rescue(move.item.path, fd, name, there)
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
        else:
            self._delete(fd, aside, move.item.path, self._was_there(move))

    # Deleting, with a look at what it is

    def _tidy(self, move: Move) -> None:
        fd, _ = self._at(move.item.path)
        if self.journal.phase is Phase.DONE:
            self._delete(fd, self.journal.aside(move), move.item.path, self._was_there(move))
        elif self.journal.phase is Phase.UNDONE:
            self._delete(fd, self.journal.staged(move), move.item.path, self._was_made(move))
        else:
            self._delete(fd, self.journal.staged(move), move.item.path, lambda *_: True)

    def _delete(self, fd: int, name: bytes, path: bytes, is_ours: Ours) -> None:
        """Delete an entry with all that is in it; what is not ours is saved before."""
        status = _status(fd, name)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            if not is_ours(path, fd, name, status):
                self._rescue(path, fd, name, status)
            os.unlink(name, dir_fd=fd)
            return
        with beneath.directory(fd, name) as inner:
            os.fchmod(inner, stat.S_IMODE(status.st_mode) | _WIDE)
            for found in os.listdir(inner):
                entry = os.fsencode(found)
                self._delete(inner, entry, beneath.join(path, entry), is_ours)
        os.rmdir(name, dir_fd=fd)

    def _was_there(self, move: Move) -> Ours:
        items = {item.path: item for item in (move.item, *move.inner)}
        return lambda path, _fd, _name, status: path in items and _is_as_seen(items[path], status)

    def _was_made(self, move: Move) -> Ours:
        items = {item.path: item for item in (move.item, *move.inner)}

        def is_ours(path: bytes, fd: int, name: bytes, status: os.stat_result) -> bool:
            item = items.get(path)
            return item is not None and item.after is not None and _holds(fd, name, status, item.after)

        return is_ours

    def _rescue(self, path: bytes, fd: int, name: bytes, status: os.stat_result) -> None:
        """Save what somebody wrote at the last moment."""
        with self._contents.writing() as batch:
            if stat.S_ISLNK(status.st_mode):
                ref = batch.put(os.readlink(name, dir_fd=fd))
            elif stat.S_ISREG(status.st_mode):
                file = os.open(name, beneath.FILE_FLAGS, dir_fd=fd)
                try:
                    ref = batch.put(os.read(file, LARGE)) if status.st_size < LARGE else batch.put_file(file)
                finally:
                    os.close(file)
            else:
                return
        self.rescued[path] = Entry(status.st_mode, ref)

    # Directories

    def _at(self, path: bytes) -> tuple[int, bytes]:
        """The directory that an entry is in, open until another one is asked for, and its name there."""
        parent, name = beneath.split(path)
        return self._walk.to(parent), name

    @contextmanager
    def _reaching(self, path: bytes) -> Iterator[None]:
        """If somebody moved the directory away, that is noted, and the rest goes on."""
        try:
            yield
        except OSError as exc:
            if exc.errno not in beneath.NOT_THERE:
                raise
            self.unreachable.append(path)

    def _sync(self) -> None:
        """What was done lasts. Of many files, one sync of all that the disk has to do is the quicker one."""
        if not self._one_by_one:
            storage.sync_filesystem(self._root)
            return
        for parent in {beneath.split(move.item.path)[0] for move in self.journal.moves}:
            with self._reaching(parent), beneath.directory(self._root, parent) as fd:
                os.fsync(fd)

    def _set_mode(self, path: bytes, mode: int) -> None:
        with beneath.directory(self._root, path) as fd:
            os.fchmod(fd, stat.S_IMODE(mode))

    def _set_file_mode(self, path: bytes, mode: int) -> None:
        fd, name = self._at(path)
        file = os.open(name, beneath.FILE_FLAGS, dir_fd=fd)
        try:
            os.fchmod(file, stat.S_IMODE(mode))
        finally:
            os.close(file)


def _place(fd: int, staged: bytes, name: bytes, path: bytes) -> None:
    """Give what is new its name, unless somebody else has taken it: then raises Disturbed."""
    new, there = _status(fd, staged), _status(fd, name)
    if new is None:
        return
    if not stat.S_ISDIR(new.st_mode) and there is None:
        try:
            linked = _link(fd, staged, name)
        except FileExistsError as exc:
            raise Disturbed(path) from exc
        if linked:
            os.unlink(staged, dir_fd=fd)
            return
    elif there is not None and os.path.samestat(new, there):
        os.unlink(staged, dir_fd=fd)
        return
    elif there is not None:
        raise Disturbed(path)
    os.rename(staged, name, src_dir_fd=fd, dst_dir_fd=fd)


def _link(fd: int, name: bytes, other: bytes) -> bool:
    """A second name for a file; False where the filesystem has none."""
    try:
        os.link(name, other, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
    except OSError as exc:
        if exc.errno in _NO_LINKS:
            return False
        raise
    return True


def _status(fd: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_as_seen(item: Item, status: os.stat_result) -> bool:
    """Whether what is there is what the snapshot saved. A directory is looked into when it is deleted."""
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(item.before_mode):
        return False
    return stat.S_ISDIR(status.st_mode) or item.seen == (status.st_size, status.st_mtime_ns, status.st_ino)


def _holds(fd: int, name: bytes, status: os.stat_result, entry: Entry) -> bool:
    """Whether a file or a link holds the content of `entry`."""
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(entry.mode):
        return False
    digest = sha256()
    if entry.is_link:
        digest.update(os.readlink(name, dir_fd=fd))
        return digest.digest() == entry.ref
    file = os.open(name, beneath.FILE_FLAGS, dir_fd=fd)
    try:
        while piece := os.read(file, _PIECE):
            digest.update(piece)
    finally:
        os.close(file)
    return digest.digest() == entry.ref


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
