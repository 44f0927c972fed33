"""Directories by descriptor: a path is walked from the root, and no symlink on the way is followed.

If a parent directory is swapped for a symlink meanwhile, that is an error, never a file outside the root.
Linux walks many names in one call (`openat2`); elsewhere, and for paths longer than a call takes, it is done
piece by piece, each from the directory before it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""For reading a regular file: a pipe or a device in its place must not block or act."""
NOT_THERE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
"""Errors of opening a path that is not what it was: gone, or a link or a file now."""

EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""Errors of opening that are not the path's: nothing else could be opened either."""

_OPENAT2 = 437
_NO_SYMLINKS, _BENEATH = 0x04, 0x08
_REFUSED = frozenset((errno.ENOSYS, errno.EPERM))  # an old kernel, or a sandbox that does not know the call
_LONGEST = 4000


class _How(ctypes.Structure):
    """`struct open_how`"""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW = _How(FLAGS, 0, _NO_SYMLINKS | _BENEATH)
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t)
_syscall.restype = ctypes.c_long


def _open_far(root: int, path: bytes) -> int:
    """Open a directory by a path of several names, with `openat2`."""
    fd: int = _syscall(_OPENAT2, root, path, _HOW, ctypes.sizeof(_HOW))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return fd


def _can_open_far() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    root = os.open(b"/", FLAGS)
    try:
        os.close(_open_far(root, b"."))
    except OSError as exc:
        if exc.errno not in _REFUSED:
            raise
        return False
    finally:
        os.close(root)
    return True


_OPENS_FAR = _can_open_far()


def open_directory(root: int, path: bytes) -> int:
    """A descriptor of the directory `path` beneath `root`; b"" is the root itself."""
    if not path:
        return os.open(b".", FLAGS, dir_fd=root)
    fd = -1
    for piece in _pieces(path):
        held = fd
        try:
            at = root if held < 0 else held
            fd = _open_far(at, piece) if _OPENS_FAR else os.open(piece, FLAGS, dir_fd=at)
        finally:
            if held >= 0:
                os.close(held)
    return fd


def _pieces(path: bytes) -> Iterator[bytes]:
    """The path in pieces that can be opened in one call each."""
    if not _OPENS_FAR:
        yield from path.split(b"/")
        return
    while len(path) >= _LONGEST:
        end = path.rindex(b"/", 0, _LONGEST)
        yield path[:end]
        path = path[end + 1 :]
    yield path


@contextmanager
def directory(root: int, path: bytes) -> Iterator[int]:
    fd = open_directory(root, path)
    try:
        yield fd
    finally:
        os.close(fd)


class Walk:
    """Opens one directory after the other, and the one that is asked for again only once."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._path = b""
        self._fd = -1

    def to(self, path: bytes) -> int:
        """A descriptor of the directory `path`, good until another one is asked for."""
        if not path:
            return self._root
        if path != self._path or self._fd < 0:
            self.close()
            self._fd = open_directory(self._root, path)
            self._path = path
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def split(path: bytes) -> tuple[bytes, bytes]:
    """(directory, name)"""
    head, _, name = path.rpartition(b"/")
    return head, name


def join(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name


def shown(path: bytes) -> str:
    """For people and JSON: bytes that are not text are escaped, so that it can always be printed."""
    return path.decode("utf-8", "backslashreplace")
