"""Which directory a workspace is: the name under which its index, its locks and its journal are found again.

A directory can be moved, and be reached by several paths; the number of its filesystem can be another one
after the machine was started anew. So it is known by its inode, by the id of its filesystem if that has one,
and by either of path and device. A record of these is on the disk before anything that must be found
after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from holdfast import typed_values
from holdfast.durable_file import replace_file

_PREFIX = "root-"


class Root(msgspec.Struct, array_like=True, frozen=True):
    """A directory, as it was when its record was written."""

    device: int
    inode: int
    path: bytes
    filesystem: int
    """An id that lasts; 0 if there is none, or only the number of the device."""

    @classmethod
    def at(cls, path: bytes) -> Root:
        status, filesystem = os.stat(path), os.statvfs(path).f_fsid
        return cls(status.st_dev, status.st_ino, path, 0 if filesystem == status.st_dev else filesystem)

    def is_now(self, here: Root) -> bool:
        """Whether it is the directory that is `here` now."""
        if (self.inode, self.filesystem) != (here.inode, here.filesystem):
            return False
        try:
            there = Root.at(self.path)
        except OSError:
            return self.device == here.device
        if (there.device, there.inode) == (here.device, here.inode):
            return True  # its path leads here, whatever the device was called
        # What has taken its place is another one, or the same one if two filesystems have changed numbers.
        return self.device == here.device and (self.filesystem != 0 or there.inode != self.inode)


class Identity:
    """A directory that is there, and the name of what `directory` keeps of it."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.root = Root.at(os.fsencode(root))
        self._directory = directory
        self.name = self._found()

    def is_of(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == (self.root.device, self.root.inode)

    def record(self) -> None:
        """From now on it is found, whatever its device is called."""
        if _read(self._path) != self.root:
            replace_file(self._path, msgspec.msgpack.encode(self.root))

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        return self._directory / (_PREFIX + self.name)

    def _found(self) -> str:
        known = dict(_records(self._directory))
        for name, root in known.items():
            if root.is_now(self.root):
                return name
        name = f"{self.root.device:x}-{self.root.inode:x}"
        return f"{name}-{sha256(self.root.path).hexdigest()[:8]}" if name in known else name


def _records(directory: Path) -> Iterator[tuple[str, Root]]:
    for path in directory.glob(f"{_PREFIX}*"):
        root = _read(path)
        if root is not None:
            yield path.name.removeprefix(_PREFIX), root


def _read(path: Path) -> Root | None:
    try:
        return typed_values.unpack(path.read_bytes(), Root)
    except (OSError, msgspec.MsgspecError):
        return None
