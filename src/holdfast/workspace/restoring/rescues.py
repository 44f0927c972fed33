"""Files written at the last moment of a restore: saved, and not in the tree.

The caller of a restore gets the snapshot of them, and names it in its log. Until then a file of its own keeps
it, so that it is neither lost nor unreported where there is no such log: after a crash, or when a restore is
itself undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.durable_file import replace_file
from holdfast.errors import ContentsDamaged, SnapshotNotFound
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.snapshots import snapshot
from holdfast.workspace.snapshots.listing import Entry
from holdfast.workspace.snapshots.snapshot import Tree

_PREFIX = "rescued-"


class Rescues:
    """Those of one root, as one snapshot of the files alone that were rescued."""

    def __init__(self, contents: Contents, directory: Path, name: str) -> None:
        self._contents = contents
        self._path = directory / f"{_PREFIX}{name}"

    def add(self, found: Mapping[bytes, Entry]) -> str | None:
        """The snapshot of what was found now, and of what no log names yet; None if there is nothing."""
        before = _read(self._path)
        if not found:
            return before or None
        with self._contents.writing() as batch:
            added = snapshot.write_paths(batch.put, {**self._files(before), **found}).hex()
        replace_file(self._path, added.encode())
        return added

    def noted(self, rescued: str | None) -> None:
        """A log names it from now on."""
        if rescued and _read(self._path) == rescued:
            self.forget()

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    def _files(self, rescued: str) -> dict[bytes, Entry]:
        if not rescued:
            return {}
        try:
            return {path: one for path, one in Tree(self._contents, rescued).walk() if not one.is_directory}
        except (ContentsDamaged, SnapshotNotFound):
            return {}


def unnoted(directory: Path) -> Iterator[str]:
    """The snapshots in a directory of contents that no log names, and that are kept all the same."""
    for path in directory.glob(f"{_PREFIX}*"):
        if rescued := _read(path):
            yield rescued


def _read(path: Path) -> str:
    try:
        text = path.read_text("ascii")
        bytes.fromhex(text)
    except (OSError, ValueError):
        return ""
    return text
