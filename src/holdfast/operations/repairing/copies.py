"""The copies of a log: the database with its write-ahead log, backups, kept stores, archives, the journal.

Several stores may share a backup directory. A copy is used if its log begins with the same event as this one.
A copy of another incarnation is from before a restore or a repair of the store.
"""

from __future__ import annotations

import base64
import binascii
import os
import zlib
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

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


_SQLITE: Final = b"SQLite format 3\0"


def is_journal(path: Path) -> bool:
    """Whether it is a file of JSON lines, and no database."""
    try:
        with path.open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


def is_copy(path: Path) -> bool:
    """Whether it can have events of a log: a database, or a journal with a line that its hash proves."""
    try:
        with path.open("rb") as file:
            if file.read(len(_SQLITE)) == _SQLITE:
                return True
            file.seek(0)
            return is_journal(path) and any(line is not None for line in journal.read_lines(file))
    except OSError:
        return False


class Collected(NamedTuple):
    """`incarnation` is that of the store, and `unused` has a sentence for each copy that was not used.
    `runs` are those that the mirror shows: none if it may be from before a restore. `journals` are the copies
    that are journals."""

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
    lives = {incarnation, incarnation_of(sources.home)} - {""}  # a flipped bit may have changed one
    read = [_read_backup(candidates, path) for path in sources.backup_files]
    read += [_read_kept(candidates, path) for path in reversed(kept_stores(sources.home))]
    read = list(_of_this_log(sources, candidates, read, beginning, lives))
    candidates.read_indexes()
    chosen = [one for one in read if one.path == sources.chosen]
    if is_lost and read and not any(one.incarnation in lives for one in read):
        # A store that a restore has replaced is used only if no other copy is left.
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
        # The mirror keeps the file of a run that a restore has removed.
        runs = {one.id: one for one in sources.mirror.runs() if not candidates.is_only_earlier(one.id)}
    return Collected(incarnation, unused, runs, frozenset(journals))


def _trust(candidates: Candidates, read: Sequence[_Copy], lives: Set[str], chosen: Set[int]) -> set[str]:
    """Set the trust of each copy: SAME for the chosen ones and those of the incarnations `lives`, OLDER for
    the incarnations that these had before a repair, EARLIER for the others. Returns the incarnations from
    before a repair."""
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
    """A store that a restore or a repair kept. Its last events may not belong to the store's history."""
    copy = candidates.add_copy(f"the kept store {path.parent.name}", EARLIER)
    log = path.with_name(f"{path.name}-wal")
    with path.open("rb") as file:
        began = _add(candidates, copy, _images(file, path, log.read_bytes() if log.exists() else b""))
    return _Copy(copy, path, began, candidates.meta[copy].get("incarnation", ""))


def _of_this_log(
    sources: Sources, candidates: Candidates, read: Sequence[_Copy], beginning: bytes, lives: Set[str]
) -> Iterator[_Copy]:
    """The copies whose log begins with the first event of this one or, if that is not known, of the newest
    copy. The others are forgotten. If a copy of one of these incarnations begins differently, the event is
    damaged in one of the two, and the copy is used."""
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
    """The trust of a journal: `proven` if nothing more is known of it (None: it is not used), and `sharing`
    if it is not proven and shares an event with the store."""

    proven: int | None
    sharing: int


def _journal_trust(
    sources: Sources, path: Path, lives: set[str], before: set[str], *, is_vouched: bool
) -> _JournalTrust:
    """The journal of the mirror has the incarnation that the card names. Events that are only in a journal
    that was kept aside, or in one of another incarnation, are not used, because a restore may have removed
    them; unless the journal was kept because this log had lost events. The user may name a journal;
    `is_vouched` if no other copy has events that could prove or disprove it. A kept or a named journal does
    not decide where streams end, because the log may have changed since."""
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
    """Add the events of a journal; returns whether it is used. Others may have put the file into the project,
    so it must be proven to be of this store, or share an event with it."""
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
    """The pages of the store's own database. The caller keeps the descriptor open; it is -1 if only the
    write-ahead log is left. None if neither is left."""
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
    """Add all rows; returns the hash of the log's first event, empty if it is missing."""
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
    """Add the events and large values that can be read from an archive."""
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
