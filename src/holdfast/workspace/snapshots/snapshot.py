"""A snapshot: the files of a workspace at a moment, as one ref, and how they are read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from holdfast import typed_values
from holdfast.errors import ContentsDamaged, SnapshotNotFound
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import SIZE, Ref
from holdfast.workspace.fs import beneath
from holdfast.workspace.snapshots import listing
from holdfast.workspace.snapshots.listing import Entry, Listing
from holdfast.workspace.snapshots.scan_index import Record

_FORMAT = 1
_DIRECTORY = 0o40755
DAMAGED = "its content is missing or damaged"


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A path that is there but not part of a snapshot."""

    path: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`id` is the SHA-256 of what it covers: two snapshots of the same files have the same id."""

    id: str
    files: int
    directories: int
    links: int
    size: int
    uncovered: tuple[Uncovered, ...]
    unsettled: tuple[bytes, ...] = ()
    """Files that changed each time they were read; what was kept of them may be a mixture."""


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """The content that a snapshot's id is the ref of: mode and listing of the root, nothing else, so that
    equal files have equal ids, however the snapshot was made."""

    format: int
    mode: int
    listing: bytes


def write(put: Callable[[bytes], Ref], root: Entry) -> Ref:
    """Put the manifest of a tree."""
    return put(msgspec.msgpack.encode(Manifest(_FORMAT, root.mode, root.ref)))


def write_paths(put: Callable[[bytes], Ref], paths: Mapping[bytes, Entry]) -> Ref:
    """Put a snapshot of some files alone, with the directories that they need."""
    inner: dict[bytes, dict[bytes, Entry]] = {b"": {}}
    for path, entry in paths.items():
        parent, name = beneath.split(path)
        inner.setdefault(parent, {})[name] = entry
        while parent:
            parent, _ = beneath.split(parent)
            inner.setdefault(parent, {})
    root = Ref(b"")
    for directory in sorted(inner, reverse=True):
        entries = dict(sorted(inner[directory].items()))
        modes = [entry.mode for entry in entries.values()]
        joined = b"".join(entry.ref for entry in entries.values())
        root = listing.write(put, list(entries), modes, joined, {})
        if directory:
            parent, name = beneath.split(directory)
            inner[parent][name] = Entry(_DIRECTORY, root)
    return write(put, Entry(_DIRECTORY, root))


def describe(ref: Ref, records: list[Record], unsettled: list[bytes]) -> Snapshot:
    return Snapshot(
        id=ref.hex(),
        files=sum(record.files for record in records),
        directories=len(records) - 1,
        links=sum(record.links for record in records),
        size=sum(record.size for record in records),
        uncovered=tuple(
            Uncovered(beneath.join(record.path, name), reason)
            for record in records
            if record.uncovered
            for name, reason in record.uncovered.items()
        ),
        unsettled=tuple(unsettled),
    )


@dataclass(frozen=True, slots=True)
class Hidden:
    """There may be something, but it is not known what: not covered, or the listing is damaged."""

    reason: str


State: TypeAlias = Entry | Hidden | None
"""The knowledge of a snapshot about a path; None is proof that there was nothing."""


class Tree:
    """The files of a snapshot. Raises SnapshotNotFound for an id that is none, ContentsDamaged for a snapshot
    that is damaged, or may be in a pack that is."""

    def __init__(self, contents: Contents, snapshot: str) -> None:
        self._contents = contents
        self.id = snapshot
        ref = _ref(snapshot)
        if ref is None:
            raise SnapshotNotFound(snapshot)
        try:
            manifest = typed_values.unpack(contents.read(ref), Manifest)
        except msgspec.MsgspecError as exc:
            raise SnapshotNotFound(snapshot) from exc
        except ContentsDamaged as exc:
            places = contents.damaged_places(ref)
            if places:
                raise ContentsDamaged([f"snapshot {snapshot}", *places]) from exc
            raise SnapshotNotFound(snapshot, contents.restored_without_files) from exc
        if manifest.format != _FORMAT:
            raise SnapshotNotFound(snapshot)
        self._listings: dict[bytes, Listing | Hidden] = {}
        self.root = Entry(manifest.mode, Ref(manifest.listing))

    def listing(self, entry: Entry) -> Listing:
        """The entries of a directory of the snapshot. Raises ContentsDamaged."""
        return listing.read(self._contents.read, entry.ref)

    def find(self, path: bytes) -> State:
        """The knowledge of the snapshot about a path."""
        state: State = self.root
        at = b""
        for name in path.split(b"/") if path else ():
            state = self.inside(state, at, name)
            at = beneath.join(at, name)
        return state

    def inside(self, parent: State, path: bytes, name: bytes) -> State:
        """The same for an entry of `path`, which it knows as `parent`."""
        if isinstance(parent, Hidden):
            return parent
        if parent is None or not parent.is_directory:
            return None
        found = self.inner(parent, path)
        if isinstance(found, Hidden):
            return found
        if name in found.uncovered:
            return Hidden(found.uncovered[name])
        return found.entries.get(name)

    def inner(self, entry: Entry, path: bytes) -> Listing | Hidden:
        """The listing of a directory, read once; hidden if it is damaged."""
        known = self._listings.get(path)
        if known is None:
            try:
                known = self.listing(entry)
            except ContentsDamaged:
                known = Hidden(DAMAGED)
            self._listings[path] = known
        return known

    def walk(self) -> Iterator[tuple[bytes, Entry]]:
        """Every covered path, a directory before what is in it. Raises ContentsDamaged."""
        stack = [(b"", self.root)]
        while stack:
            path, entry = stack.pop()
            if path:
                yield path, entry
            if entry.is_directory:
                stack.extend(
                    (beneath.join(path, name), inner) for name, inner in self.listing(entry).entries.items()
                )

    def refs(self, seen: set[Ref]) -> None:
        """Add every content that the snapshot needs to `seen`. Raises ContentsDamaged.

        What is in `seen` already is not looked into: all that it needs is there too.
        """
        seen.add(Ref(bytes.fromhex(self.id)))
        stack = [self.root]
        while stack:
            entry = stack.pop()
            if entry.is_directory and entry.ref not in seen:
                seen.update(listing.parts(self._contents.read, entry.ref))
                for inner in self.listing(entry).entries.values():
                    if inner.is_directory:
                        stack.append(inner)
                    else:
                        seen.add(inner.ref)


def needed(contents: Contents, snapshots: Iterable[str]) -> set[Ref]:
    """Every content that these snapshots consist of; one that is gone needs none. Raises ContentsDamaged if
    what one needs is unknown."""
    seen: set[Ref] = set()
    for snapshot in snapshots:
        ref = _ref(snapshot)
        if ref is not None and ref in contents:
            Tree(contents, snapshot).refs(seen)
    return seen


def is_whole(contents: Contents, snapshot: str) -> bool:
    """Whether everything is there that the snapshot consists of."""
    return are_whole(contents, (snapshot,))


def are_whole(contents: Contents, snapshots: Iterable[str]) -> bool:
    """Whether everything is there that these snapshots consist of."""
    try:
        seen: set[Ref] = set()
        for snapshot in snapshots:
            Tree(contents, snapshot).refs(seen)
    except (SnapshotNotFound, ContentsDamaged):
        return False
    return all(ref in contents for ref in seen)


def _ref(snapshot: str) -> Ref | None:
    try:
        data = bytes.fromhex(snapshot)
    except ValueError:
        return None
    return Ref(data) if len(data) == SIZE else None
