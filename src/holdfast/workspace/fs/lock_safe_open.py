"""Opening a file on which the program around us may have a lock.

POSIX takes all of a process's locks on a file when the process closes any descriptor of it, also one of other
code. A database that the program works with would lose its locks to a snapshot that only reads it, and two
processes would write it at once. So the kernel is asked before a descriptor is closed. One of a file that
this process has locked stays open, at most one per file and reader: it is used again when the file is read
again, and closed when the lock is gone.

A lock that is taken between the question and the close is lost: the kernel has no way to do both at once. On
Linux both are done without letting go of the interpreter: hardly any other thread of Python gets in between.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.workspace.fs import beneath

_IS_LINUX = sys.platform.startswith("linux")
_LISTED: Final = "/proc/self/fd" if _IS_LINUX else "/dev/fd"
_GETLK: Final = getattr(fcntl, "F_OFD_GETLK", None)
"""Asks on behalf of a descriptor, not of the process: so the locks of the process itself are seen."""
_NOBODY: Final = 0
_libc = ctypes.PyDLL(None)
"""The C library, called without letting go of the interpreter."""


class _Lock(ctypes.Structure):
    """`struct flock`; one of all zeros but for the type is about the whole file."""

    _kind = (("type", ctypes.c_short), ("whence", ctypes.c_short))
    _place = (("start", ctypes.c_int64), ("length", ctypes.c_int64), ("pid", ctypes.c_int))
    _fields_ = (*_kind, *_place) if _IS_LINUX else (*_place, *_kind)


_kept: dict[int, tuple[int, int]] = {}
"""Descriptors that cannot be closed yet → device and inode. A thread that takes one out has it to itself:
that needs no lock, which a forked child would inherit."""


@contextmanager
def opened(directory: int | None, name: bytes) -> Iterator[int]:
    """A descriptor of the file `name`, to be used with `os.pread`: it may have been read before.

    `directory` can be None if `name` is a whole path.
    """
    fd = _take(directory, name) if _kept else None
    if fd is None:
        fd = os.open(name, beneath.FILE_FLAGS, dir_fd=directory)
    try:
        yield fd
    finally:
        _close(fd)


def beginning(path: bytes, most: int) -> bytes | None:
    """The beginning of a regular file, up to `most` bytes; None if there is none that can be read.

    For files that are looked at because of their name: a pipe, or a link to a device, has no such meaning.
    """
    try:
        with opened(None, path) as fd:
            return os.pread(fd, most, 0) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError as exc:
        if exc.errno in beneath.EXHAUSTED:
            raise
        return None


def close_unlocked() -> None:
    """Close what was kept of files that this process has not locked any more."""
    for fd in list(_kept):
        if _kept.pop(fd, None) is not None:
            _close(fd)


def _take(directory: int | None, name: bytes) -> int | None:
    """A descriptor of this file that was kept, out of those that are."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    for fd, identity in list(_kept.items()):
        if identity == (status.st_dev, status.st_ino) and _kept.pop(fd, None) is not None:
            return fd
    return None


def _close(fd: int) -> None:
    if _may_be_locked(fd):
        status = os.fstat(fd)
        _kept[fd] = status.st_dev, status.st_ino
    elif _IS_LINUX:
        _libc.close(fd)
    else:
        os.close(fd)


def _may_be_locked(fd: int) -> bool:
    """Whether this process may have a lock on a file.

    Of several locks the kernel reports one. If that is another process's, one of ours may be behind it; it
    cannot be if the program does not have the file open.
    """
    pid = _locked_by(fd)
    if pid == _NOBODY:
        return False
    return pid == os.getpid() or _is_open_besides(fd, unknown=pid is not None)


def _locked_by(fd: int) -> int | None:
    """The process that has a lock on a file, or one of them; None where the kernel does not report it."""
    if _GETLK is None:
        return None
    lock = _Lock(type=fcntl.F_WRLCK)
    if _IS_LINUX:
        if _libc.fcntl(fd, _GETLK, ctypes.byref(lock)) != 0:
            return None
    else:  # where a function of any number of arguments is called in a way of its own
        try:
            lock = _Lock.from_buffer_copy(fcntl.fcntl(fd, _GETLK, bytes(lock)))
        except OSError:
            return None
    return _NOBODY if lock.type == fcntl.F_UNLCK else lock.pid or -1


def _is_open_besides(fd: int, *, unknown: bool) -> bool:
    """Whether this process has a file open by a descriptor not of ours; `unknown` if that cannot be seen."""
    try:
        listed = [int(name) for name in os.listdir(_LISTED)]
    except OSError:
        return unknown
    own = os.fstat(fd)
    for other in listed:
        if other == fd or other in _kept:
            continue
        try:
            if os.path.samestat(os.fstat(other), own):
                return True
        except OSError:
            continue  # closed meanwhile
    return False
