"""Where this process works, and whether a store is there."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast import project
from holdfast.settings import Resolved


class Place(msgspec.Struct, frozen=True):
    """Where this process works: the project's root, the store's directory, the settings."""

    root: Path
    home: Path
    resolved: Resolved
    workspace: Path | None = None
    """The directory whose files runs work on; None if there is none."""


def may_have_store(home: Path) -> bool:
    """Whether a store is there. True also if that cannot be read: then opening it raises the error."""
    try:
        return (home / project.DATABASE).exists()
    except PermissionError:
        return True


def had_store(home: Path) -> bool:
    """Whether a store is there, or was: its lock shows that when the database is lost."""
    try:
        return may_have_store(home) or (home / "write.lock").stat().st_size > 0
    except OSError:
        return False
