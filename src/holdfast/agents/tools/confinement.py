"""A workspace to which tools are confined: every path is opened from its root by descriptor, and no symlink
is followed.

A path that is absolute, has `..` in it or leads through a symlink is refused. A process that swaps a
directory for a symlink meanwhile makes the call fail; nothing outside is read or written. A file is replaced
by a new one under its name, so a second name (hard link) of the old file elsewhere keeps the old content. A
file that has a name outside the workspace is not read either.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.agents.tools import loop_guard
from holdfast.durable_file import TEMPORARY
from holdfast.engine.execution.call import Call
from holdfast.engine.execution.scope import current
from holdfast.errors import BadInput, ToolFailed
from holdfast.project import POINTER_DIRECTORY
from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.beneath import shown
from holdfast.workspace.fs.lock_safe_open import opened
from holdfast.workspace.snapshots import visible_files
from holdfast.workspace.snapshots.visible_files import Entry

_GUARDED: Final = frozenset((b".git", POINTER_DIRECTORY.encode()))
_NEAREST = 3
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def here(tool: str) -> Iterator[Confinement]:
    """The workspace of the step whose body calls this: the copy that it works in, or that of its run."""
    call = current.get()
    if not isinstance(call, Call):
        raise BadInput(
            f"{tool}() is a step on the files of a run: call it from a workflow that a run executes"
        )
    if call.spec.name == tool:  # not inside the body of another step
        loop_guard.count(tool, call)
    if call.guard is not None:
        root = call.guard.path
    else:
        root = call.execution.engine.files.of_run(call.execution.state).root
    with Confinement(root, call.execution.engine.home) as inside:
        yield inside


class Confinement:
    """One workspace, opened. Paths are text, relative to its root, with `/` between names."""

    def __init__(self, root: Path, store: Path | None = None) -> None:
        """`store` is holdfast's own directory, in which tools do not write if it is in the workspace."""
        self.root = root
        self._store = None if store is None or not store.exists() else store.stat()
        self.fd = os.open(root, beneath.FLAGS)
        self._links: Counter[tuple[int, int]] | None = None

    def __enter__(self) -> Confinement:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def inner(self, path: str) -> bytes:
        """The path as the root has it; b"" for the root itself. Raises `ToolFailed` for one that may lead
        out."""
        if not isinstance(path, str):
            raise ToolFailed(f"a path is text, not {path!r}")
        if "\0" in path:
            raise ToolFailed(f"{path!r} has a NUL character, and no path has")
        if path.startswith("/"):
            raise ToolFailed(f"{path!r} is an absolute path; {self._advice(path)}")
        names = [name for name in path.split("/") if name not in ("", ".")]
        if ".." in names:
            raise ToolFailed(
                f"{path!r} has '..' in it; name the path from the workspace's root, without '..'"
            )
        try:
            return "/".join(names).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ToolFailed(f"{path!r} is no text that a path can have") from None

    def _advice(self, path: str) -> str:
        try:
            inner = str(Path(os.path.normpath(path)).relative_to(self.root))
        except ValueError:
            return "only paths relative to the workspace can be used, such as 'src/app.py'"
        return f"use {inner!r}, relative to the workspace"

    def read(self, path: str, most: int) -> tuple[bytes, os.stat_result]:
        """The first `most` bytes of a file, and what the file is."""
        inner = self.inner(path)
        if not inner:
            raise ToolFailed("the path names the workspace itself; `list` shows what is in it")
        try:
            with beneath.directory(self.fd, beneath.split(inner)[0]) as directory:
                return self._read(directory, inner, most)
        except OSError as error:
            raise self.failed(inner, error) from error

    def _read(self, directory: int, inner: bytes, most: int) -> tuple[bytes, os.stat_result]:
        with opened(directory, beneath.split(inner)[1]) as fd:
            status = os.fstat(fd)
            self._check_file(inner, status)
            if status.st_nlink > 1 and not self.holds_all_links(status):
                raise ToolFailed(
                    f"{shown(inner)!r} is a hard link to a file that has a name outside the workspace too, "
                    "and is not read"
                )
            return _bytes(fd, most), status

    def bytes_of(self, walk: beneath.Walk, inner: bytes, most: int) -> bytes | None:
        """The same for one of many files; None for one that cannot be read, whatever the reason."""
        try:
            return self._read(walk.to(beneath.split(inner)[0]), inner, most)[0]
        except (OSError, ToolFailed):
            return None

    def _check_file(self, inner: bytes, status: os.stat_result) -> None:
        name = repr(shown(inner))
        if stat.S_ISDIR(status.st_mode):
            raise ToolFailed(f"{name} is a directory; `list` shows what is in it")
        if stat.S_ISLNK(status.st_mode):
            raise self._link(inner)
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no file")
            raise ToolFailed(f"{name} is {kind}, and tools work on files")

    def holds_all_links(self, status: os.stat_result) -> bool:
        """Whether every name of a file is in the workspace. All names of the tree are counted once."""
        if self._links is None:
            self._links = Counter(_linked(self.fd))
        return self._links[status.st_dev, status.st_ino] >= status.st_nlink

    def replace(self, path: str, data: bytes, *, must_be_new: bool = False) -> bool:
        """Put a file with this content in the place of `path`, durably; its directories are made. Whether it
        is new.

        A reader sees the old content or the new. Permissions of a file that was there are kept.
        """
        inner = self.inner(path)
        if not inner:
            raise ToolFailed("the path names the workspace itself; name a file in it")
        self._check_guarded(inner)
        parent, name = beneath.split(inner)
        try:
            with self._made_directory(parent) as directory:
                return self._replace(directory, inner, name, data, must_be_new)
        except OSError as error:
            raise self.failed(inner, error) from error

    def _check_guarded(self, inner: bytes) -> None:
        for name in inner.split(b"/"):
            if name.lower() in _GUARDED:
                owner = "git" if name.lower() == b".git" else "holdfast"
                raise ToolFailed(f"{shown(inner)!r} is {owner}'s own, and tools do not write there")

    def _replace(self, directory: int, inner: bytes, name: bytes, data: bytes, must_be_new: bool) -> bool:
        mode = None
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            pass
        else:
            self._check_file(inner, status)
            if must_be_new:
                raise ToolFailed(f"{shown(inner)!r} is there already; `edit` changes it, `write` replaces it")
            mode = stat.S_IMODE(status.st_mode)
        temporary = f"{TEMPORARY}{os.urandom(8).hex()}".encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o666, dir_fd=directory)
        try:
            with open(fd, "wb") as file:  # noqa: PTH123
                if mode is not None:
                    os.fchmod(fd, mode)
                file.write(data)
                file.flush()
                os.fsync(fd)
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise
        return mode is None

    @contextmanager
    def _made_directory(self, path: bytes) -> Iterator[int]:
        """The directory, made with those around it if they are not there."""
        fd = beneath.open_directory(self.fd, b"")
        try:
            for name in path.split(b"/") if path else ():
                try:
                    inner = os.open(name, beneath.FLAGS, dir_fd=fd)
                except FileNotFoundError:
                    try:
                        os.mkdir(name, dir_fd=fd)
                    except FileExistsError:
                        pass  # another process was faster
                    inner = os.open(name, beneath.FLAGS, dir_fd=fd)
                os.close(fd)
                fd = inner
                if self._store is not None and os.path.samestat(os.fstat(fd), self._store):
                    raise ToolFailed(f"{shown(path)!r} is holdfast's own, and tools do not write there")
            yield fd
        finally:
            os.close(fd)

    def directory(self, path: str) -> bytes:
        """The path of a directory that is there."""
        inner = self.inner(path)
        try:
            with beneath.directory(self.fd, inner):
                return inner
        except NotADirectoryError as error:
            if self._first_link(inner) is not None:
                raise self._link(inner) from error
            raise ToolFailed(f"{shown(inner)!r} is a file, not a directory") from error
        except OSError as error:
            raise self.failed(inner, error) from error

    def walk(self, start: bytes, *, ignored: bool = False, depth: int = 0) -> Iterator[Entry]:
        """The entries beneath a directory, see `visible_files.walk`."""
        try:
            yield from visible_files.walk(self.fd, start, ignored=ignored, depth=depth)
        except OSError as error:
            raise self.failed(start, error) from error

    def failed(self, inner: bytes, error: OSError) -> ToolFailed:
        """The error for the caller of the tool."""
        name = repr(shown(inner))
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and self._first_link(inner) is not None:
            return self._link(inner)
        if error.errno == errno.ENOENT:
            return ToolFailed(f"there is no {name} in the workspace{self._near(inner)}")
        if error.errno == errno.ENOTDIR:
            return ToolFailed(f"there is no {name}: a name on the way to it is a file, not a directory")
        if isinstance(error, PermissionError):
            return ToolFailed(f"{name} cannot be used: no permission")
        return ToolFailed(f"{name} cannot be used: {error.strerror or error}")

    def _link(self, inner: bytes) -> ToolFailed:
        link = self._first_link(inner)
        if link is None:
            return ToolFailed(f"{shown(inner)!r} was replaced while it was opened; try again")
        name, target = link
        leads = f"{shown(name)!r} is a symlink to {shown(target)!r}"
        return ToolFailed(
            f"{leads}, and tools follow no symlinks; name the file that is meant by its own path"
        )

    def _first_link(self, inner: bytes) -> tuple[bytes, bytes] | None:
        """The first symlink on the way, and where it leads."""
        names = inner.split(b"/")
        for count in range(1, len(names) + 1):
            path = b"/".join(names[:count])
            parent, name = beneath.split(path)
            try:
                with beneath.directory(self.fd, parent) as fd:
                    return path, os.readlink(name, dir_fd=fd)
            except OSError as error:
                if error.errno != errno.EINVAL:  # EINVAL: it is there, and no link
                    return None
        return None

    def _near(self, inner: bytes) -> str:
        """Names in the innermost directory that is there which are nearly the one that is not."""
        names = inner.split(b"/")
        for count in range(len(names) - 1, -1, -1):
            parent = b"/".join(names[:count])
            try:
                with beneath.directory(self.fd, parent) as fd:
                    there = sorted(os.fsencode(name) for name in os.listdir(fd))  # noqa: PTH208
            except OSError:
                continue
            near = difflib.get_close_matches(shown(names[count]), map(shown, there), _NEAREST, 0.6)
            if near:
                return "; nearest: " + ", ".join(
                    shown(beneath.join(parent, os.fsencode(one))) for one in near
                )
            where = repr(shown(parent)) if parent else "the workspace"
            return f"; `list` shows what is in {where}"
        return ""


def _bytes(fd: int, most: int) -> bytes:
    pieces, at = [], 0
    while at < most:
        piece = os.pread(fd, min(most - at, 1 << 20), at)
        if not piece:
            break
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _linked(root: int) -> Iterator[tuple[int, int]]:
    """Device and inode of each name in the tree that is one of several of its file."""
    pending = [b""]
    while pending:
        path = pending.pop()
        try:
            with beneath.directory(root, path) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(beneath.join(path, os.fsencode(entry.name)))
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_nlink > 1:
                            yield status.st_dev, status.st_ino
        except OSError:
            continue
