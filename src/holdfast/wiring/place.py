"""Where this process works, and whether a store is there."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast import project
from holdfast.settings import Resolved


class StoreProject(msgspec.Struct, frozen=True):
    """The files that a store keeps in its project. They go with the store: a run that is resumed in
    the directory of another project writes to the mirror of its own.

    root       the project whose store it is; None if the store was named (`home`)
    mirror     the directory of the mirror, absolute; None if there is none
    is_named   whether the user chose that directory
    no_mirror  why there is no mirror, and what to do for one; empty if there is one
    """

    root: Path | None = None
    mirror: Path | None = None
    is_named: bool = False
    no_mirror: str = ""


class Place(msgspec.Struct, frozen=True):
    """Where this process works: the project's root, the store's directory, the settings."""

    root: Path
    home: Path
    resolved: Resolved
    workspace: Path | None = None
    """The directory whose files runs work on; None if there is none."""
    store_project: StoreProject = StoreProject()


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
