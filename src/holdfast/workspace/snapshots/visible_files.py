"""The files of a tree that people work on: what ignore files name and what tools generate is left out.

A walk reads nothing outside its root: each directory is opened from the root by descriptor, and no symlink is
followed. Unlike a snapshot it obeys `.gitignore` for every file, not only for trees that a tool makes anew.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.project import POINTER_DIRECTORY
from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.lock_safe_open import opened
from holdfast.workspace.snapshots.coverage import REMADE
from holdfast.workspace.snapshots.ignore_files import IgnoreFiles

IGNORE_FILES = (b".gitignore", b".ignore", b".holdfastignore")
"""Of two in one directory, the later one decides."""
_OWN = frozenset((b".git", b".hg", b".svn", b".jj", POINTER_DIRECTORY.encode()))
_ENVIRONMENT = b"pyvenv.cfg"
_LARGEST = 1024 * 1024


class Entry(NamedTuple):
    """A file, directory or symlink; `path` is relative to the root."""

    path: bytes
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


def walk(root: int, start: bytes = b"", *, ignored: bool = False, depth: int = 0) -> Iterator[Entry]:
    """The entries beneath the directory `start`, in the order of their names, each directory before what is
    in it.

    ignored  include what ignore files name and what tools generate; never what is git's or holdfast's own
    depth    so many levels; 0 for all

    What vanishes or cannot be opened meanwhile is left out. Raises OSError only for `start` itself.
    """
    rules = IgnoreFiles(b"")
    if not ignored:
        _learn_above(root, start, rules)
    base = start.count(b"/") + 1 if start else 0
    device = os.fstat(root).st_dev
    pending: list[Entry | bytes] = [start]
    while pending:
        entry = pending.pop()
        if isinstance(entry, Entry):
            yield entry
            if not entry.is_directory or (depth and entry.path.count(b"/") - base + 1 >= depth):
                continue
            path = entry.path
        else:
            path = entry
        try:
            inner = _inside(root, path, None if ignored else rules, device)
        except OSError:
            if path == start:
                raise
            continue
        pending.extend(reversed(inner))


def _learn_above(root: int, start: bytes, rules: IgnoreFiles) -> None:
    """The ignore files of the directories that `start` is in."""
    pieces = start.split(b"/") if start else []
    for count in range(len(pieces)):
        path = b"/".join(pieces[:count])
        with beneath.directory(root, path) as fd:
            _learn(fd, path, IGNORE_FILES, rules)


def _inside(root: int, path: bytes, rules: IgnoreFiles | None, device: int) -> list[Entry]:
    with beneath.directory(root, path) as fd:
        found: list[Entry] = []
        with os.scandir(fd) as entries:
            rows = sorted((os.fsencode(entry.name), entry) for entry in entries)
            names = {name for name, _ in rows}
            if rules is not None:
                _learn(fd, path, [name for name in IGNORE_FILES if name in names], rules)
                if _ENVIRONMENT in names and path:
                    return []
            for name, entry in rows:
                if name in _OWN:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                is_directory = stat.S_ISDIR(status.st_mode)
                inner = beneath.join(path, name)
                if is_directory and status.st_dev != device:
                    continue
                if rules is not None and (
                    (is_directory and name in REMADE) or rules.ignores(inner, is_directory)
                ):
                    continue
                found.append(Entry(inner, status))
    return found


def _learn(fd: int, path: bytes, names: tuple[bytes, ...] | list[bytes], rules: IgnoreFiles) -> None:
    texts = [text for name in names if (text := _text(fd, name))]
    if texts:
        rules.learn(path, b"\n".join(texts))


def _text(fd: int, name: bytes) -> bytes:
    """An ignore file; empty for one that cannot be read, is no regular file or larger than a person
    writes."""
    try:
        with opened(fd, name) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                return b""
            return os.pread(file, _LARGEST, 0)
    except OSError:
        return b""
