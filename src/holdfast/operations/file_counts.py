"""How many files an attempt of a step changed, counted from the snapshots around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.events import FilesSaved


def changed(engine: Engine, before: FilesSaved, after: FilesSaved) -> int | None:
    """The files that differ, directories not counted; None if a snapshot is not kept any more."""
    if before.snapshot == after.snapshot:
        return 0
    try:
        workspace = engine.files.of(before.root, before.mark)
        with workspace.contents.hold():
            return sum(
                1
                for change in workspace.diff(before.snapshot, after.snapshot)
                if any(side is not None and not side.is_directory for side in (change.before, change.after))
            )
    except HoldfastError:
        return None
