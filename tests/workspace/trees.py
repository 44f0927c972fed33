"""Random trees, random edits of every kind, and how a tree is described so that two can be compared."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import stat
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

FILE_MODES = (0o644, 0o600, 0o755, 0o444, 0o400, 0o500, 0o664, 0o640)
DIRECTORY_MODES = (0o755, 0o700, 0o555, 0o500, 0o775)
NOBODY = 65534
NAMES = (
    b"a",
    b"b",
    b"Readme",
    b"README",
    b"caf\xc3\xa9",
    b"\xff\xfe",
    b"with space",
    b"-rf",
    b"new\nline",
    b"*",
)


class Sight(NamedTuple):
    """What is at a path. The content is None where nobody reads it: pipes, sockets."""

    mode: int
    content: bytes | None
    mtime_ns: int
    inode: int


def as_somebody(act: Callable[[Path], object], directory: Path) -> None:
    """Do it in a process that is not root's: read-only means something there."""
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.chown(directory, NOBODY, NOBODY)
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.chdir(directory)
            act(directory)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def look(root: Path) -> dict[bytes, Sight]:
    """Everything beneath `root`, by path."""
    base = os.fsencode(root)
    seen: dict[bytes, Sight] = {}
    for directory, subdirectories, files in os.walk(base):
        for name in subdirectories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = None
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                content = Path(os.fsdecode(path)).read_bytes()
            seen[path[len(base) + 1 :]] = Sight(status.st_mode, content, status.st_mtime_ns, status.st_ino)
    return seen


def values(seen: dict[bytes, Sight]) -> dict[bytes, tuple[int, bytes | None]]:
    """Without times and inodes."""
    return {path: (sight.mode, sight.content) for path, sight in seen.items()}


class Gardener:
    """Makes a tree and changes it, by a seed."""

    def __init__(self, root: Path, seed: int, *, special: bool = True) -> None:
        self.root = os.fsencode(root)
        self.chance = random.Random(seed)
        self._special = special
        self._count = 0

    def plant(self, count: int) -> None:
        """A tree of about `count` entries, with an ignored file, a nested repository and a deep path."""
        for _ in range(count):
            self.add()
        deep = os.path.join(self.root, *[b"d"] * self.chance.randrange(5, 30))
        with contextlib.suppress(OSError):
            os.makedirs(deep)
            self._write(os.path.join(deep, b"bottom"))
        with contextlib.suppress(OSError):
            self._write(os.path.join(self.root, b".env"))
            Path(os.fsdecode(self.root), ".gitignore").write_text(".env\nbuild/\n*.log\n")
        if self.chance.random() < 0.3:
            nested = os.path.join(self.root, b"nested%d" % self._count)
            subprocess.run(["git", "init", "-q", nested], check=True)
            self._write(os.path.join(nested, b"inner"))

    def edit(self, count: int) -> None:
        for _ in range(count):
            kind = self.chance.choice(
                (
                    self.add,
                    self.change,
                    self.change,
                    self.remove,
                    self.mode,
                    self.swap,
                    self.rename,
                    self.touch,
                )
            )
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, FileExistsError):
                kind()

    def paths(self) -> list[bytes]:
        """What can be edited: no repository's own files."""
        found = []
        for directory, subdirectories, files in os.walk(self.root):
            subdirectories[:] = sorted(name for name in subdirectories if name != b".git")
            found += [os.path.join(directory, name) for name in subdirectories + sorted(files)]
        return found

    def add(self) -> None:
        parents = [self.root, *(path for path in self.paths() if _is_directory(path))]
        parent = self.chance.choice(parents)
        self._count += 1
        name = self.chance.choice(NAMES) + (b"%d" % self._count if self.chance.random() < 0.8 else b"")
        path = os.path.join(parent, name)
        if not os.path.lexists(path):
            with _writable(parent):
                self._make(path)

    def change(self) -> None:
        path = self._one()
        if path and stat.S_ISREG(os.lstat(path).st_mode):
            mode = os.lstat(path).st_mode
            os.chmod(path, 0o600)
            self._write(path)
            os.chmod(path, stat.S_IMODE(mode))

    def remove(self) -> None:
        if path := self._one():
            with _writable(os.path.dirname(path)):
                _remove(path)

    def mode(self) -> None:
        path = self._one()
        if path and not os.path.islink(path):
            os.chmod(path, self.chance.choice(DIRECTORY_MODES if _is_directory(path) else FILE_MODES))

    def swap(self) -> None:
        """Something else takes the path: a file becomes a directory, a link a file, ..."""
        if path := self._one():
            with _writable(os.path.dirname(path)):
                _remove(path)
                self._make(path)
                if _is_directory(path) and self.chance.random() < 0.7:
                    with _writable(path):
                        self._write(os.path.join(path, b"inside"))

    def rename(self) -> None:
        path = self._one()
        if path:
            self._count += 1
            with _writable(os.path.dirname(path)):
                os.rename(path, path + b"-%d" % self._count)

    def touch(self) -> None:
        path = self._one()
        if path and not os.path.islink(path):
            os.utime(path, ns=(self.chance.randrange(10**18), self.chance.randrange(10**18)))

    def _one(self) -> bytes | None:
        paths = self.paths()
        return self.chance.choice(paths) if paths else None

    def _make(self, path: bytes) -> None:
        kind = self.chance.random()
        if kind < 0.5:
            self._write(path)
            os.chmod(path, self.chance.choice(FILE_MODES))
        elif kind < 0.75:
            os.mkdir(path)
            if self.chance.random() < 0.4:
                self._write(os.path.join(path, b"first"))
            os.chmod(path, self.chance.choice(DIRECTORY_MODES))
        elif kind < 0.95 or not self._special:
            os.symlink(self.chance.choice((b"a", b"/etc/passwd", b"../..", b"nowhere", b"\xff", b".")), path)
        elif kind < 0.98:
            os.mkfifo(path)
        else:
            _make_socket(path)

    def _write(self, path: bytes) -> None:
        size = self.chance.choice((0, 1, 10, 200, 5000, 70_000))
        data = self.chance.choice((self.chance.randbytes(size), b"kelp and rock\n" * (size // 14)))
        with open(path, "wb") as file:
            file.write(data)


def _make_socket(path: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as one, contextlib.suppress(OSError):
        one.bind(path)


def _is_directory(path: bytes) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


@contextlib.contextmanager
def _writable(directory: bytes):
    """A read-only directory is no obstacle for its owner."""
    mode = stat.S_IMODE(os.lstat(directory).st_mode)
    os.chmod(directory, mode | 0o700)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.chmod(directory, mode)


def _remove(path: bytes) -> None:
    if not _is_directory(path):
        os.unlink(path)
        return
    for directory, _, _ in os.walk(path):
        os.chmod(directory, 0o700)
    shutil.rmtree(path)
