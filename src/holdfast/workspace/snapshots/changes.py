"""The differences between two snapshots, path by path, and as text for people."""

from __future__ import annotations

import difflib
import io
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from holdfast.errors import ContentsDamaged
from holdfast.workspace.contents.batch import LARGE
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.fs import beneath
from holdfast.workspace.snapshots.listing import EMPTY, Entry, Listing
from holdfast.workspace.snapshots.snapshot import Tree

_CONTEXT = 3
NO_TEXT = "binary or large contents differ"
Kind = Literal["added", "removed", "modified", "mode", "type"]


@dataclass(frozen=True, slots=True)
class Change:
    """A path that differs. A directory counts as changed by its own mode, not by what is in it."""

    path: bytes
    before: Entry | None
    after: Entry | None

    @property
    def kind(self) -> Kind:
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        if stat.S_IFMT(self.before.mode) != stat.S_IFMT(self.after.mode):
            return "type"
        return "mode" if self.before.is_directory or self.before.ref == self.after.ref else "modified"


def between(before: Tree, after: Tree) -> Iterator[Change]:
    """Sorted by path within each directory, a directory before what is in it. Raises ContentsDamaged."""
    stack: list[tuple[bytes, Entry | None, Entry | None]] = [(b"", before.root, after.root)]
    while stack:
        path, old, new = stack.pop()
        if old == new:
            continue
        if not (old and new and old.is_directory and new.is_directory and old.mode == new.mode):
            yield Change(path, old, new)
        inner_old, inner_new = _inner(before, old), _inner(after, new)
        names = sorted({*inner_old.entries, *inner_new.entries}, reverse=True)
        stack.extend(
            (beneath.join(path, name), inner_old.entries.get(name), inner_new.entries.get(name))
            for name in names
        )


def _inner(tree: Tree, entry: Entry | None) -> Listing:
    return tree.listing(entry) if entry is not None and entry.is_directory else EMPTY


def unified(contents: Contents, change: Change, redact: Callable[[str], str] = str) -> str:
    """A unified diff of one change, as `git apply` takes it; one line where there is no text to compare."""
    name = _name(change.path)
    old, new = _text(contents, change.before), _text(contents, change.after)
    head = f"{change.kind} {name}{_modes(change)}\n"
    if old is None or new is None:
        return f"{head}{NO_TEXT}\n"
    if old == new:
        return head
    old, new = redact(old), redact(new)
    lines = difflib.unified_diff(
        list(io.StringIO(old)),
        list(io.StringIO(new)),
        f"a/{name}" if change.before else "/dev/null",
        f"b/{name}" if change.after else "/dev/null",
        n=_CONTEXT,
    )
    ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return head + "".join(ended)


def _name(path: bytes) -> str:
    """On one line, whatever it is made of."""
    text = beneath.shown(path)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _modes(change: Change) -> str:
    if change.before is None or change.after is None or change.before.mode == change.after.mode:
        return ""
    return f" ({stat.filemode(change.before.mode)} to {stat.filemode(change.after.mode)})"


def _text(contents: Contents, entry: Entry | None) -> str | None:
    """The text of an entry; None if it is not text, or too long to compare."""
    if entry is None or entry.is_directory:
        return ""
    data = _beginning(contents, entry.ref)
    if len(data) > LARGE or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _beginning(contents: Contents, ref: Ref) -> bytes:
    data = b""
    try:
        for piece in contents.pieces(ref):
            data += piece
            if len(data) > LARGE:
                break
    except ContentsDamaged:
        return b"\0"
    return data
