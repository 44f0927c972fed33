"""The repair of the store of a place: what it reads, and what it leaves to trust."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.ways import Way
from holdfast.wiring.place import Place, may_have_store
from holdfast.wiring.place_backups import backup_directory
from holdfast.wiring.place_mirror import mirror_directory
from holdfast.wiring.place_trust import is_own

if TYPE_CHECKING:
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
    mirror = mirror_directory(place)
    sources = Sources(place.home, backup_directory(place), backup, mirror, _mirrored(mirror))
    report = repair(sources, at, dry_run=dry_run, progress=progress)
    if is_new and report.kept is not None and not is_own(place.home):
        trusts = Way("trust", "", {"directory": str(place.home)}, "allows the code and checks that it names")
        report = msgspec.structs.replace(report, ways=(*report.ways, trusts))
    return report


def _mirrored(mirror: Path | None) -> str:
    """The incarnation of the store that a mirror says it is of; empty if it does not say."""
    from holdfast.mirror import card
    from holdfast.mirror.mirror_directory import MirrorDirectory

    if mirror is None or not mirror.is_dir():
        return ""
    try:
        with MirrorDirectory.opened(mirror, "") as top:
            found = card.read(top)
        return "" if found is None else card.history_of(found)
    except OSError:
        return ""
