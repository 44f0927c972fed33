"""A snapshot made from another: some paths have other contents, all else is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.fs import beneath
from holdfast.workspace.snapshots import listing, snapshot
from holdfast.workspace.snapshots.listing import EMPTY, Entry
from holdfast.workspace.snapshots.snapshot import Hidden, Tree

Edits = Mapping[bytes, Entry | None]
"""The new entry of a path; None for nothing. Of a directory only the mode counts."""

NO_EDITS: Edits = {}
_DIRECTORY = 0o40755


def edited(contents: Contents, base: Tree, edits: Edits, like: Tree) -> str:
    """The id of a snapshot that is `base` but for `edits`. A directory that they need and that is not in
    `base` is as in `like`. What `base` does not cover is left as it is. Raises ContentsDamaged."""
    if not edits:
        return base.id
    directories = sorted(_ancestors(edits), key=lambda path: path.count(b"/") + bool(path), reverse=True)
    inner: dict[bytes, dict[bytes, Entry | None]] = {path: {} for path in directories}
    for path, entry in edits.items():
        if path and path not in inner:
            parent, name = beneath.split(path)
            inner[parent][name] = entry
    root = base.root
    with contents.writing() as batch:
        for path in directories:
            made = _directory(batch.put, path, base, edits, inner[path], like)
            if path:
                parent, name = beneath.split(path)
                inner[parent][name] = made
            elif made is not None:
                root = made
        ref = snapshot.write(batch.put, root)
    return ref.hex()


def _ancestors(edits: Edits) -> set[bytes]:
    """The directories that change, and the edited directories themselves."""
    found = {path for path, entry in edits.items() if entry is not None and entry.is_directory} | {b""}
    for path in edits:
        while path:
            path, _ = beneath.split(path)
            if path in found:
                break  # with those above it, now or when its own turn comes
            found.add(path)
    return found


def _directory(
    put: Callable[[bytes], Ref],
    path: bytes,
    base: Tree,
    edits: Edits,
    inner: dict[bytes, Entry | None],
    like: Tree,
) -> Entry | None:
    """The entry at `path`, a directory with edits in it, after them."""
    there = base.find(path)
    if isinstance(there, Hidden):
        return None
    own = edits.get(path, there)
    stays = any(entry is not None for entry in inner.values())
    if own is None and not stays:
        return None
    if own is not None and not own.is_directory and not stays:
        return own
    if own is None or not own.is_directory:
        found = like.find(path)
        mode = found.mode if isinstance(found, Entry) and found.is_directory else _DIRECTORY
    else:
        mode = own.mode
    old = base.listing(there) if isinstance(there, Entry) and there.is_directory else EMPTY
    entries = {**old.entries, **inner}
    left = dict(sorted((name, entry) for name, entry in entries.items() if entry is not None))
    uncovered = {name: why for name, why in old.uncovered.items() if name not in left}
    joined = b"".join(entry.ref for entry in left.values())
    ref = listing.write(put, list(left), [entry.mode for entry in left.values()], joined, uncovered)
    return Entry(mode, ref)
