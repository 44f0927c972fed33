"""The copies of a log: the database with its write-ahead log, backups, kept stores, archives, the journal.

Several stores may share a backup directory. A copy counts if its log began with the same event as this one;
one of another incarnation is of an earlier life of the store, before a restore or a repair.
"""

from __future__ import annotations

import base64
import binascii
import os
import zlib
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from holdfast.errors import BadInput
from holdfast.kernel.events import TYPES
from holdfast.operations.repairing.mirrored import Mirrored, MirroredRun, is_ahead_of, is_plain
from holdfast.store.sqlite.attachment import read_attachment
from holdfast.store.sqlite.backup import find
from holdfast.store.sqlite.kept_log import kept_stores
from holdfast.store.sqlite.restore import KEPT
from holdfast.store.sqlite.salvage.candidates import EARLIER, OLDER, OWN, SAME, Candidates, JournalPlace
from holdfast.store.sqlite.salvage.images import Images
from holdfast.store.sqlite.salvage.rows import EventRow, Row, rows
from holdfast.store.sqlite.salvage.swap import incarnation_of
from holdfast.tracker import journal
from holdfast.workspace.contents.mending import Content, exported

_CHUNK = 1 << 20


class Sources(NamedTuple):
    """Where copies of a store's log are. `chosen` is a backup or a journal that the user named."""

    home: Path
    backups: Path
    chosen: Path | None = None
    mirror: Mirrored | None = None

    @property
    def chosen_journal(self) -> Path | None:
        return self.chosen if self.chosen is not None and is_journal(self.chosen) else None

    @property
    def backup_files(self) -> list[Path]:
        """The newest first; the one that the user named before all."""
        found = find(self.backups)
        if self.chosen is None or self.chosen_journal is not None:
            return found
        return [self.chosen, *(one for one in found if not one.samefile(self.chosen))]

    @property
    def journals(self) -> list[Path]:
        """The one that the user named, the journal of the mirror, and those that were kept aside."""
        chosen = self.chosen_journal
        found = [] if chosen is None else [chosen]
        if self.mirror is not None:
            for path in (self.mirror.journal, *self.mirror.kept_journals):
                if is_plain(path) and not (chosen is not None and path.samefile(chosen)):
                    found.append(path)
        return found

    @property
    def archives(self) -> list[Path]:
        return sorted((self.home / "archive").glob("*.jsonl.gz"))


def is_journal(path: Path) -> bool:
    """Whether it is a file of JSON lines, and no database."""
    try:
        with path.open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


class Collected(NamedTuple):
    """`incarnation` is that of the store, and `unused` has a sentence for each copy that was not used.
    `runs` are those that the mirror shows: none if it may be of another life of the store. `journals` are the
    copies that are journals."""

    incarnation: str
    unused: list[str]
    runs: dict[str, MirroredRun]
    journals: frozenset[int]


def collect(sources: Sources, own: Images | None, candidates: Candidates) -> Collected:
    """Read every copy. Raises BadInput if the backup or the journal that the user named is of another
    store."""
    copy = candidates.add_copy("the database", OWN)
    beginning = _add(candidates, copy, own) if own is not None else b""
    is_lost = not candidates.has_events(copy)
    incarnation = candidates.meta[copy].get("incarnation", "") or incarnation_of(sources.home)
    lives = {incarnation, incarnation_of(sources.home)} - {""}  # a bit may have made one of another
    read = [_read_backup(candidates, path) for path in sources.backup_files]
    read += [_read_kept(candidates, path) for path in reversed(kept_stores(sources.home))]
    read = list(_of_this_log(sources, candidates, read, beginning, lives))
    candidates.read_indexes()
    chosen = [one for one in read if one.path == sources.chosen]
    if is_lost and read and not any(one.incarnation in lives for one in read):
        # What a restore has replaced counts only if nothing else is left.
        left = [one for one in read if not one.path.parent.name.startswith(KEPT)] or read
        newest = left[0].incarnation
        chosen += [one for one in left if one.incarnation == newest]
        lives |= set() if lives else {newest}
    elif is_lost and not lives and sources.mirror is not None and sources.mirror.is_copy:
        lives.add(sources.mirror.incarnation)
    before = _trust(candidates, read, lives, {one.copy for one in chosen})
    for path in sources.archives:
        add_archive(candidates, candidates.add_copy(f"the archive {path.name}", SAME), path)
    unused, journals = [], set[int]()
    for path in sorted(sources.journals, key=lambda one: one == sources.chosen):  # the one named is last
        is_vouched = is_lost and path == sources.chosen and not _has_journaled(candidates)
        trust = _journal_trust(sources, path, lives, before, is_vouched=is_vouched)
        copy = candidates.add_copy(f"the journal {path.name}", EARLIER)
        if _add_journal(candidates, copy, path, trust):
            journals.add(copy)
        elif path == sources.chosen:
            raise BadInput(f"{path} is a journal of another store; nothing was changed")
        else:
            unused.append(f"{path} is not used: it cannot be proven to be of this store")
    runs = dict[str, MirroredRun]()
    if sources.mirror is not None and sources.mirror.incarnation and sources.mirror.incarnation in lives:
        # The file of a run that a restore took away stays in the mirror.
        runs = {one.id: one for one in sources.mirror.runs() if not candidates.is_left(one.id)}
    return Collected(incarnation, unused, runs, frozenset(journals))


def _trust(candidates: Candidates, read: Sequence[_Copy], lives: Set[str], chosen: Set[int]) -> set[str]:
    """Trust the chosen copies and those of these incarnations, and the events of those that they had before a
    repair, which are returned."""
    before: set[str] = set()
    while True:
        for one in read:
            is_same = one.incarnation in lives or one.copy in chosen
            candidates.trust(one.copy, SAME if is_same else OLDER if one.incarnation in before else EARLIER)
        found = candidates.earlier_incarnations()
        if found <= before:
            return before
        before |= found


class _Copy(NamedTuple):
    """A database that was read: which copy it is, and the hash of the first event of its log."""

    copy: int
    path: Path
    beginning: bytes
    incarnation: str


def _read_backup(candidates: Candidates, path: Path) -> _Copy:
    copy = candidates.add_copy(f"the backup {path.name}", SAME)
    with path.open("rb") as file:
        began = _add(candidates, copy, _images(file, path))
    return _Copy(copy, path, began, candidates.meta[copy].get("incarnation", ""))


def _read_kept(candidates: Candidates, path: Path) -> _Copy:
    """A store that a restore or a repair kept. Its end may be a way that the store has left."""
    copy = candidates.add_copy(f"the kept store {path.parent.name}", EARLIER)
    log = path.with_name(f"{path.name}-wal")
    with path.open("rb") as file:
        began = _add(candidates, copy, _images(file, path, log.read_bytes() if log.exists() else b""))
    return _Copy(copy, path, began, candidates.meta[copy].get("incarnation", ""))


def _of_this_log(
    sources: Sources, candidates: Candidates, read: Sequence[_Copy], beginning: bytes, lives: Set[str]
) -> Iterator[_Copy]:
    """Those whose log began as this one; if that is not known, as the newest. The others are forgotten. In a
    copy of one of these incarnations, a beginning that differs is damaged, there or here."""
    for one in read:
        differs = bool(beginning and one.beginning) and one.beginning != beginning
        if differs and one.incarnation not in lives:
            if one.path == sources.chosen:
                raise BadInput(f"{one.path} is a backup of another store; nothing was changed")
            candidates.forget(one.copy)
            continue
        beginning = beginning or one.beginning
        yield one


class _JournalTrust(NamedTuple):
    """How far a journal is trusted that is proven to be of this store, and one that shares an event with
    it."""

    proven: int | None
    sharing: int


def _journal_trust(
    sources: Sources, path: Path, lives: set[str], before: set[str], *, is_vouched: bool
) -> _JournalTrust:
    """The journal of the mirror is of the incarnation that the card says. What is only in a journal that was
    kept aside, or in that of another incarnation, is not taken: a restore may have taken it away; unless it
    was kept because this log had lost events that it has. The user may name one; `is_vouched` if no other
    copy has events that could prove or disprove it. What a kept or a named one says of the ends of streams
    does not count: the log may have gone another way since."""
    if any(is_ahead_of(path, one) for one in lives):
        return _JournalTrust(OLDER, OLDER)
    if path == sources.chosen:
        return _JournalTrust(SAME if is_vouched else None, OLDER)
    if sources.mirror is None or path != sources.mirror.journal:
        return _JournalTrust(None, EARLIER)
    incarnation = sources.mirror.incarnation
    if not incarnation:
        return _JournalTrust(None, SAME)
    proven = SAME if incarnation in lives else OLDER if incarnation in before else None
    return _JournalTrust(proven, EARLIER)


def _has_journaled(candidates: Candidates) -> bool:
    """Whether a copy has events of the kind that a journal has."""
    return any(
        journal.belongs(name) and next(candidates.of(name), None) is not None for name in candidates.names()
    )


def _add_journal(candidates: Candidates, copy: int, path: Path, trust: _JournalTrust) -> bool:
    """Put in a journal; whether it is used. It lies in the project, where others may have put it: it must be
    proven to be of this store, or share an event with it."""
    shared, place = False, JournalPlace()
    with path.open("rb") as file:
        for line in journal.read_lines(file):
            if line is None or line.redacted or not journal.belongs(line.stream) or line.type in TYPES:
                continue  # an event of runs or of the store would archive streams
            try:
                payload = line.payload
            except UnicodeDecodeError:
                continue
            hash = _hex(line.hash)
            shared = shared or candidates.has_hash(line.stream, line.version, hash)
            position = candidates.position(line.stream, line.version, hash)
            place = JournalPlace(max(place.behind, position), place.line + 1)
            candidates.add_event(
                copy, line.stream, line.version, line.type, line.time, payload, hash, place=place
            )
    level = trust.sharing if shared and trust.proven is None else trust.proven
    if level is None:
        candidates.forget(copy)
        return False
    candidates.trust(copy, level)
    return True


def images_of(fd: int, log: Path) -> Images | None:
    """The pages of a store's own database, by a descriptor that the caller keeps open; -1 if only the log is
    left. None if neither is."""
    wal = log.read_bytes() if log.exists() else b""
    if fd < 0:
        return Images(lambda _at, _size: b"", 0, wal) if wal else None
    return Images(lambda at, size: os.pread(fd, size, at), os.fstat(fd).st_size, wal)


def _images(file: BinaryIO, path: Path, log: bytes = b"") -> Images:
    attached = read_attachment(path)
    size = attached.offset if attached else path.stat().st_size
    fd = file.fileno()
    return Images(lambda at, count: os.pread(fd, count, at), size, log)


def _add(candidates: Candidates, copy: int, images: Images) -> bytes:
    """Put all rows in; the hash of the first event of the log, if it is there."""
    beginning: list[bytes] = []

    def seen() -> Iterator[Row]:
        for row in rows(images):
            if isinstance(row, EventRow) and (row.stream, row.version) == (1, 1) and row.rank == 0:
                beginning.append(row.hash)
            yield row

    candidates.add_rows(copy, seen())
    return candidates.first_hash(copy) or (beginning[0] if beginning else b"")


def contents_of(sources: Sources) -> Iterator[Content]:
    """The intact contents of files that backups hold."""
    for path in sources.backup_files:
        attached = read_attachment(path)
        with path.open("rb") as file:
            if attached is not None:
                file.seek(attached.offset)
                yield from exported(file)


# Archives


def archive_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of an archive, as far as it can be read. Raises nothing for one that is torn."""
    expander = zlib.decompressobj(31)
    rest = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            for some in _expanded(expander, piece):
                *lines, rest = (rest + some).split(b"\n")
                yield from _parsed(lines)


def _expanded(expander: Any, piece: bytes) -> Iterator[bytes]:
    """The decompressed piece. One that is damaged is expanded byte by byte up to the damage."""
    before = expander.copy()
    try:
        yield expander.decompress(piece)
    except zlib.error:
        for n in range(len(piece)):
            try:
                yield before.decompress(piece[n : n + 1])
            except zlib.error:
                return


def _parsed(lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            fields = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(fields, dict):
            yield fields


def add_archive(candidates: Candidates, copy: int, path: Path) -> None:
    """Put in what can be read of an archive."""
    stream = ""
    for fields in archive_lines(path):
        match fields:
            case {"stream": str(stream)}:
                pass
            case {
                "version": int(version),
                "type": str(type),
                "at": int(at),
                "payload": str(payload),
                "hash": str(hash),
            }:
                candidates.add_event(copy, stream, version, type, at, payload, _hex(hash))
            case {"blob": str(blob), "data": str(data)}:
                try:
                    candidates.add_blob(blob, base64.b64decode(data))
                except binascii.Error:
                    continue
            case _:
                pass


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
