"""The repair of the store of a place: what it reads, and what it leaves to trust."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import StoreLost
from holdfast.project import DATABASE, points_here
from holdfast.ways import Way, quoted
from holdfast.wiring.place import Place, StoreProject, had_store, may_have_store
from holdfast.wiring.place_backups import backup_directory
from holdfast.wiring.place_trust import is_own, note_rebuilt

if TYPE_CHECKING:
    from holdfast.operations.repairing.lost_end import LostEnd
    from holdfast.operations.repairing.mirrored import Mirrored
    from holdfast.operations.repairing.report import RepairReport
    from holdfast.store.sqlite.backup import Progress


def repair_store(
    place: Place,
    backup: Path | None,
    at: int,
    *,
    dry_run: bool,
    progress: Progress,
    is_first: bool = False,
) -> RepairReport:
    """Examine the store of a place and mend it. A database that was missing is not taken for the user's own:
    the copies that it was made from may have come with the directory. `is_first`: the project never had a
    store, so the mirror that is there is not of this one."""
    from holdfast.operations.repairing.copies import Sources
    from holdfast.operations.repairing.mending import repair

    is_new = not may_have_store(place.home)
    mirror = _mirrored(place.root, place.store_project)
    if is_first and mirror is not None:
        mirror = mirror._replace(is_own=False)
    sources = Sources(place.home, backup_directory(place), backup, mirror)
    report = repair(sources, at, dry_run=dry_run, progress=progress)
    if is_new and report.kept is not None and report.journaled:
        note_rebuilt(place.home)
    if is_new and report.kept is not None and not is_own(place.home):
        trusts = Way("trust", "", {"directory": str(place.home)}, "allows the code and checks that it names")
        report = msgspec.structs.replace(report, ways=(*report.ways, trusts))
    return report


def lost_end(place: Place) -> LostEnd | None:
    """What the mirror of a place shows that its database, which is whole, does not have. Raises
    `StoreError`."""
    from holdfast.operations.repairing.lost_end import find_lost_end

    mirror = _mirrored(place.root, place.store_project)
    try:
        return None if mirror is None else find_lost_end(mirror, place.home / DATABASE)
    except OSError:
        return None  # a file of the mirror that cannot be read shows nothing


def kept_journals(place: Place) -> dict[Path, int]:
    """The journals of this store that were kept aside, of those that have events which the database does not
    have; and how many. Raises `StoreError`."""
    from holdfast.operations.repairing.lost_end import read_ahead

    mirror = _mirrored(place.root, place.store_project)
    found = {}
    for path in mirror.kept_journals if mirror is not None else ():
        try:
            ahead = read_ahead(path, path.stat().st_size, place.home / DATABASE)
        except OSError:
            continue  # it cannot be read
        if ahead.events and ahead.is_related:
            found[path] = ahead.events
    return found


def _mirrored(root: Path, owner: StoreProject) -> Mirrored | None:
    """The mirror's view of its store; None if there is no mirror."""
    from holdfast.mirror import second_copy

    if owner.mirror is None:
        return None
    found = second_copy.read(owner.mirror, named=owner.is_named)
    return found._replace(is_own=not owner.is_named and points_here(root) and _is_written_here(found))


def _is_written_here(mirror: Mirrored) -> bool:
    """Whether card and journal have the owner and the mode that holdfast gives them: files of a checkout have
    another mode."""
    try:
        for path in (mirror.directory / "mirror.json", mirror.journal):
            if path == mirror.journal and not os.path.lexists(path):
                continue  # it begins with the first task
            status = path.lstat()
            if status.st_uid != os.geteuid() or S_IMODE(status.st_mode) != 0o600:
                return False
    except OSError:
        return False
    return True


def refuse_lost(place: Place) -> None:
    """Raise `StoreLost` if the store of a place is gone, and its mirror counts as a copy of it: a new store
    would begin a new mirror, and `repair` would no longer know whose the journal is."""
    if had_store(place.home):
        return
    left = left_mirror(place)
    if left is not None and left.is_copy:
        raise StoreLost(place.home, left.directory)


def left_mirror(place: Place) -> Mirrored | None:
    """The mirror of a place whose store is gone, if anything is in it; `is_copy` says whether it counts as a
    copy of that store."""
    mirror = _mirrored(place.root, place.store_project)
    if mirror is None or had_store(place.home):
        return None
    return mirror if mirror.has_journal or any(mirror.runs()) else None


def advice_on_mirror(root: Path, owner: StoreProject) -> str:
    """The commands by which a project without a store makes one from a mirror that is there, such as in a
    clone; empty if there is no mirror, or nothing in it can be imported."""
    mirror = _mirrored(root, owner)
    if mirror is None:
        return ""
    ways = []
    if mirror.importable is not None:
        shows = Way("mirror import", arguments={"file": str(mirror.importable)})
        ways.append(f"{quoted(shows)} shows what can be imported")
    if mirror.has_journal:
        rebuilds = Way("repair", arguments={"from": str(mirror.journal)})
        ways.append(f"{quoted(rebuilds)} makes a store of its tasks, links, sessions and memory")
    return f"{mirror.directory} has the mirror of another store: {', and '.join(ways)}" if ways else ""
