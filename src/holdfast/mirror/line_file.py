"""Files of lines that are only added to: the journal, and the months of the history.

The card of the mirror has a mark for each: its size and time when holdfast last wrote it. A file that does
not match its mark was cut off by a crash, or changed by others; the lines after the mark show which. After a
crash, these are the lines that are due now, whole or in part, and only the missing part is added."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.mirror.mirror_directory import MirrorDirectory

_PIECE: Final = 1 << 20


class Mark(msgspec.Struct, frozen=True):
    """A file as holdfast last wrote it."""

    size: int
    time_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Mark:
        return cls(status.st_size, status.st_mtime_ns)


NEW: Final = Mark(0, 0)


class NotOurs(Exception):
    """The file is not what holdfast wrote: it must be made again from the log."""


def add(directory: MirrorDirectory, name: str, mark: Mark, lines: bytes) -> Mark:
    """Add lines to the file. Raises `NotOurs` if it is not as it was left, and OSError."""
    status = directory.status(name)
    if status is None:
        if mark != NEW or directory.has(name):
            raise NotOurs(name)
        return Mark.of(directory.append(name, lines)) if lines else NEW
    if status.st_nlink > 1:  # its other name may lie anywhere
        raise NotOurs(name)
    if Mark.of(status) != mark:
        lines = lines[_already(directory, name, mark, status.st_size, lines) :]
        if not lines:
            return Mark.of(status)
    return Mark.of(directory.append(name, lines)) if lines else mark


def _already(directory: MirrorDirectory, name: str, mark: Mark, size: int, lines: bytes) -> int:
    """How much of `lines` a process that was killed has added. Raises `NotOurs` for anything else."""
    added = size - mark.size
    if not 0 < added <= len(lines):
        raise NotOurs(name)
    with directory.reading(name) as fd:
        if os.pread(fd, added, mark.size) != lines[:added]:
            raise NotOurs(name)
    return added


def write_anew(
    directory: MirrorDirectory, name: str, mark: Mark, lines: Iterable[bytes], *, forget: bool = False
) -> Mark:
    """Make the file again from all its lines. If the file that is there is the beginning of the new one, or
    with `forget` as holdfast left it, it is replaced; any other one is kept aside. Returns the new mark."""
    with directory.rewriting() as (temporary, fd):
        with open(fd, "wb", closefd=False) as file:
            file.writelines(lines)
        status = directory.status(name)
        is_empty = os.fstat(fd).st_size == 0
        if status is not None:
            if status.st_size == os.fstat(fd).st_size and _begins_with(directory, name, fd, status.st_size):
                return Mark.of(status)
            is_known = (forget and Mark.of(status) == mark) or (
                _begins_with(directory, name, fd, status.st_size)
            )
            if not is_known:
                directory.keep_aside(name, "is not as the log has it", is_intact=directory.is_others)
            elif is_empty:
                directory.discard(name)
        elif directory.has(name):
            directory.keep_aside(name, "is not a file of holdfast's")
        if is_empty:
            return NEW
        directory.adopt(temporary, name, fd)
        return Mark.of(os.fstat(fd))


def _begins_with(directory: MirrorDirectory, name: str, fd: int, size: int) -> bool:
    """Whether the file is the beginning of the new one."""
    if size > os.fstat(fd).st_size:
        return False
    with directory.reading(name) as old:
        for at in range(0, size, _PIECE):
            length = min(_PIECE, size - at)
            if os.pread(old, length, at) != os.pread(fd, length, at):
                return False
    return True
