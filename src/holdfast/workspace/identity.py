"""Which directory a workspace is: the name under which its index, its locks and its journal are found again.

A directory can be moved, and the number of its filesystem can be another one after the machine was started
anew. So one is known by its inode and either of path and device. A record of the three is on the disk before
anything that somebody has to find after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from holdfast.workspace import storage

_PREFIX = "root-"


class Root(msgspec.Struct, array_like=True, frozen=True):
    """A directory, as it was when its record was written."""

    device: int
    inode: int
    path: bytes

    def is_beside(self, other: Root) -> bool:
        """Whether this one is still where it was, and is not the other one by another path."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return status.st_ino == self.inode and status.st_dev != other.device


class Identity:
    """A directory that is there, and the name of what `directory` keeps of it."""

    def __init__(self, root: Path, directory: Path) -> None:
        status = os.stat(root)
        self.root = Root(status.st_dev, status.st_ino, os.fsencode(root))
        self._directory = directory
        self.name = self._found()

    def is_of(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == (self.root.device, self.root.inode)

    def record(self) -> None:
        """From now on it is found, whatever its device is called."""
        path = self._directory / (_PREFIX + self.name)
        if _read(path) != self.root:
            storage.replace_file(path, msgspec.msgpack.encode(self.root))

    def _found(self) -> str:
        here = self.root
        known = {name: root for name, root in _records(self._directory) if root.inode == here.inode}
        for name, root in known.items():
            if root.path == here.path:
                return name
        for name, root in known.items():
            if root.device == here.device and not root.is_beside(here):
                return name
        name = f"{here.device:x}-{here.inode:x}"
        return f"{name}-{sha256(here.path).hexdigest()[:8]}" if name in known else name


def _records(directory: Path) -> Iterator[tuple[str, Root]]:
    for path in directory.glob(f"{_PREFIX}*"):
        root = _read(path)
        if root is not None:
            yield path.name.removeprefix(_PREFIX), root


def _read(path: Path) -> Root | None:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Root)
    except (OSError, msgspec.MsgspecError):
        return None
