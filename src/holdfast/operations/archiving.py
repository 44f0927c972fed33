"""`archive`: runs that have ended leave the store for a file; the log keeps a record of each.

A file has a line for each event, as the log had it, with its hash, and one for each large value. It is
whole, on the disk and read back before anything is removed: a crash at any point leaves a run in the
store, or in the file, or in both. A family, a run with its child runs, leaves in one transaction or stays.

Only one archive of a store continues at a time, from the look at what has ended to the last removal; and no
file of an archive ever takes the place of another.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import msgspec

from holdfast.clock import instant, microseconds
from holdfast.engine.ownership.owners import is_alive
from holdfast.engine.processes.lock_file import held
from holdfast.errors import BadInput, StoreCorrupt
from holdfast.json_view import View
from holdfast.kernel import events as e
from holdfast.kernel.state import ENDED, FINAL
from holdfast.project import explained
from holdfast.store.port import GENESIS, RunRow, chain

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.store.port import Entry, Store

FORMAT: Final = 1
_AT_ONCE: Final = 100

Progress = Callable[[int, int], None]
"""Called with how many runs were written, and how many there are."""


class Archive(View, frozen=True):
    """The archived runs, done or planned: runs with their child runs, all events of them, and where to."""

    runs: tuple[str, ...]
    events: int
    file: Path | None = None
    size: int = 0
    stayed: tuple[str, ...] = ()
    """Runs that were resumed meanwhile, and their families: they are in the file and the store."""

    JSON: ClassVar = {
        "runs": "what was moved, or with `--dry-run` would be",
        "events": "how many events they have",
        "file": "where to; null with `--dry-run`, or if there was nothing to move",
        "bytes": "the size of that file",
        "stayed": "runs that were resumed meanwhile, with their families",
    }
    JSON_FROM: ClassVar = {"bytes": "size"}


Family = Sequence[RunRow]
"""A run and its child runs, to any depth: the run itself first."""


class _Head(NamedTuple):
    stream: str
    version: int
    hash: str


def find(store: Store, home: Path, before: datetime, *, failed: bool = False) -> list[Family]:
    """The families of the runs that ended for good. One of which a run is alive, or has changed since
    `before`, stays whole. A child whose parent is not in the store heads a family of its own."""
    until = microseconds(before)
    status = ENDED if failed else FINAL
    rows = {row.id: row for row in store.runs()}  # all at once: a query for each run's children takes minutes
    children: dict[str, list[RunRow]] = {}
    for row in rows.values():
        children.setdefault(row.parent, []).append(row)

    def is_over(row: RunRow) -> bool:
        return row.updated_at < until and not (row.owner and is_alive(home, row.owner))

    heads = [row for row in rows.values() if row.parent not in rows and row.status in status]
    families = [list(_with_children(head, children)) for head in heads]
    return [family for family in families if all(map(is_over, family))]


def preview(store: Store, home: Path, before: datetime, *, failed: bool = False) -> Archive:
    """The plan of `archive`. Writes nothing."""
    rows = [row for family in find(store, home, before, failed=failed) for row in family]
    return Archive(tuple(row.id for row in rows), sum(row.version for row in rows))


def _with_children(row: RunRow, children: Mapping[str, Sequence[RunRow]]) -> Iterator[RunRow]:
    yield row
    for child in children.get(row.id, ()):
        yield from _with_children(child, children)


def archive(
    store: Store,
    home: Path,
    before: datetime,
    directory: Path,
    clock: Clock,
    *,
    failed: bool = False,
    progress: Progress | None = None,
) -> Archive:
    """Write what `find` finds to a new file in `directory`, read it back, and remove it from the store. Waits
    for another archive of this store to end. Raises `BadInput` if `directory` is something else."""
    if directory.exists() and not directory.is_dir():
        raise BadInput(f"{directory} is no directory; name one for the archive with --to")
    with held(home / "archive.lock"):
        families = find(store, home, before, failed=failed)
        if not families:
            return Archive((), 0)
        with explained(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            file, heads = _write(store, home, families, directory, clock, progress or _quiet)
        left = set(_remove(store, families, heads, file.name, clock.now_us()))
        store.sweep()
        return Archive(
            runs=tuple(head.stream for head in heads if head.stream in left),
            events=sum(head.version for head in heads if head.stream in left),
            file=file,
            size=file.stat().st_size,
            stayed=tuple(head.stream for head in heads if head.stream not in left),
        )


def _remove(
    store: Store, families: Sequence[Family], heads: Sequence[_Head], file: str, at: int
) -> Iterator[str]:
    """The runs that are gone: whole families, some at once, as they are in the file."""
    written = {head.stream: head for head in heads}
    records: list[list[e.StreamArchived]] = []
    for family in families:
        # One that has continued since it was found has perhaps not ended.
        if all(row.id in written and written[row.id].version == row.version for row in family):
            records.append([e.StreamArchived(*written[row.id], file) for row in family])
    while records:
        some = [records.pop(0)]
        while records and sum(map(len, some)) + len(records[0]) <= _AT_ONCE:
            some.append(records.pop(0))
        yield from store.archive(some, at)


def _quiet(done: int, total: int) -> None:
    pass


def _write(
    store: Store, home: Path, families: Sequence[Family], directory: Path, clock: Clock, progress: Progress
) -> tuple[Path, list[_Head]]:
    """A whole file under a name that was free, or none."""
    prefix = f".holdfast-{hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:12]}-"
    for left in directory.glob(
        f"{prefix}*.part"
    ):  # by a process that died: this store has one archive at a time
        left.unlink(missing_ok=True)
    fd, name = tempfile.mkstemp(".part", prefix, directory)
    part = Path(name)
    try:
        with os.fdopen(fd, "wb") as raw:
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as out:
                heads = list(
                    _lines(store, [row for family in families for row in family], out.write, progress)
                )
            raw.flush()
            os.fsync(raw.fileno())
        if read(part) != heads:
            raise StoreCorrupt(f"{part} does not read back as it was written; check the disk")
        file = _publish(part, directory, clock)
    finally:
        part.unlink(missing_ok=True)
    there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(there)
    finally:
        os.close(there)
    return file, heads


def _publish(part: Path, directory: Path, clock: Clock) -> Path:
    """Give the file its name. A link, not a rename: it fails where there is a file, of whatever store."""
    stem = f"runs-{instant(clock.now_us()):%Y%m%dT%H%M%SZ}"
    for name in (f"{stem}{'' if n == 1 else f'-{n}'}.jsonl.gz" for n in count(1)):
        try:
            (directory / name).hardlink_to(part)
        except FileExistsError:
            continue
        return directory / name
    raise AssertionError


def _lines(
    store: Store, rows: Sequence[RunRow], write: Callable[[bytes], Any], progress: Progress
) -> Iterator[_Head]:
    """Write every line; gives the head of each run when its last one is written."""
    write(line_of({"holdfast": "archive", "format": FORMAT}))
    for n, row in enumerate(rows, 1):
        write(line_of({"stream": row.id, "workflow": row.workflow, "status": row.status}))
        last: Entry | None = None
        blobs: dict[str, None] = {}
        for last in store.entries(row.id):
            fields = {"version": last.version, "type": last.type, "at": last.at, "payload": last.payload}
            write(line_of(fields | {"hash": last.hash.hex()}))
            blob = e.blob_of(e.decode(last.type, last.payload))
            if blob:
                blobs[blob] = None
        for blob in blobs:
            write(line_of({"blob": blob, "data": base64.b64encode(store.blob(blob)).decode()}))
        if last is not None:
            yield _Head(row.id, last.version, last.hash.hex())
        progress(n, len(rows))


def line_of(fields: dict[str, Any]) -> bytes:
    """A line of an archive."""
    return msgspec.json.encode(fields) + b"\n"


def read(file: Path) -> list[_Head]:
    """The head of each run in an archive, its events checked against their hashes. Raises `StoreCorrupt`."""
    heads: list[_Head] = []
    with gzip.open(file, "rb") as lines:
        for line in lines:
            fields: dict[str, Any] = msgspec.json.decode(line)
            if "stream" in fields:
                heads.append(_Head(fields["stream"], 0, GENESIS.hex()))
            elif "version" in fields:
                heads[-1] = _next(heads[-1], fields, file)
    return heads


def _next(head: _Head, fields: dict[str, Any], file: Path) -> _Head:
    version = head.version + 1
    name, before = head.stream.encode(), bytes.fromhex(head.hash)
    hash = chain(before, name, version, fields["type"], fields["at"], fields["payload"]).hex()
    if (version, hash) != (fields["version"], fields["hash"]):
        raise StoreCorrupt(f"{file}: version {fields['version']} of {head.stream} does not match its hash")
    return _Head(head.stream, version, hash)
