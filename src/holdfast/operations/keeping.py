"""What is kept of files: how much it takes, what of it is needed, whether it is whole."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import BadWorkspace
from holdfast.kernel import events as e
from holdfast.workspace.beneath import shown

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.engine import Engine
    from holdfast.engine.files import Files
    from holdfast.workspace import Contents, Workspace
    from holdfast.workspace.contents import Swept
    from holdfast.workspace.refs import Ref

_NAMING: Final = ("FilesSaved", "CheckpointTaken", "FilesPlanned", "FilesApplied")
_POSITIONS: Final = ("FilesSaved", "CheckpointTaken", "GitPlanned", "GitApplied")
_PLACES: Final = ("git", "to", "left", "now", "before", "after")
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
    """Stream → the snapshots that it names, of runs and of operations on them; one on a run that was archived
    cannot be taken back, and needs none."""
    found: dict[str, set[str]] = {}
    operations: dict[str, list[str]] = {}
    for stream, event in engine.store.events_of((*_NAMING, "OperationBegun", "FilesForgotten")):
        if isinstance(event, e.OperationBegun):
            operations.setdefault(event.run, []).append(stream)
        elif isinstance(event, e.FilesForgotten):
            for one in (stream, *operations.get(stream, ())):
                found.pop(one, None)
        else:
            ids = (
                _of(event) if isinstance(event, e.Unknown) else {getattr(event, name, "") for name in _FIELDS}
            )
            found.setdefault(stream, set()).update(one for one in ids if one)
    for stream in _stranded(engine, operations):
        found.pop(stream, None)
    return found


def _stranded(engine: Engine, operations: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Of the operations on each run, those whose run is not in the store any more."""
    for run_id, streams in operations.items():
        if engine.store.run(run_id) is None:
            yield from streams


def _positions(engine: Engine, streams: Container[str]) -> Iterator[str]:
    """The contents that the git positions of these streams consist of."""
    for stream, event in engine.store.events_of(_POSITIONS):
        for name in _PLACES if stream in streams else ():
            position = getattr(event, name, None)
            if isinstance(position, e.GitPosition):
                yield from position.contents


def _of(event: e.Unknown) -> set[Any]:
    """Of an event of a newer version: every text that may be a snapshot."""
    fields = msgspec.json.decode(event.payload)
    return {one for one in fields.values() if isinstance(one, str)} if isinstance(fields, dict) else set()


def unneeded(engine: Engine) -> int:
    """How many contents `sweep` would remove."""
    contents = engine.files.contents
    with contents.hold():
        return len(contents.refs() - _needed(engine, contents))


def sweep(engine: Engine) -> Swept:
    """Remove what no snapshot of the log needs; waits until nobody saves files."""
    contents = engine.files.contents
    return contents.gc(partial(_needed, engine, contents))


def _needed(engine: Engine, contents: Contents) -> set[Ref]:
    from holdfast.workspace import rescues, snapshot
    from holdfast.workspace.refs import Ref

    streams = named(engine)
    ids = {one for ids in streams.values() for one in ids} | set(rescues.unnoted(engine.files.directory))
    loose = {Ref(bytes.fromhex(one)) for one in _positions(engine, streams)}
    return snapshot.needed(contents, ids) | loose


def verify(engine: Engine) -> tuple[str, ...]:
    """Read all that is kept of files → what is damaged or missing."""
    from holdfast.workspace.snapshot import is_whole

    contents = engine.files.contents
    bad = list(contents.verify())
    for stream, ids in sorted(named(engine).items()):
        bad += [f"snapshot {one} of {stream}" for one in sorted(ids) if not is_whole(contents, one)]
    return tuple(dict.fromkeys(bad))


def coverage(files: Files) -> Coverage:
    """Raises `BadWorkspace` if there is no workspace."""
    workspace = permitted(files)
    taken = workspace.snapshot()
    uncovered = tuple((shown(one.path), one.reason) for one in taken.uncovered)
    return Coverage(str(workspace.root), taken.files, taken.directories, taken.links, taken.size, uncovered)


def permitted(files: Files) -> Workspace:
    if files.root is None:
        raise BadWorkspace(f"{files.why_none}; name one with the setting `workspace`")
    return files.of(files.root)
