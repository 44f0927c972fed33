"""Small files that are written whole: a reader sees the old file or the new one, also after a power cut."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

TEMPORARY: Final = "tmp-"
"""How the names of files begin that are not yet whole."""
_NOT_OFFERED: Final = (errno.EINVAL, errno.ENOTSUP)
NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
"""Errors of a hard link that this filesystem, or this file, cannot have."""


def replace_file(
    path: Path, data: bytes, *, mode: int = 0o600, sync: bool = True, dir_fd: int | None = None
) -> None:
    """Put `data` in the place of the file, if there is one. Without `sync` a power cut may leave neither. A
    relative path counts from the directory `dir_fd`, if that is given."""
    temporary = _written(path.parent, data, mode, sync, dir_fd)
    try:
        os.replace(temporary, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        _remove(temporary, dir_fd)
        raise
    if sync:
        sync_directory(path.parent, dir_fd=dir_fd)


def create_file(path: Path, data: bytes, *, mode: int = 0o600) -> bool:
    """Make a file that is not there yet, durably; False if there is one, which stays. Of several processes
    exactly one makes it."""
    temporary = _written(path.parent, data, mode, sync=True, dir_fd=None)
    try:
        if not _link(temporary, path):
            return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
    return True


def sync_directory(directory: Path, *, dir_fd: int | None = None) -> None:
    """Bring the names in a directory to the disk."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:  # by this kind of filesystem
            raise
    finally:
        os.close(fd)


def _written(directory: Path, data: bytes, mode: int, sync: bool, dir_fd: int | None) -> Path:
    temporary = directory / f"{TEMPORARY}{os.urandom(8).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    try:
        with open(fd, "wb") as file:  # noqa: PTH123
            os.fchmod(fd, mode)  # whatever the umask
            file.write(data)
            file.flush()
            if sync:
                os.fsync(fd)
    except BaseException:
        _remove(temporary, dir_fd)
        raise
    return temporary


def _remove(temporary: Path, dir_fd: int | None) -> None:
    try:
        os.unlink(temporary, dir_fd=dir_fd)
    except FileNotFoundError:
        pass


def _link(temporary: Path, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        # A filesystem without hard links: two processes at the same moment may both make it.
        if os.path.lexists(path):
            return False
        temporary.rename(path)
    return True
