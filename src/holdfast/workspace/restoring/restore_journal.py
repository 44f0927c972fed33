"""The journal of a restore: what it is about to do, so that the next process can finish it or undo it.

    staging ──▶ applying ──▶ done ──▶ (removed)
       │            │
       ▼            ▼
   (removed)     undoing ──▶ undone ──▶ (removed)

While *staging*, new contents are made beside the old ones under names of ours. While *applying*, the old ones
move aside and the new ones into their place, by renames alone: that needs no room on the disk, and each can
be concluded from what is there. *Done* and *undone* only tidy up, as does a restore that got no further than
*staging*.

What is staged is synced before *applying* is, *applying* before the first rename, and *done* before the first
deletion: a deletion can be on the disk earlier than a byte that was written before it. The renames are not:
after a power cut *done* can be there without all of them, so the process that finds it does again what is
missing. They, and what was tidied up, are synced together before the journal is removed.
"""

from __future__ import annotations

import os
import stat
from enum import Enum
from hashlib import sha256
from pathlib import Path

import msgspec

from holdfast import typed_values
from holdfast.durable_file import replace_file, sync_directory
from holdfast.errors import WorkspaceError
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.snapshots.listing import Entry

_DIGEST = 32
PREFIX = b".holdfast-restore-"


class Phase(Enum):
    STAGING = "S"
    APPLYING = "A"
    DONE = "D"
    UNDOING = "U"
    UNDONE = "N"


class Item(msgspec.Struct, array_like=True, frozen=True):
    """One path: what is there, and what is to be there. A mode of 0 means nothing at all.

    `seen` is size, time of change and inode of what was there: whatever is found moved aside and has others
    was changed by another program at the last moment.
    """

    path: bytes
    before_mode: int
    before_ref: bytes
    after_mode: int
    after_ref: bytes
    seen: tuple[int, int, int] | None

    @property
    def is_swap(self) -> bool:
        """Neither side is a directory: one rename does it, and there is always a file of that name."""
        both = bool(self.before_mode) and bool(self.after_mode)
        return both and not stat.S_ISDIR(self.before_mode) and not stat.S_ISDIR(self.after_mode)

    @property
    def before(self) -> Entry | None:
        return Entry(self.before_mode, Ref(self.before_ref)) if self.before_mode else None

    @property
    def after(self) -> Entry | None:
        return Entry(self.after_mode, Ref(self.after_ref)) if self.after_mode else None


class Move(msgspec.Struct, array_like=True, frozen=True):
    """A path whose directory stays: with all that is beneath it, it is replaced, made or removed as one."""

    number: int
    item: Item
    inner: list[Item]


class Journal(msgspec.Struct, frozen=True):
    """A restore in hand: what moves, files of which only the mode changes, and directories whose mode changes
    or has to be widened meanwhile, as (path, before, after)."""

    token: str
    phase: Phase
    moves: list[Move]
    chmods: list[Item]
    modes: list[tuple[bytes, int, int]]

    def staged(self, move: Move) -> bytes:
        """The name under which the new content waits, in the directory of its path."""
        return PREFIX + f"{self.token}-{move.number}.new".encode()

    def aside(self, move: Move) -> bytes:
        """The name under which the old content waits."""
        return PREFIX + f"{self.token}-{move.number}.old".encode()


class JournalFile:
    """Where the journal of one workspace lies; there is at most one.

    Its first byte is the phase, which is changed in place: that needs no room on the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        return self._path.exists()

    def read(self) -> Journal | None:
        """The journal that a crash left. Raises WorkspaceError if it is damaged."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        payload = data[1 + _DIGEST :]
        try:
            if sha256(payload).digest() == data[1 : 1 + _DIGEST]:
                journal = typed_values.unpack(payload, Journal)
                return msgspec.structs.replace(journal, phase=Phase(data[:1].decode()))
        except (msgspec.MsgspecError, ValueError):
            pass
        raise WorkspaceError(
            f"the journal of an unfinished restore is damaged: {self._path}; look for files named "
            f"{PREFIX.decode()}* in the workspace, put them right and remove the journal"
        )

    def write(self, journal: Journal) -> None:
        payload = msgspec.msgpack.encode(journal)
        replace_file(self._path, journal.phase.value.encode() + sha256(payload).digest() + payload)

    def mark(self, phase: Phase) -> None:
        """The restore continues to another phase, for good."""
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(fd, phase.value.encode(), 0)
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        sync_directory(self._path.parent)
