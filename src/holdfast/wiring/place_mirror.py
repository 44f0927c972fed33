"""The mirror of a place: where it is, and how it is opened."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import project
from holdfast.clock import Clock, SystemClock
from holdfast.wiring.opening import open_files
from holdfast.wiring.place import Place

if TYPE_CHECKING:
    from holdfast.mirror.draining import Mirror
    from holdfast.store.sqlite.store import SqliteStore
    from holdfast.views.reader import Reader


def mirror_directory(place: Place) -> Path | None:
    """Where the mirror is written; None if a setting turns it off, or the store has no project."""
    return place.store_project.mirror


def why_no_mirror(place: Place) -> str:
    """Why there is no mirror, and what to do for one."""
    return place.store_project.no_mirror


def open_mirror(
    place: Place, store: SqliteStore, reader: Reader, clock: Clock | None = None
) -> Mirror | None:
    """The mirror of the store; None if there is to be none."""
    directory = mirror_directory(place)
    if directory is None:
        return None
    from holdfast.mirror.draining import Mirror

    return Mirror(
        store,
        reader,
        place.home,
        directory,
        clock or SystemClock(),
        named=place.store_project.is_named,
        project_type=partial(_project_type, place),
        files_of=partial(_files_of, place, store),
    )


def _files_of(place: Place, store: SqliteStore, run_id: str) -> list[str]:
    from holdfast.mirror.changed_files import changed_files

    return changed_files(store, partial(open_files, place), run_id)


def drain_mirror(
    place: Place, store: SqliteStore, reader: Reader, clock: Clock | None = None, *, warned: set[str]
) -> None:
    """Bring the mirror up to date. Whatever goes wrong is a warning, and none that `warned` has is repeated:
    the mirror is never a reason for a command to fail."""
    from holdfast.mirror.reporting import drained

    restore_pointer(place)
    drained(lambda: open_mirror(place, store, reader, clock), warned)


def restore_pointer(place: Place) -> None:
    """Bring the pointer and the ignore file in the project back if they are lost: without them git would see
    the mirror, and a project that is moved would not find its store."""
    root = place.store_project.root
    if root is not None:
        project.restore_pointer(root, place.home)


def _project_type(place: Place) -> str:
    from holdfast.project_type import project_type

    return project_type(place.store_project.root or place.root)
