"""The repair of the store of a place: what it reads, and what it leaves to trust."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.project import DATABASE
from holdfast.ways import Way
from holdfast.wiring.place import Place, may_have_store
from holdfast.wiring.place_backups import backup_directory
from holdfast.wiring.place_mirror import mirror_directory
from holdfast.wiring.place_trust import is_own

if TYPE_CHECKING:
    from holdfast.operations.repairing.lost_end import LostEnd
    from holdfast.operations.repairing.mirrored import Mirrored
    from holdfast.operations.repairing.report import RepairReport
    from holdfast.store.sqlite.backup import Progress


def repair_store(
    place: Place, backup: Path | None, at: int, *, dry_run: bool, progress: Progress
) -> RepairReport:
    """Examine the store of a place and mend it. A database that was missing is not taken for the user's own:
    the copies that it was made from may have come with the directory."""
    from holdfast.operations.repairing.copies import Sources
    from holdfast.operations.repairing.mending import repair

    is_new = not may_have_store(place.home)
    sources = Sources(place.home, backup_directory(place), backup, _mirrored(place))
    report = repair(sources, at, dry_run=dry_run, progress=progress)
    if is_new and report.kept is not None and not is_own(place.home):
        trusts = Way("trust", "", {"directory": str(place.home)}, "allows the code and checks that it names")
        report = msgspec.structs.replace(report, ways=(*report.ways, trusts))
    return report


def lost_end(place: Place) -> LostEnd | None:
    """What the mirror of a place shows that its database, which is whole, does not have. Raises
    `StoreError`."""
    from holdfast.operations.repairing.lost_end import find_lost_end

    mirror = _mirrored(place)
    return None if mirror is None else find_lost_end(mirror, place.home / DATABASE)


def _mirrored(place: Place) -> Mirrored | None:
    """What the mirror shows of its store; None if the place has none."""
    from holdfast.mirror import second_copy

    directory = mirror_directory(place)
    if directory is None:
        return None
    return second_copy.read(directory, named=place.resolved.settings.mirror_dir is not None)
