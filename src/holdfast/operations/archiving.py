"""`archive`: runs that have ended leave the store for a file; the log keeps a record of each.

A file has a line for each event, as the log had it, with its hash, and one for each large value. It is
whole, on the disk and read back before anything is removed: a crash at any point leaves a run in the
store, or in the file, or in both.
"""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.clock import EPOCH, instant
from holdfast.engine.ownership import is_alive
from holdfast.errors import StoreCorrupt
from holdfast.kernel import events as e
from holdfast.project import explained
from holdfast.store.port import GENESIS, RunFilter, RunRow, chain

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.store.port import Entry, Store

FORMAT: Final = 1
_AT_ONCE: Final = 100
_ENDED: Final = ("completed", "cancelled")

Progress = Callable[[int, int], None]
"""Called with how many runs were written, and how many there are."""


class Archive(msgspec.Struct, frozen=True):
    """What was archived, or would be: runs with their child runs, all events of them, and where to."""

    runs: tuple[str, ...]
    events: int
    file: Path | None = None
    size: int = 0
    stayed: tuple[str, ...] = ()
    """Runs that somebody went on with meanwhile: they are in the file and in the store."""


class _Head(NamedTuple):
    stream: str
    version: int
    hash: str


def find(store: Store, home: Path, before: datetime, *, failed: bool = False) -> list[RunRow]:
    """The runs that ended for good and have not changed since `before`, each followed by its child runs. A
    family of which one is alive, or has changed since, stays whole."""
    until = (before - EPOCH) // timedelta(microseconds=1)
    status = (*_ENDED, "failed") if failed else _ENDED
    found: list[RunRow] = []
    for root in store.find_runs(RunFilter(status=status, parent="", created_before=until)):
        family = [root, *_descendants(store, root.id)]
        if all(row.updated_at < until and not (row.owner and is_alive(home, row.owner)) for row in family):
            found += family
    return found


def _descendants(store: Store, run_id: str) -> Iterator[RunRow]:
    for row in store.runs(parent=run_id):
        yield row
        yield from _descendants(store, row.id)


def archive(
    store: Store, rows: Sequence[RunRow], directory: Path, clock: Clock, progress: Progress | None = None
) -> Archive:
    """Write these runs to a new file in `directory`, read it back, and remove them from the store."""
    if not rows:
        return Archive((), 0)
    file = _name(directory, clock)
    with explained(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        heads = _write(store, rows, file, progress or _quiet)
    at = clock.now_us()
    found = {row.id: row.version for row in rows}
    # One that has gone on since it was found has perhaps not ended.
    records = [e.StreamArchived(*head, file.name) for head in heads if head.version == found[head.stream]]
    gone: list[str] = []
    for start in range(0, len(records), _AT_ONCE):
        gone += store.archive(records[start : start + _AT_ONCE], at)
    store.sweep()
    left = set(gone)
    return Archive(
        runs=tuple(gone),
        events=sum(head.version for head in heads if head.stream in left),
        file=file,
        size=file.stat().st_size,
        stayed=tuple(head.stream for head in heads if head.stream not in left),
    )


def _quiet(done: int, total: int) -> None:
    pass


def _name(directory: Path, clock: Clock) -> Path:
    stem = f"runs-{instant(clock.now_us()):%Y%m%dT%H%M%SZ}"
    tries = (f"{stem}{'' if n == 1 else f'-{n}'}.jsonl.gz" for n in range(1, 10_000))
    return next(directory / name for name in tries if not (directory / name).exists())


def _write(store: Store, rows: Sequence[RunRow], file: Path, progress: Progress) -> list[_Head]:
    """A whole file under its name, or none."""
    part = file.with_name(f".{file.name}.part")
    try:
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as raw:
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as out:
                heads = list(_lines(store, rows, out.write, progress))
            raw.flush()
            os.fsync(raw.fileno())
        if read(part) != heads:
            raise StoreCorrupt(f"{part} does not read back as it was written; check the disk")
        part.rename(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    there = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(there)
    finally:
        os.close(there)
    return heads


def _lines(
    store: Store, rows: Sequence[RunRow], write: Callable[[bytes], Any], progress: Progress
) -> Iterator[_Head]:
    """Write every line; gives the head of each run when its last one is written."""
    write(_line({"holdfast": "archive", "format": FORMAT}))
    for n, row in enumerate(rows, 1):
        write(_line({"stream": row.id, "workflow": row.workflow, "status": row.status}))
        last: Entry | None = None
        blobs: dict[str, None] = {}
        for last in store.entries(row.id):
            fields = {"version": last.version, "type": last.type, "at": last.at, "payload": last.payload}
            write(_line(fields | {"hash": last.hash.hex()}))
            blob = getattr(e.decode(last.type, last.payload), "blob", "")
            if blob:
                blobs[blob] = None
        for blob in blobs:
            write(_line({"blob": blob, "data": base64.b64encode(store.blob(blob)).decode()}))
        if last is not None:
            yield _Head(row.id, last.version, last.hash.hex())
        progress(n, len(rows))


def _line(fields: dict[str, Any]) -> bytes:
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
