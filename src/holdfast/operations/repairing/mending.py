"""`repair`: examines a store that no process has open, and repairs it. The original files are kept aside.

If it is killed at any moment, it can be run again: the new database is written and verified beside the old
one, and an unfinished swap is rolled back; files of archives and contents are copied aside before they are
replaced.
"""

from __future__ import annotations

import base64
import gzip
import shutil
import tempfile
from collections.abc import Iterator, Set
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from holdfast.clock import instant
from holdfast.durable_file import replace_file
from holdfast.engine.processes.lock_file import is_held
from holdfast.errors import StoreCorrupt, StoreHeld
from holdfast.file_lock import tried
from holdfast.kernel import events as e
from holdfast.operations.archiving import FORMAT, line_of
from holdfast.operations.backups import refuse_live
from holdfast.operations.disk_usage import broken_snapshots
from holdfast.operations.repairing.chains import follow
from holdfast.operations.repairing.copies import (
    Collected,
    Sources,
    archive_lines,
    collect,
    contents_of,
    images_of,
)
from holdfast.operations.repairing.diagnosis import Diagnosis, diagnose
from holdfast.operations.repairing.lost_end import LostEnd
from holdfast.operations.repairing.report import FILE, Finding, LostPart, RepairReport
from holdfast.operations.repairing.salvage import record_repair, salvage
from holdfast.operations.repairing.salvaged import Salvaged
from holdfast.operations.repairing.salvaged_log import is_as_before, log_rows, survey
from holdfast.project import DATABASE
from holdfast.store.sqlite.backup import (
    Progress,
    alone,
    beside,
    explained,
    first_fault,
    refuse_without_room,
)
from holdfast.store.sqlite.database_file import size_of
from holdfast.store.sqlite.restore import REPAIRED, free_directory
from holdfast.store.sqlite.salvage.candidates import Candidates
from holdfast.store.sqlite.salvage.images import Images
from holdfast.store.sqlite.salvage.remake import remake
from holdfast.store.sqlite.salvage.swap import closed_to_others, put, undo_unfinished
from holdfast.ways import Way
from holdfast.workspace.contents.mending import mend

_WORK = ".repairing-"


def repair(sources: Sources, at: int, *, dry_run: bool, progress: Progress) -> RepairReport:
    """Examine the store, and unless it is a `dry_run` mend it. Raises StoreHeld while a live process has it
    open, StoreNewer, StoreFull, and StoreCorrupt if no copy has anything of the log; then nothing has
    changed."""
    home = sources.home
    refuse_live(home)
    with _alone(home), explained(home), ExitStack() as stack:
        with closed_to_others(home):
            undo_unfinished(home)
        for left in home.glob(f"{_WORK}*"):  # of a repair that was killed
            shutil.rmtree(left, ignore_errors=True)
        fd = stack.enter_context(closed_to_others(home))
        refuse_live(home)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=home))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        size = size_of(home / DATABASE)
        refuse_without_room(home, size if dry_run else 4 * size)
        progress("examining", 0, 1)
        own = images_of(fd, beside(home / DATABASE, "-wal"))
        found = diagnose(sources, own, fd, work)
        if dry_run or not (found.remakes_log or found.archives or found.contents or found.snapshots):
            return RepairReport(home, dry_run, tuple(found.findings), ways=_ways(found))
        kept = free_directory(home, REPAIRED, instant(at))
        kept.mkdir(mode=0o700)
        stack.callback(_remove_empty, kept)
        return _mend(sources, found, own, work, kept, at, progress)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """No backup, restore, archive or other repair of the store is under way."""
    with alone(home), tried(home / "archive.lock") as is_free:
        if not is_free:
            raise StoreHeld(home)
        yield


def _mend(
    sources: Sources,
    found: Diagnosis,
    own: Images | None,
    work: Path,
    kept: Path,
    at: int,
    progress: Progress,
) -> RepairReport:
    home = sources.home
    with closing(Candidates(work / "candidates.db")) as candidates:
        made: Salvaged | None = None
        collected: Collected | None = None
        if found.remakes_log or found.archives:
            progress("reading what is left", 0, 1)
            collected = collect(sources, own, candidates)
            found.findings += (Finding("the journal", one) for one in collected.unused)
        if found.remakes_log and collected is not None:
            made = salvage(candidates, collected, kept.name, at)
            progress("writing", 0, made.events)
            _remake(made, collected.incarnation, kept.name, at, work / DATABASE)
            put(work / DATABASE, home, kept)
        for path in found.archives:
            _mend_archive(path, candidates, kept)
        report = RepairReport(home, False, tuple(found.findings), kept, ways=_ways(found, made))
        if made is not None:
            report = _with_log(report, made, found.lost_end)
            _remove_dead_locks(home, made.owners)
    database = home / DATABASE if made else work / "examined.db"
    brought, snapshots = _mend_files(sources, found, database, kept)
    report = msgspec.structs.replace(report, snapshots=tuple(snapshots))
    if not (made or found.archives or found.contents or brought):
        # No copy has what is missing, so nothing was changed.
        return msgspec.structs.replace(report, kept=None)
    replace_file(kept / FILE, msgspec.json.encode(report.to_json()))
    return report


def _with_log(report: RepairReport, made: Salvaged, end: LostEnd | None) -> RepairReport:
    lost = [LostPart(*one) for one in made.cuts]
    if end is not None and not (lost or end.events):
        lost.append(LostPart("the log", end.last + 1, end.shown, "events that no copy has"))
    return msgspec.structs.replace(
        report,
        events=made.events + sum(map(len, made.added.values())),
        taken=made.taken(),
        journaled=made.journaled,
        lost=tuple(lost),
        values=tuple(made.lost_values),
        attention=dict(made.attention),
    )


def _mend_files(sources: Sources, found: Diagnosis, database: Path, kept: Path) -> tuple[int, list[str]]:
    """Repair the saved files; returns how many contents came from backups, and the snapshots that still lack
    contents."""
    directory = sources.home / "workspace"
    if not directory.is_dir():
        return 0, []
    broken = broken_snapshots(database, directory)
    if not found.contents and not broken:
        return 0, []
    done = mend(directory, found.contents, kept, [lambda: contents_of(sources)])
    return done.brought, broken_snapshots(database, directory)


def _remove_dead_locks(home: Path, named: Set[str]) -> None:
    """Remove the lock files of dead owners that no run names: the new database has no rows for them."""
    for lock in (home / "owners").glob("*.lock"):
        if lock.stem not in named and not is_held(lock):
            lock.unlink(missing_ok=True)


def _remake(made: Salvaged, incarnation: str, kept: str, at: int, path: Path) -> None:
    """Write the new database. If its log differs from that of the store, it gets a new incarnation and
    records the former one, so that backups of that incarnation still count as copies. If the database is
    lost, its log may have had other events than the copies."""
    copy, own = next(iter(made.candidates.meta.items()))
    surveyed = survey(made)
    same = is_as_before(made) and surveyed.keeps_positions and made.candidates.has_events(copy)
    if not same:
        record_repair(made, incarnation, kept, at)
        surveyed = survey(made)
    remake(
        path,
        log_rows(made, surveyed),
        surveyed.heads,
        made.values,
        made.candidates.path,
        incarnation=incarnation if same else "",
        token=own.get("token", ""),
    )
    fault = first_fault(path)
    if fault:
        raise StoreCorrupt(f"the rebuilt log does not verify ({fault}); nothing was changed")


def _remove_empty(kept: Path) -> None:
    """Remove the directory of a repair that has changed nothing."""
    try:
        kept.rmdir()
    except OSError:
        pass


def _mend_archive(path: Path, candidates: Candidates, kept: Path) -> None:
    """Write a damaged archive anew with the proven history of each of its runs."""
    aside = kept / "archive" / path.name
    aside.parent.mkdir(mode=0o700, exist_ok=True)
    if not aside.exists():
        shutil.copy2(path, aside)
    heads = {
        fields["stream"]: fields for fields in archive_lines(aside) if isinstance(fields.get("stream"), str)
    }
    for name in candidates.archived_in(path.name):
        heads.setdefault(name, {"stream": name, "workflow": "", "status": ""})
    lines: list[bytes] = [line_of({"holdfast": "archive", "format": FORMAT})]
    for name, fields in heads.items():
        chain = follow(candidates, name)
        if not chain.version:
            continue
        lines.append(line_of(fields))
        blobs: dict[str, None] = {}
        for version, id in enumerate(chain.ids, 1):
            type, at, payload, hash, *_ = candidates.event(id)
            hash = chain.hashes.get(version, hash)
            lines.append(
                line_of({"version": version, "type": type, "at": at, "payload": payload, "hash": hash.hex()})
            )
            blob = e.blob_of(e.decode(type, payload))
            if blob:
                blobs[blob] = None
        for blob in blobs:
            data = candidates.blob(blob)
            if data is not None:
                lines.append(line_of({"blob": blob, "data": base64.b64encode(data).decode()}))
    replace_file(path, gzip.compress(b"".join(lines), mtime=0))


def _ways(found: Diagnosis, made: Salvaged | None = None) -> tuple[Way, ...]:
    ways = []
    for run in made.attention if made else ():
        ways.append(Way("show", run, {}, "shows where its history ends"))
    if made:
        ways.append(Way("audit verify", "", {}, "checks all of it again"))
        ways.append(Way("backup create", "", {}, "makes a copy of the repaired store"))
    elif any(one.place.startswith("holdfast-") for one in found.findings):
        ways.append(Way("backup create", "", {}, "makes a backup that is whole"))
    return tuple(ways)
