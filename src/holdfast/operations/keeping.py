"""What is kept of files: how much it takes, what of it is needed, whether it is whole."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import BadWorkspace, HoldfastError
from holdfast.kernel import events as e
from holdfast.kernel.state import ENDED

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.engine import Engine
    from holdfast.workspace import Contents, Workspace
    from holdfast.workspace.refs import Ref

_NAMING: Final = ("FilesSaved", "CheckpointTaken", "FilesPlanned", "FilesApplied")
_FIELDS: Final = ("snapshot", "instead_of", "to", "left", "now", "before", "after", "rescued")


class Usage(msgspec.Struct, frozen=True):
    """What a store takes on the disk, in bytes.

    log        the database with its write-ahead log
    files      what is kept of files, in `contents` contents
    backups    copies of the database in the store's directory
    snapshots  how many the log names
    quota      what `files` may take; 0 for no limit
    """

    log: int
    files: int
    backups: int
    contents: int
    snapshots: int
    quota: int


class Collected(msgspec.Struct, frozen=True):
    """What `gc` did, or would do.

    removed    how many contents were removed, and `freed` how many bytes
    forgotten  runs that have ended whose snapshots had to go because of the quota
    damaged    what could not be read, and was left
    """

    removed: int
    freed: int
    forgotten: tuple[str, ...]
    damaged: tuple[str, ...]


class Coverage(msgspec.Struct, frozen=True):
    """What a snapshot of the workspace would hold, and what it would not."""

    root: str
    files: int
    directories: int
    links: int
    size: int
    uncovered: tuple[tuple[str, str], ...]
    """(path, why)."""


def usage(engine: Engine, quota: int) -> Usage:
    held = engine.files.contents.du()
    return Usage(
        log=sum(_size(path) for path in engine.home.glob("holdfast.db*")),
        files=held.bytes,
        backups=sum(_size(path) for path in (engine.home / "backups").glob("*")),
        contents=held.packed + held.large,
        snapshots=len({one for ids in named(engine).values() for one in ids}),
        quota=quota,
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def named(engine: Engine) -> dict[str, set[str]]:
    """Stream → the snapshots that it names."""
    found: dict[str, set[str]] = {}
    for stream, event in engine.store.events_of(_NAMING):
        ids = (
            {getattr(event, name, "") for name in _FIELDS} if not isinstance(event, e.Unknown) else _of(event)
        )
        found.setdefault(stream, set()).update(one for one in ids if one)
    return found


def _of(event: e.Unknown) -> set[Any]:
    """Of an event of a newer version: every text that may be a snapshot."""
    fields = msgspec.json.decode(event.payload)
    return {one for one in fields.values() if isinstance(one, str)} if isinstance(fields, dict) else set()


def unneeded(engine: Engine) -> int:
    """How many contents `collect` would remove, but for the quota."""
    contents = engine.files.contents
    with contents.hold():
        return len(contents.refs() - _needed(engine, contents, frozenset()))


def collect(engine: Engine, quota: int = 0) -> Collected:
    """Remove what no snapshot of the log needs. Beyond the quota, the snapshots of runs that have ended go
    too, the oldest runs first: those runs can no longer be rewound with their files."""
    contents = engine.files.contents
    forgotten: list[str] = []
    removed = freed = 0
    damaged: tuple[str, ...] = ()
    while True:
        drop = frozenset(forgotten)
        swept = contents.gc(partial(_needed, engine, contents, drop))
        removed, freed, damaged = removed + swept.removed, freed + swept.freed_bytes, swept.damaged
        if not quota or contents.du().bytes <= quota:
            break
        more = _oldest(engine, drop, max(1, len(forgotten)))
        if not more:
            break
        forgotten += more
    return Collected(removed, freed, tuple(forgotten), damaged)


def collect_if_over(engine: Engine, quota: int) -> None:
    """As a store is opened. What cannot be done now, the next one does."""
    try:
        if engine.files.contents.du().bytes > quota:
            collect(engine, quota)
    except HoldfastError as error:
        logging.getLogger("holdfast").warning("saved files take more than their quota: %s", error)


def _needed(engine: Engine, contents: Contents, drop: frozenset[str]) -> set[Ref]:
    from holdfast.workspace import snapshot

    ids = {one for stream, ids in named(engine).items() if stream not in drop for one in ids}
    return snapshot.needed(contents, ids)


def _oldest(engine: Engine, but: frozenset[str], count: int) -> list[str]:
    """Runs that have ended and name snapshots, the oldest first."""
    rows = [engine.store.run(stream) for stream in named(engine) if stream not in but]
    ended = [row for row in rows if row is not None and row.status in ENDED]
    return [row.id for row in sorted(ended, key=lambda row: row.updated_at)[:count]]


def verify(engine: Engine) -> tuple[str, ...]:
    """Read all that is kept of files → what is damaged or missing."""
    from holdfast.workspace.snapshot import is_whole

    contents = engine.files.contents
    bad = list(contents.verify())
    for stream, ids in sorted(named(engine).items()):
        bad += [f"snapshot {one} of {stream}" for one in sorted(ids) if not is_whole(contents, one)]
    return tuple(dict.fromkeys(bad))


def coverage(engine: Engine) -> Coverage:
    """Raises `BadWorkspace` if there is no workspace."""
    workspace = permitted(engine)
    taken = workspace.snapshot()
    uncovered = tuple((os.fsdecode(one.path), one.reason) for one in taken.uncovered)
    return Coverage(str(workspace.root), taken.files, taken.directories, taken.links, taken.size, uncovered)


def permitted(engine: Engine) -> Workspace:
    if engine.files.root is None:
        raise BadWorkspace(f"{engine.files.why_none}; name one with the setting `workspace`")
    return engine.files.of(engine.files.root)
