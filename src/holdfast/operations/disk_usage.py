"""The disk usage of saved files: how much they take, which are needed, whether they are whole."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from holdfast.errors import BadWorkspace
from holdfast.json_view import View
from holdfast.kernel import events as e
from holdfast.store.sqlite.kept_log import kept_stores, read_log
from holdfast.store.sqlite.restore import KEPT
from holdfast.workspace.fs.beneath import shown

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.engine import Engine
    from holdfast.engine.files.workspaces import Files
    from holdfast.store.sqlite.kept_log import Log
    from holdfast.workspace.contents.content_store import Contents, Swept
    from holdfast.workspace.contents.refs import Ref
    from holdfast.workspace.workspace import Workspace

_NAMING: Final = (
    *("FilesSaved", "CheckpointTaken", "FilesPlanned", "FilesApplied"),
    *("OperationBegun", "FilesForgotten", "StreamArchived"),
)
_POSITIONS: Final = ("FilesSaved", "CheckpointTaken", "GitPlanned", "GitApplied")
NAMING_FILES: Final = tuple(dict.fromkeys((*_NAMING, *_POSITIONS)))
"""The types of event that name what is saved of files."""
_PLACES: Final = ("git", "to", "left", "now", "before", "after")
_FIELDS: Final = ("snapshot", "instead_of", "to", "left", "now", "before", "after", "rescued")


class Usage(View, frozen=True):
    """The size of a store on disk, in bytes.

    log        the database with its write-ahead log
    files      what is kept of files, in `contents` contents
    kept       stores that a restore kept, and the files that only they need; these are not part of `files`
    backups    copies of the database in the store's directory
    snapshots  how many the log names
    quota      what `files` may take; 0 for no limit
    """

    log: int
    files: int
    kept: int
    backups: int
    contents: int
    snapshots: int
    quota: int

    JSON: ClassVar = {
        "log": "the database with its write-ahead log, in bytes, as all sizes here",
        "files": "what is saved of files",
        "kept": "stores that a restore kept, and the files that only they need",
        "backups": "copies of the database in the store's directory",
        "contents": "how many contents `files` is",
        "snapshots": "how many snapshots the log names",
        "quota": "what `files` may take; 0 for no limit",
    }


class Coverage(msgspec.Struct, frozen=True):
    """The paths that a snapshot of the workspace would hold, and those it would leave out."""

    root: str
    files: int
    directories: int
    links: int
    size: int
    uncovered: tuple[tuple[str, str], ...]
    """(path, why)."""

    JSON: ClassVar = {
        "root": "the workspace",
        "files": "how many files a snapshot holds",
        "directories": "how many directories",
        "links": "how many symbolic links",
        "bytes": "the size of the files",
        "uncovered": "what it does not hold: `path`, `why`",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "root": self.root,
            "files": self.files,
            "directories": self.directories,
            "links": self.links,
            "bytes": self.size,
            "uncovered": [{"path": path, "why": why} for path, why in self.uncovered],
        }


class FilesVerified(View, frozen=True):
    """The result of reading all that is saved of files.

    contents  how many there are, and `size` how many bytes they take
    damaged   what is damaged or missing, in words
    """

    contents: int
    size: int
    damaged: tuple[str, ...]

    JSON: ClassVar = {
        "contents": "how many contents were read",
        "damaged": "what is damaged or missing",
    }


def usage(engine: Engine, quota: int) -> Usage:
    held, only_kept = engine.files.contents.du(), _size_only_kept(engine)
    return Usage(
        log=sum(_size(path) for path in engine.home.glob("holdfast.db*")),
        files=held.bytes - only_kept,
        kept=only_kept + sum(_size(path) for path in engine.home.glob(f"{KEPT}*/*")),
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


def named(engine: Engine, *, with_deleted: bool = True) -> dict[str, set[str]]:
    """Stream → the snapshots that it names; also of streams whose deletion is not final."""
    return _named_in(engine.store.events_of(_NAMING, with_deleted=with_deleted))


def _named_in(log: Log) -> dict[str, set[str]]:
    """Stream → the snapshots that it names, of runs and of operations on them; one on a run that was archived
    cannot be undone, and needs none."""
    found: dict[str, set[str]] = {}
    operations: dict[str, list[str]] = {}
    for stream, event in log:
        if isinstance(event, e.OperationBegun):
            operations.setdefault(event.run, []).append(stream)
        elif isinstance(event, (e.FilesForgotten, e.StreamArchived)):
            run = stream if isinstance(event, e.FilesForgotten) else event.stream
            for one in (run, *operations.get(run, ())):
                found.pop(one, None)
        else:
            ids = (
                _of(event) if isinstance(event, e.Unknown) else {getattr(event, name, "") for name in _FIELDS}
            )
            found.setdefault(stream, set()).update(one for one in ids if one)
    return found


def _positions(log: Log, streams: Container[str]) -> Iterator[Ref]:
    """The contents that the git positions of these streams consist of."""
    from holdfast.workspace.contents.refs import Ref

    for stream, event in log:
        for name in _PLACES if stream in streams else ():
            position = getattr(event, name, None)
            if isinstance(position, e.GitPosition):
                yield from (Ref(bytes.fromhex(one)) for one in position.contents)


def _of(event: e.Unknown) -> set[Any]:
    """Of an event of a newer version: every text that may be a snapshot."""
    fields = msgspec.json.decode(event.payload)
    return {one for one in fields.values() if isinstance(one, str)} if isinstance(fields, dict) else set()


def unneeded(engine: Engine) -> int:
    """How many contents `sweep` would remove once all deletions are final."""
    contents = engine.files.contents
    with contents.hold():
        needed = _needed_here(engine, contents, with_deleted=False) | _needed_by_kept(engine, contents)
        return len(contents.refs() - needed)


def counted_bytes(engine: Engine) -> int:
    """The size that counts for the quota: without files that only the stores kept by a restore need."""
    return engine.files.contents.du().bytes - _size_only_kept(engine)


def has_files(log: Log, directory: Path) -> bool:
    """Whether all that a log names is among the saved files in a directory."""
    from holdfast.workspace.contents.content_store import Contents
    from holdfast.workspace.snapshots import snapshot

    streams = _named_in(log)
    ids, loose = set().union(*streams.values()), set(_positions(log, streams))
    if not ids and not loose:
        return True
    if not directory.is_dir():
        return False
    contents = Contents(directory)
    try:
        with contents.hold():
            return snapshot.are_whole(contents, ids) and all(ref in contents for ref in loose)
    finally:
        contents.close()


def broken_snapshots(database: Path, directory: Path) -> list[str]:
    """The snapshots that the log of a database names and whose contents are missing or damaged, in words."""
    from holdfast.workspace.contents.content_store import Contents
    from holdfast.workspace.snapshots.snapshot import is_whole

    contents = Contents(directory)
    try:
        with contents.hold():
            return _broken(contents, _named_in(read_log(database, NAMING_FILES)), is_whole)
    finally:
        contents.close()


def _broken(
    contents: Contents, streams: dict[str, set[str]], is_whole: Callable[[Contents, str], bool]
) -> list[str]:
    return [
        f"snapshot {one} of {stream}"
        for stream, ids in sorted(streams.items())
        for one in sorted(ids)
        if not is_whole(contents, one)
    ]


def sweep(engine: Engine) -> Swept:
    """Remove what no snapshot of the log needs, nor of the log of a store that a restore kept; waits until
    no process saves files."""
    contents = engine.files.contents
    return contents.gc(partial(_needed, engine, contents))


def _needed(engine: Engine, contents: Contents) -> set[Ref]:
    return _needed_here(engine, contents) | _needed_by_kept(engine, contents)


def _needed_here(engine: Engine, contents: Contents, *, with_deleted: bool = True) -> set[Ref]:
    from holdfast.workspace.restoring import rescues
    from holdfast.workspace.snapshots import snapshot

    streams = named(engine, with_deleted=with_deleted)
    ids = set(rescues.unnoted(engine.files.directory)).union(*streams.values())
    loose = set(_positions(engine.store.events_of(_POSITIONS, with_deleted=with_deleted), streams))
    return snapshot.needed(contents, ids) | loose


def _needed_by_kept(engine: Engine, contents: Contents) -> set[Ref]:
    from holdfast.workspace.snapshots import snapshot

    found: set[Ref] = set()
    for path in kept_stores(engine.home):
        log = read_log(path, NAMING_FILES)
        streams = _named_in(log)
        found |= snapshot.needed(contents, set().union(*streams.values()))
        found.update(_positions(log, streams))
    return found


def _size_only_kept(engine: Engine) -> int:
    """How many bytes of the saved files are needed by kept stores alone."""
    if not kept_stores(engine.home):
        return 0
    contents = engine.files.contents
    with contents.hold():
        return contents.size_of(_needed_by_kept(engine, contents) - _needed_here(engine, contents))


def verify(engine: Engine) -> FilesVerified:
    """Read all that is kept of files, and check that every snapshot of the log is whole."""
    from holdfast.workspace.snapshots.snapshot import is_whole

    contents = engine.files.contents
    bad = [*contents.verify(), *_broken(contents, named(engine), is_whole)]
    held = contents.du()
    return FilesVerified(held.packed + held.large, held.bytes, tuple(dict.fromkeys(bad)))


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
