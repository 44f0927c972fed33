"""A disk whose power can be cut: what SQLite does to a store's files, recorded, and what may be left of it.

`Recorder` is an SQLite VFS above the system's own. Made the default, it sees every write, truncation, sync,
creation and deletion that the real store makes in its home, without a change to the store. `Disk` plays a
recording and makes the files as a power cut can leave them.

**The model.** A sync of a file makes what was written to it before durable. Of what was not synced, any part
may be there: every write is cut at sectors of 512 bytes, and each piece has arrived or has not, whatever the
order; one that has not may also have left junk in its own range. Nothing outside the written range changes
(SQLite assumes that as well: SQLITE_POWERSAFE_OVERWRITE). The file is as long as the pieces that arrived make
it, or as long as all that was written would, with zeros in between.
A file's creation or deletion is an entry in the directory; entries are durable when the directory is synced,
and until then each name by itself stands where any of its changes left it. SQLite syncs the directory inside
the first sync of a rollback journal or a write-ahead log through the handle that was opened to create it, and
in a deletion that asks for it; nowhere else.

**What is not modelled.** The shared memory file (`-shm`) is made anew by the first connection: it is left
out, or full of junk. Locks (`write.lock`, `owners/`) promise nothing after a power cut: no process is left
that could hold them. The entry of the home itself in its parent is taken to be durable.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

SECTOR = 512


class Write(NamedTuple):
    inode: int
    offset: int
    data: bytes


class Truncate(NamedTuple):
    inode: int
    size: int


class Sync(NamedTuple):
    """Done: what was recorded for the inode before `since` is durable, and so is the directory, if said."""

    inode: int
    since: int
    directory: bool


class Entry(NamedTuple):
    """The directory's entry of a name: from now on this inode, or none."""

    name: str
    inode: int | None


class SyncDirectory(NamedTuple):
    since: int


class Mark(NamedTuple):
    """Something that the program above has said."""

    line: str


class Commit(NamedTuple):
    """A transaction is about to be committed: the one before it can be read."""


Record = Write | Truncate | Sync | Entry | SyncDirectory | Mark | Commit


@dataclass
class Recording:
    """What happened to the files of a home, in order. `start` was there before, and durable."""

    start: dict[str, bytes] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    def lines(self, upto: int | None = None) -> list[str]:
        """What was said before that record."""
        return [record.line for record in self.records[:upto] if isinstance(record, Mark)]


# Recording

_NEW_JOURNAL = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


class Recorder(apsw.VFS):
    """The default VFS of this process from its making on. Records what happens in one home at a time."""

    def __init__(self, name: str = "recorder") -> None:
        self.recording = Recording()
        self._home = ""
        self._inodes: dict[str, int] = {}
        self._count = 0
        self.base = apsw.vfs_names()[0]
        super().__init__(name, self.base, makedefault=True)
        apsw.connection_hooks.append(lambda db: db.set_commit_hook(self._commit))

    def _commit(self) -> bool:
        self.recording.records.append(Commit())
        return False

    def begin(self, home: Path) -> Recording:
        """A new recording, of this home: the files that are there now are its start."""
        self._home = str(home)
        files = sorted(path for path in home.glob("holdfast.db*") if not path.name.endswith("-shm"))
        self.recording = Recording({path.name: path.read_bytes() for path in files})
        self._inodes = {path.name: number for number, path in enumerate(files)}
        self._count = len(files)
        return self.recording

    def _entry_of(self, path: str | None) -> str | None:
        """The name of a file that is recorded: one of the database's, in the home."""
        if not path or os.path.dirname(path) != self._home or path.endswith("-shm"):
            return None
        return os.path.basename(path)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        entry = self._entry_of(path)
        if entry is None:
            return apsw.VFSFile(self.base, name, flags)
        syncs_directory = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _NEW_JOURNAL)
        file = RecordedFile(self, name, flags, syncs_directory)
        if entry not in self._inodes:
            self._inodes[entry] = self._count
            self.recording.records.append(Entry(entry, self._count))
            self._count += 1
        file.inode = self._inodes[entry]
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        entry = self._entry_of(filename)
        if entry is not None and self._inodes.pop(entry, None) is not None:
            records = self.recording.records
            records.append(Entry(entry, None))
            if syncdir:
                records.append(SyncDirectory(len(records)))


class RecordedFile(apsw.VFSFile):
    """A file of the home. A write is recorded before it is made, a sync when it is done: what is written
    meanwhile by another thread does not belong to it."""

    def __init__(self, vfs: Recorder, name: Any, flags: list[int], syncs_directory: bool) -> None:
        super().__init__(vfs.base, name, flags)
        self._vfs = vfs
        self._syncs_directory = syncs_directory
        self.inode = -1

    def xWrite(self, data: bytes, offset: int) -> None:
        self._vfs.recording.records.append(Write(self.inode, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._vfs.recording.records.append(Truncate(self.inode, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        records = self._vfs.recording.records
        since = len(records)
        super().xSync(flags)
        records.append(Sync(self.inode, since, self._syncs_directory))
        self._syncs_directory = False


# Playing

Files = Mapping[str, bytes | bytearray]

LOST, ARRIVED, TORN, JUNK = range(4)


class Piece(NamedTuple):
    """A write within one sector, or a truncation (`data` is None); `at` is its place in the recording."""

    at: int
    offset: int
    data: bytes | None


class Cut(NamedTuple):
    """What a power cut left."""

    files: Files
    style: str
    choice: int
    """Tells one choice of what has arrived from another."""


class _Inode:
    """A file's content: what is durable, what a reader sees now, and what lies between."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.live = bytearray(content)
        self.pending: list[Piece] = []

    def write(self, at: int, offset: int, data: bytes) -> None:
        _put(self.live, offset, data)
        done = 0
        while done < len(data):
            size = min(SECTOR - (offset + done) % SECTOR, len(data) - done)
            self.pending.append(Piece(at, offset + done, data[done : done + size]))
            done += size

    def truncate(self, at: int, size: int) -> None:
        _resize(self.live, size)
        self.pending.append(Piece(at, size, None))

    def sync(self, since: int) -> None:
        later = [piece for piece in self.pending if piece.at >= since]
        for piece in self.pending[: len(self.pending) - len(later)]:
            _apply(self.durable, piece)
        self.pending = later

    def left(self, fates: bytes, whole: bool, chance: random.Random) -> bytearray:
        """The content after a cut; `whole` if the file is as long as all its writes would make it."""
        content = bytearray(self.durable)
        for piece, fate in zip(self.pending, fates, strict=True):
            if fate == ARRIVED:
                _apply(content, piece)
            elif fate != LOST and piece.data is not None:
                _put(content, piece.offset, _damaged(piece.data, fate, chance))
        if whole and len(content) < len(self.live):
            _resize(content, len(self.live))
        return content


class Disk:
    """The disk at a moment of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._inodes = {number: _Inode(data) for number, data in enumerate(recording.start.values())}
        self._entries = {name: number for number, name in enumerate(recording.start)}
        self._live = dict(self._entries)
        self._changes: list[tuple[int, Entry]] = []
        self._records = recording.records
        self._at = 0

    @property
    def unsynced(self) -> int:
        """How many pieces and entries are not durable."""
        inodes = {self._inodes[number] for number in self._reachable()}
        return sum(len(inode.pending) for inode in inodes) + len(self._changes)

    def play(self, upto: int) -> None:
        """Let happen what was recorded before `upto`."""
        for at in range(self._at, upto):
            record = self._records[at]
            if isinstance(record, Write):
                self._inodes[record.inode].write(at, record.offset, record.data)
            elif isinstance(record, Truncate):
                self._inodes[record.inode].truncate(at, record.size)
            elif isinstance(record, Sync):
                self._inodes[record.inode].sync(record.since)
                if record.directory:
                    self._sync_entries(record.since)
            elif isinstance(record, SyncDirectory):
                self._sync_entries(record.since)
            elif isinstance(record, Entry):
                self._change_entry(at, record)
        self._at = max(self._at, upto)

    def files(self) -> Files:
        """As a process that lives on sees them."""
        return {name: bytes(self._inodes[number].live) for name, number in self._live.items()}

    def cut(self, chance: random.Random, style: str = "") -> Cut:
        """What a power cut now may leave, in some style or in this one."""
        style = style or chance.choices(list(STYLES), _WEIGHTS)[0]
        until = chance.randint(self._first_unsynced(), self._at)
        whole = style != "nothing" and chance.random() < 0.3
        entries = self._entries_left(style, until, chance)
        files: dict[str, bytearray] = {}
        choices = [hash(frozenset(entries.items())), whole]
        for name, number in entries.items():
            inode = self._inodes[number]
            fates = bytes(STYLES[style](inode.pending, until, chance))
            files[name] = inode.left(fates, whole, chance)
            choices.append(hash(fates))
        return Cut(files, style, hash(tuple(choices)))

    def _change_entry(self, at: int, entry: Entry) -> None:
        self._changes.append((at, entry))
        if entry.inode is None:
            self._live.pop(entry.name, None)
        else:
            self._inodes.setdefault(entry.inode, _Inode())
            self._live[entry.name] = entry.inode

    def _sync_entries(self, since: int) -> None:
        durable = [entry for at, entry in self._changes if at < since]
        self._changes = self._changes[len(durable) :]
        _change(self._entries, durable)

    def _entries_left(self, style: str, until: int, chance: random.Random) -> dict[str, int]:
        """Each name by itself stands where one of its changes left it."""
        entries = dict(self._entries)
        for name in dict.fromkeys(entry.name for _, entry in self._changes):
            changes = [(at, entry) for at, entry in self._changes if entry.name == name]
            if style == "prefix":
                changes = [(at, entry) for at, entry in changes if at < until]
            else:
                changes = changes[: 0 if style == "nothing" else chance.randint(0, len(changes))]
            _change(entries, [entry for _, entry in changes])
        return entries

    def _reachable(self) -> set[int]:
        changed = {entry.inode for _, entry in self._changes if entry.inode is not None}
        return changed | set(self._entries.values())

    def _first_unsynced(self) -> int:
        places = [at for at, _ in self._changes[:1]]
        for number in self._reachable():
            places += [piece.at for piece in self._inodes[number].pending[:1]]
        return min(places, default=self._at)


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        _resize(content, offset)
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _apply(content: bytearray, piece: Piece) -> None:
    if piece.data is None:
        _resize(content, piece.offset)
    else:
        _put(content, piece.offset, piece.data)


def _damaged(data: bytes, fate: int, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))] if fate == TORN else chance.randbytes(len(data))


def _change(entries: dict[str, int], changes: list[Entry]) -> None:
    for name, inode in changes:
        if inode is None:
            entries.pop(name, None)
        else:
            entries[name] = inode


# Styles: what becomes of the pieces of one file. `until` is a place in the recording.


def _nothing(pieces: list[Piece], until: int, chance: random.Random) -> bytearray:
    return bytearray(len(pieces))


def _prefix(pieces: list[Piece], until: int, chance: random.Random) -> bytearray:
    """All that was written before some earlier moment, and a part of what was written then."""
    return bytearray(piece.at < until or (piece.at == until and chance.random() < 0.5) for piece in pieces)


def _suffix(pieces: list[Piece], until: int, chance: random.Random) -> bytearray:
    return bytearray(piece.at >= until for piece in pieces)


def _writes(pieces: list[Piece], until: int, chance: random.Random) -> bytearray:
    """Any of the writes, each as a whole."""
    share = chance.random()
    arrived: dict[int, bool] = {}
    return bytearray(arrived.setdefault(piece.at, chance.random() < share) for piece in pieces)


def _sectors(pieces: list[Piece], until: int, chance: random.Random) -> bytearray:
    share = chance.random()
    return bytearray(chance.random() < share for _ in pieces)


def _all_but_few(pieces: list[Piece], until: int, chance: random.Random) -> bytearray:
    return _few_of(pieces, ARRIVED, LOST, chance)


def _only_few(pieces: list[Piece], until: int, chance: random.Random) -> bytearray:
    return _few_of(pieces, LOST, ARRIVED, chance)


def _junk(pieces: list[Piece], until: int, chance: random.Random) -> bytearray:
    """Any of the sectors; some of the others were being written when the power went."""
    share = chance.random()
    return bytearray(
        ARRIVED if chance.random() < share else chance.choice((LOST, LOST, TORN, JUNK)) for _ in pieces
    )


def _few_of(pieces: list[Piece], most: int, few: int, chance: random.Random) -> bytearray:
    fates = bytearray([most]) * len(pieces)
    for _ in range(min(len(pieces), chance.choice((1, 1, 2, 3)))):
        fates[chance.randrange(len(pieces))] = few
    return fates


STYLES = {
    "nothing": _nothing,
    "prefix": _prefix,
    "suffix": _suffix,
    "writes": _writes,
    "sectors": _sectors,
    "all but few": _all_but_few,
    "only few": _only_few,
    "junk": _junk,
}
_WEIGHTS = (1, 4, 1, 3, 4, 3, 1, 3)
