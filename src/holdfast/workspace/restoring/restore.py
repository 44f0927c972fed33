"""Doing what a plan says, so that a crash at any point leaves the old files or the new ones.

The work of `journal.py`: stage, apply, tidy up, and the way back. Every operation names an entry of a
directory that was opened by descriptor (`beneath.py`), and every one can be repeated: what was done is seen
from which of our names are there, and from the inode of the old file. What is deleted in the end is what was
saved in a snapshot before; anything else that is found under our names was written by others at the last
moment, and is saved then (`removal.py`).
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from holdfast.durable_file import NO_LINKS
from holdfast.errors import ContentsDamaged
from holdfast.thread_pool import ThreadPool
from holdfast.workspace.contents import store_files
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.fs import beneath, exchange
from holdfast.workspace.fs.lock_safe_open import opened
from holdfast.workspace.restoring.removal import (
    Removal,
    is_as_seen,
    rewritten,
    status_of,
    was_made,
    was_there,
)
from holdfast.workspace.restoring.restore_journal import Item, Journal, JournalFile, Move, Phase
from holdfast.workspace.restoring.staging import Staging
from holdfast.workspace.snapshots.listing import Entry

_WIDE = 0o700
_FEW = 32
_HANDS = 4


class Disturbed(Exception):
    """Others changed a path between the snapshot and its turn."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        super().__init__(f"{beneath.shown(path)} was changed meanwhile")


class Rewritten(Disturbed):
    """A file has the size and the time that the snapshot saw, and another content: it was written through a
    mapping, which shows in its time only when the system writes it back."""


class Restore:
    """One restore, from its journal: done, continued, or undone."""

    def __init__(self, root: int, contents: Contents, file: JournalFile, journal: Journal) -> None:
        self._root = root
        self._contents = contents
        self._file = file
        self.journal = journal
        self._walk = beneath.Walk(root)
        self._removal = Removal(contents)
        self._one_by_one = sum(1 + len(move.inner) for move in journal.moves) <= _FEW
        self.unreachable: list[bytes] = []
        """Paths whose directory others moved away, so that they could not be put right."""
        self.damaged: list[bytes] = []
        """Paths whose content could not be read, so that they were left alone."""

    @property
    def rescued(self) -> dict[bytes, Entry]:
        """Files written at the last moment, by path: saved, and no longer in the tree."""
        return self._removal.rescued

    # The way forward

    def stage(self, *, partial: bool) -> None:
        """Make everything new beside the old. Raises ContentsDamaged unless it may be `partial`."""
        self._file.write(self.journal)
        for path, before, _ in self.journal.modes:
            if before & _WIDE != _WIDE:
                self._set_mode(path, before | _WIDE)
        usable = self._stage_all()
        if self.damaged and not partial:
            raise ContentsDamaged([beneath.shown(path) for path in self.damaged])
        self._sync()
        if self.damaged:
            self.journal = msgspec.structs.replace(
                self.journal, moves=[move for move in self.journal.moves if move.number in usable]
            )
            self._file.write(self.journal)
        self._enter(Phase.APPLYING)

    def _stage_all(self) -> set[int]:
        """Make what every move brings → the numbers of those that can be carried out."""
        coming = [move for move in self.journal.moves if move.item.after is not None]
        usable = {move.number for move in self.journal.moves if move.item.after is None}
        reading = self._contents.reading()
        coming.sort(key=lambda move: reading.order(Ref(move.item.after_ref)))
        staging = Staging(reading.pieces, sync=self._one_by_one)
        with reading.ahead(Ref(item.after_ref) for move in coming for item in (move.item, *move.inner)):
            for move in coming:
                fd, _ = self._at(move.item.path)
                if staging.make(fd, self.journal.staged(move), move):
                    usable.add(move.number)
        self.damaged = staging.damaged
        return usable

    def apply(self) -> None:
        """Move the old aside and the new into its place. Raises Disturbed or OSError: then `undo`.

        What goes is read before: it is what the snapshot saved, or Rewritten is raised.

        What only goes is first, so that a name that differs from it in case alone finds its place free.
        """
        for move in self._goes_first():
            self._apply(move)
        for item in self.journal.chmods:
            self._set_file_mode(item.path, item.after_mode)
        self._enter(Phase.DONE)

    def undo(self) -> None:
        """Everything back into its place."""
        self._enter(Phase.UNDOING)
        for move in reversed(self._goes_first()):
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
        share = max(_FEW, -(-len(self.journal.moves) // _HANDS))
        shares = [self.journal.moves[at : at + share] for at in range(0, len(self.journal.moves), share)]
        with ThreadPool(_HANDS, "holdfast-tidy") as hands:
            deque(hands.map(self._tidy_share, shares), maxlen=0)
        for path, before, after in reversed(self.journal.modes):
            with self._reaching(path):
                self._set_mode(path, after if done else before)
        self._sync()
        self._walk.close()
        self._file.remove()

    def give_up(self) -> None:
        """Take it back, from where it got to."""
        if self.journal.phase is not Phase.STAGING:
            self.undo()
        elif self._file.exists():
            self._enter(Phase.STAGING)  # the next phase may be written, by a call that failed
        self.tidy()

    def recover(self) -> None:
        """After a crash: on from where it was. While staging nothing had changed: only our names go."""
        self._enter(self.journal.phase)  # its writer may have died before it was synced
        match self.journal.phase:
            case Phase.APPLYING:
                try:
                    self.apply()
                except (Disturbed, OSError):
                    self.undo()
            case Phase.DONE:
                self._apply_again()
            case Phase.UNDOING:
                self.undo()
            case _:
                pass
        self.tidy()

    def _apply_again(self) -> None:
        """Work done before a power cut may be lost, and tidied files may be gone: there is only the
        way forward. What others have put in its place since stays."""
        for move in self._goes_first():
            with self._reaching(move.item.path):
                try:
                    self._apply(move)
                except Disturbed:
                    continue
        for item in self.journal.chmods:
            with self._reaching(item.path):
                self._set_file_mode(item.path, item.after_mode)

    def _goes_first(self) -> list[Move]:
        return sorted(self.journal.moves, key=lambda move: move.item.after is not None)

    def _enter(self, phase: Phase) -> None:
        self._walk.close()
        self._file.mark(phase)
        self.journal = msgspec.structs.replace(self.journal, phase=phase)

    # Moving it into place, and back

    def _apply(self, move: Move) -> None:
        item = move.item
        fd, name = self._at(item.path)
        staged, aside = self.journal.staged(move), self.journal.aside(move)
        if item.after is not None:
            new = status_of(fd, staged)
            if new is None or _is_old(item, new):
                return
        if item.before is not None and status_of(fd, aside) is None:
            if path := rewritten(fd, name, move):
                raise Rewritten(path)
            if item.is_swap and _exchange(fd, staged, name, item):
                return
            _put_aside(fd, name, aside, item)
        if item.is_swap:
            there, old = status_of(fd, name), status_of(fd, aside)
            if there is not None and not (old and os.path.samestat(there, old)):
                raise Disturbed(item.path)
            os.rename(staged, name, src_dir_fd=fd, dst_dir_fd=fd)
        elif item.after is not None:
            _place(fd, staged, name, item.path)

    def _undo(self, move: Move) -> None:
        fd, name = self._at(move.item.path)
        if move.item.is_swap:
            self._undo_swap(fd, name, move)
            return
        staged, aside = self.journal.staged(move), self.journal.aside(move)
        there, new, old = status_of(fd, name), status_of(fd, staged), status_of(fd, aside)
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
            self._removal.delete(fd, aside, move.item.path, was_there(move))

    def _undo_swap(self, fd: int, name: bytes, move: Move) -> None:
        """The old file takes its name back from the new one; what others have put there is saved."""
        staged, aside = self.journal.staged(move), self.journal.aside(move)
        there, new, old = status_of(fd, name), status_of(fd, staged), status_of(fd, aside)
        is_ours = was_made(move)
        if new is not None and (_is_old(move.item, new) or not is_ours(move.item.path, fd, staged, new)):
            aside, old, new = staged, new, None  # they were exchanged
        if old is None:
            return
        if there is None:
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
        elif os.path.samestat(there, old):
            os.unlink(aside, dir_fd=fd)
        elif new is None:
            if not is_ours(move.item.path, fd, name, there):
                self._removal.rescue(move.item.path, fd, name, there)
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
        else:
            self._removal.delete(fd, aside, move.item.path, was_there(move))

    def _tidy_share(self, moves: list[Move]) -> None:
        """In a thread of its own: a file that is deleted waits for its blocks to be freed."""
        walk = beneath.Walk(self._root)
        try:
            for move in moves:
                with self._reaching(move.item.path):
                    self._tidy(walk.to(beneath.split(move.item.path)[0]), move)
        finally:
            walk.close()

    def _tidy(self, fd: int, move: Move) -> None:
        """After the restore the old file goes: an exchange has left it where the new one was made."""
        staged, aside, path = self.journal.staged(move), self.journal.aside(move), move.item.path
        match self.journal.phase:
            case Phase.DONE:
                if not (move.item.is_swap and self._removal.delete(fd, staged, path, was_there(move))):
                    self._removal.delete(fd, aside, path, was_there(move))
            case Phase.UNDONE:
                self._removal.delete(fd, staged, path, was_made(move))
            case _:
                self._removal.delete(fd, staged, path, lambda *_: True)

    # Directories

    def _at(self, path: bytes) -> tuple[int, bytes]:
        """The directory that an entry is in, open until another one is asked for, and its name there."""
        parent, name = beneath.split(path)
        return self._walk.to(parent), name

    @contextmanager
    def _reaching(self, path: bytes) -> Iterator[None]:
        """If others moved the directory away, that is noted, and the rest continues."""
        try:
            yield
        except OSError as exc:
            if exc.errno not in beneath.NOT_THERE:
                raise
            self.unreachable.append(path)

    def _sync(self) -> None:
        """Make the changes durable. Of many files, one sync of the whole disk is quicker."""
        if not self._one_by_one:
            store_files.sync_filesystem(self._root)
            return
        for parent in sorted({beneath.split(move.item.path)[0] for move in self.journal.moves}):
            with self._reaching(parent), beneath.directory(self._root, parent) as fd:
                os.fsync(fd)

    def _set_mode(self, path: bytes, mode: int) -> None:
        with beneath.directory(self._root, path) as fd:
            self._change_mode(fd, mode)

    def _set_file_mode(self, path: bytes, mode: int) -> None:
        fd, name = self._at(path)
        with opened(fd, name) as file:
            self._change_mode(file, mode)

    def _change_mode(self, fd: int, mode: int) -> None:
        os.fchmod(fd, stat.S_IMODE(mode))
        if self._one_by_one:
            os.fsync(fd)


def _is_old(item: Item, status: os.stat_result) -> bool:
    """Whether the old file is under the name of the new one: they were exchanged."""
    return item.is_swap and item.seen is not None and status.st_ino == item.seen[2]


def _exchange(fd: int, staged: bytes, name: bytes, item: Item) -> bool:
    """Old and new change places; False where that cannot be done in one step. Raises Disturbed."""
    try:
        if not exchange.exchange(fd, staged, name):
            return False
    except FileNotFoundError as exc:
        raise Disturbed(item.path) from exc
    status = status_of(fd, staged)
    if status is None or not is_as_seen(item, status):
        exchange.exchange(fd, staged, name)
        raise Disturbed(item.path)
    return True


def _put_aside(fd: int, name: bytes, aside: bytes, item: Item) -> None:
    """A file that another one replaces keeps its name until then. Raises Disturbed."""
    try:
        linked = item.is_swap and _link(fd, name, aside)
        if not linked:
            os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
    except FileNotFoundError as exc:
        raise Disturbed(item.path) from exc
    status = status_of(fd, aside)
    if status is None or not is_as_seen(item, status):
        if linked:
            os.unlink(aside, dir_fd=fd)
        else:
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
        raise Disturbed(item.path)


def _place(fd: int, staged: bytes, name: bytes, path: bytes) -> None:
    """Give what is new its name, unless another process has taken it: then raises Disturbed."""
    new, there = status_of(fd, staged), status_of(fd, name)
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
        if exc.errno in NO_LINKS:
            return False
        raise
    return True
