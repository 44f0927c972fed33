"""The damage of a store: the database, its write-ahead log, archives, saved files, backups.

The database is examined as a copy: SQLite would bring a damaged write-ahead log into the file, and remove it.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import apsw
import msgspec

from holdfast.errors import StoreCorrupt, StoreError, StoreForeign, StoreFull, StoreNewer, StoreReadOnly
from holdfast.operations.archiving import read as read_archive
from holdfast.operations.disk_usage import broken_snapshots
from holdfast.operations.repairing.copies import Sources
from holdfast.operations.repairing.lost_end import LostEnd, find_lost_end, read_ahead
from holdfast.operations.repairing.mirrored import is_ahead_of
from holdfast.operations.repairing.report import MISSING, Finding
from holdfast.project import DATABASE
from holdfast.store.sqlite import audit, sql
from holdfast.store.sqlite.backup import beside, is_ahead
from holdfast.store.sqlite.backup import examine as examine_backup
from holdfast.store.sqlite.connection import APPLICATION_ID
from holdfast.store.sqlite.database_file import log_end
from holdfast.store.sqlite.salvage.images import Images
from holdfast.store.sqlite.salvage.swap import incarnation_of
from holdfast.ways import Way, quoted
from holdfast.workspace.contents.mending import damaged_files

_NAMED = 20
_ANEW = "the log is written anew from what this file and its other copies still hold"


@dataclass
class Diagnosis:
    findings: list[Finding] = field(default_factory=list)
    remakes_log: bool = False
    lost_end: LostEnd | None = None
    """The part of the log that the mirror shows behind the end of a database that is whole."""
    archives: list[Path] = field(default_factory=list)
    contents: list[Path] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)


def diagnose(sources: Sources, own: Images | None, fd: int, work: Path) -> Diagnosis:
    """Examine the database, the archives, the saved files and the backups. `work` is a directory for the copy
    of the database. Raises StoreNewer for a store of a newer holdfast. Changes nothing."""
    found = Diagnosis()
    _examine_database(found, sources, own, fd, work)
    _examine_archives(found, sources)
    _examine_contents(found, sources, work)
    _examine_backups(found, sources)
    return found


# The database


def _examine_database(found: Diagnosis, sources: Sources, own: Images | None, fd: int, work: Path) -> None:
    path = sources.home / DATABASE
    if own is None or fd < 0 or not os.fstat(fd).st_size:
        found.remakes_log = True
        found.findings.append(MISSING)
        return
    unread = own.log.unread
    if unread:
        found.remakes_log = True
        many = "it" if unread == 1 else f"{unread} frames from there on"
        what = f"a frame is damaged: {many} would not be read"
        found.findings.append(Finding(f"{DATABASE}-wal", what, _ANEW))
    copy = work / "examined.db"
    _copy(fd, copy)
    log = beside(path, "-wal")
    if log.exists():
        beside(copy, "-wal").write_bytes(log.read_bytes())
    faults = list(islice(_faults(copy), _NAMED + 1))
    for place, what in faults[:_NAMED]:
        found.findings.append(Finding(place or DATABASE, what, _ANEW))
    if len(faults) > _NAMED:
        found.findings.append(Finding(DATABASE, "there are more faults of this kind", _ANEW))
    found.remakes_log = found.remakes_log or bool(faults)
    if not faults:
        if sources.mirror is not None:
            found.lost_end = find_lost_end(sources.mirror, copy, incarnation_of(sources.home))
        for what in _ahead(sources, copy, found.lost_end):
            found.remakes_log = True
            found.findings.append(Finding(DATABASE, what, _ANEW))
        found.findings += _unfit(sources, copy)


def _unfit(sources: Sources, copy: Path) -> Iterator[Finding]:
    """A finding for each journal with events that do not follow from those of an intact database."""
    own = log_end(copy, 0).incarnation or incarnation_of(sources.home)
    for path in sources.journals:
        if path != sources.chosen and not is_ahead_of(path, own):
            continue
        unfit = read_ahead(path, path.stat().st_size, copy).unfit
        if unfit:
            streams = ", ".join(unfit[:_NAMED]) + (", ..." if len(unfit) > _NAMED else "")
            what = f"its events of {streams} do not follow from those of the store, which are kept"
            yield Finding(path.name, what, "events that do not fit stay in the journal; it is not changed")


def _ahead(sources: Sources, copy: Path, lost_end: LostEnd | None) -> Iterator[str]:
    """A sentence for each copy that shows that an intact database has lost its last events."""
    for backup in sources.backup_files:
        if is_ahead(backup, copy):
            yield f"the backup {backup.name} has events behind its end: its write-ahead log was lost"
            break
    if lost_end is not None:
        yield lost_end.what
    chosen = sources.chosen_journal
    if chosen is not None and read_ahead(chosen, chosen.stat().st_size, copy).events:
        yield f"the journal {chosen.name} has events that it does not have"


def _copy(fd: int, target: Path) -> None:
    with target.open("xb") as file:
        at = 0
        while piece := os.pread(fd, 1 << 20, at):
            file.write(piece)
            at += len(piece)


def _faults(copy: Path) -> Iterator[tuple[str, str]]:
    """(stream or "", what is wrong). Raises StoreNewer."""
    try:
        for fault in audit.verify(copy):
            yield fault.stream, _short(fault.what)
    except StoreNewer:
        if not _has_our_tables(copy):
            raise
        yield "", "the number of its schema is damaged"
    except (StoreFull, StoreReadOnly):
        raise
    except (StoreForeign, StoreCorrupt):
        yield "", "SQLite cannot read it"
    except (StoreError, apsw.Error) as error:
        yield "", f"SQLite cannot read it ({error.__context__ or error})"


def _short(what: str) -> str:
    """The fault without advice; of several lines of SQLite, the first two."""
    lines = [
        line for line in what.partition("; `")[0].splitlines() if not line.endswith(("***", ": never used"))
    ]
    return "; ".join(lines[:2]) or "pages are lost"


def _has_our_tables(copy: Path) -> bool:
    """Whether a database with a newer schema number has exactly the tables of this version: then the number
    is damaged."""
    try:
        db, fresh = apsw.Connection(str(copy)), apsw.Connection(":memory:")
        try:
            fresh.execute(sql.script("schema.sql"))
            names = "SELECT type, name FROM sqlite_schema ORDER BY 1, 2"
            return db.pragma("application_id") == APPLICATION_ID and (
                db.execute(names).fetchall() == fresh.execute(names).fetchall()
            )
        finally:
            db.close(True)
            fresh.close(True)
    except apsw.Error:
        return False


# Beside the database


def _examine_archives(found: Diagnosis, sources: Sources) -> None:
    for path in sources.archives:
        try:
            read_archive(path)
        except (
            OSError,
            EOFError,
            zlib.error,
            gzip.BadGzipFile,
            StoreCorrupt,
            msgspec.DecodeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            found.archives.append(path)
            what = f"it is torn or damaged ({error})"
            action = "it is kept aside, and written anew with every run that is still whole in a copy"
            found.findings.append(Finding(f"archive/{path.name}", what, action))


def _examine_contents(found: Diagnosis, sources: Sources, work: Path) -> None:
    directory = sources.home / "workspace"
    if not directory.is_dir():
        return
    found.contents = damaged_files(directory)
    for path in found.contents:
        what = "saved contents in it are damaged"
        action = "it is kept aside; what is intact in it stays, and what backups have is brought back"
        found.findings.append(Finding(str(path.relative_to(sources.home)), what, action))
    copy = work / "examined.db"
    if copy.exists() and not found.remakes_log:
        found.snapshots = broken_snapshots(copy, directory)
        for one in found.snapshots:
            action = (
                "contents that backups have are brought back; until it is whole nothing is restored from it"
            )
            found.findings.append(Finding(one, "contents of it are missing or damaged", action))


def _examine_backups(found: Diagnosis, sources: Sources) -> None:
    for path in sources.backup_files:
        backup = examine_backup(path)
        if backup.fault:
            action = f"it stays; what it still holds is used. {quoted(Way('backup create'))} makes another"
            found.findings.append(Finding(path.name, f"the backup is {backup.fault}", action))
