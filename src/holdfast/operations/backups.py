"""Backups as people name them, and whether the store can be replaced by one."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.engine.processes.lock_file import is_held
from holdfast.errors import NotFound, StoreHeld
from holdfast.lock_holder import find_holder
from holdfast.project import DATABASE
from holdfast.spelling import nearest
from holdfast.store.sqlite.backup import explained, find
from holdfast.store.sqlite.database_file import owner_process
from holdfast.ways import Way, quoted


def source_of(file: str, directory: Path | None) -> Path:
    """The file that `file` names: its path, a directory that a restore kept, or a name in the backup
    directory. Raises `NotFound` with the nearest names."""
    path = Path(file)
    with explained(path.parent):
        if file and path.is_dir() and (path / DATABASE).exists():
            return path / DATABASE
        if file and os.path.lexists(path):
            return path
        if file and directory is not None and os.sep not in file and (directory / file).exists():
            return directory / file
    near = nearest(path.name, [one.name for one in find(directory)] if directory else [], cutoff=0.6)
    hint = f"nearest: {', '.join(near)}" if near else f"{quoted(Way('backup list'))} shows those there are"
    raise NotFound(f"there is no backup {file!r}; {hint}")


def refuse_live(home: Path) -> None:
    """Raise `StoreHeld` while an owner, or a command that a dead one started, is alive."""
    for lock in (*(home / "owners").glob("*.lock"), *(home / "commands").glob("*/*.lock")):
        if is_held(lock):
            raise StoreHeld(home, *_holder(home, lock))


def _holder(home: Path, lock: Path) -> tuple[int, str]:
    """(process, host) of a lock: as the store has it, or, of a store that cannot be read, the system."""
    holder = find_holder(lock.stat(), "FLOCK")
    return owner_process(home / DATABASE, lock.stem) or (holder.pid if holder else 0, "")
