"""The index of a repository: kept as a content, compared by what it says, restored under its lock.

The file is kept byte for byte, with all that git has put into it. Two indexes are compared by their entries,
because a mere `git status` writes new times into the file.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.durable_file import sync_directory
from holdfast.errors import ContentsDamaged, GitBusy, GitError, GitFailed
from holdfast.file_lock import lock, try_lock
from holdfast.workspace.contents.batch import LARGE, Batch
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.git.program import run
from holdfast.workspace.git.ref_list import missing

_LINK = "160000"
_OURS = b".holdfast-"


class GitIndex:
    """The index file at `path` of the repository that `top` is in."""

    def __init__(self, top: bytes, path: bytes, contents: Contents) -> None:
        self._top = top
        self.path = path
        self._contents = contents

    def save(self, batch: Batch) -> tuple[str, int]:
        """Keep the file as it is → its content, "" if there is none, and when it was written."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                ref = Ref(hashlib.file_digest(file, "sha256").digest())
                if ref not in self._contents:
                    file.seek(0)
                    small = status.st_size < LARGE
                    ref = batch.put(file.read()) if small else batch.put_file(file.fileno())
                return ref.hex(), status.st_mtime_ns
        except FileNotFoundError:
            return "", 0
        except OSError as exc:
            raise GitFailed("index", f"{os.fsdecode(self.path)} cannot be read ({exc.strerror})") from exc

    def same(self, one: str, other: str) -> bool:
        """Whether two kept indexes say the same. One that cannot be read is like none but itself."""
        if one == other:
            return True
        entries = self._entries(one)
        return entries is not None and entries == self._entries(other)

    def is_whole(self, index: str) -> bool:
        """Whether a kept index can be read, and all that it names is in the repository."""
        return self._entries(index) is not None and not missing(self._top, self.objects(index))

    def objects(self, index: str) -> set[str]:
        """The objects that a kept index names."""
        entries = self._entries(index) or b""
        words = [entry.split(b"\t")[0].decode().split(" ") for entry in entries.split(b"\0") if entry]
        return {name for _, mode, name, _ in words if mode != _LINK}

    def says_what_is_in(self, commit: str) -> bool:
        """Whether nothing is staged upon this commit."""
        try:
            run(self._top, "diff-index", "--cached", "--quiet", commit, "--")
        except GitFailed:
            return False
        return True

    def _entries(self, index: str) -> bytes | None:
        """Tag, mode, object, stage and path of each; None if it cannot be read."""
        if not index:
            return b""
        with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
            path = os.path.join(directory, "index")
            try:
                with open(path, "wb") as file:
                    file.writelines(self._contents.pieces(Ref(bytes.fromhex(index))))
                return run(self._top, "ls-files", "--stage", "-v", "-z", index=path)
            except (ContentsDamaged, GitError):
                return None

    @contextmanager
    def locked(self, owner: str, replacement: str | None, written_at: int) -> Iterator[IndexLock]:
        """Keep every other git from the index, and so from committing and from switching branches.

        `replacement` is the content that `put_back` puts in its place, "" for none. The lock is a second
        name of a file of ours that its process holds a flock on: after a crash that shows that
        it is ours, and that no process holds it any more. Raises GitBusy if another process has the lock.
        """
        own = self.path + _OURS + owner.encode()
        lock = self.path + b".lock"
        held = -1
        try:
            self.unlock()
            held = self._stage(own, replacement, written_at)
            os.link(own, lock)
        except FileExistsError as exc:
            raise GitBusy(
                f"another git is at work in this repository; try again when it has ended, or, if it died, "
                f"remove {os.fsdecode(lock)}"
            ) from exc
        except OSError as exc:
            raise GitError(f"the index of the repository cannot be locked ({exc.strerror})") from exc
        else:
            yield IndexLock(self.path, lock, replacement)
        finally:
            if held >= 0:
                _tidy(own, lock)
                os.close(held)

    def unlock(self) -> None:
        """Remove the locks of processes of ours that died."""
        directory, name = os.path.split(self.path + _OURS)
        for found in os.listdir(directory):
            if not found.startswith(name):
                continue
            path = os.path.join(directory, found)
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                if try_lock(fd):  # otherwise its process lives
                    _tidy(path, self.path + b".lock")
            finally:
                os.close(fd)

    def _stage(self, own: bytes, replacement: str | None, written_at: int) -> int:
        """Returns a descriptor that has the flock."""
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        lock(fd)
        try:
            self._fill(fd, replacement, written_at)
        except BaseException:
            os.unlink(own)
            os.close(fd)
            raise
        return fd

    def _fill(self, fd: int, replacement: str | None, written_at: int) -> None:
        with open(fd, "wb", closefd=False) as file:
            if replacement:
                file.writelines(self._contents.pieces(Ref(bytes.fromhex(replacement))))
            if os.path.exists(self.path):
                os.fchmod(fd, os.stat(self.path).st_mode & 0o777)
            file.flush()
            os.utime(fd, ns=(written_at, written_at))
            os.fsync(fd)


class IndexLock:
    """Held: no other process writes the index, commits or switches branches."""

    def __init__(self, path: bytes, lock: bytes, replacement: str | None) -> None:
        self._path = path
        self._lock = lock
        self._replacement = replacement

    def put_back(self) -> None:
        """The replacement takes the place of the index, in one rename."""
        try:
            if self._replacement:
                os.rename(self._lock, self._path)
            else:
                Path(os.fsdecode(self._path)).unlink(missing_ok=True)
            sync_directory(Path(os.fsdecode(os.path.dirname(self._path))))
        except OSError as exc:
            raise GitError(f"the index of the repository cannot be written ({exc.strerror})") from exc


def _tidy(own: bytes, lock: bytes) -> None:
    """Remove the lock if it is ours, and then the name that shows it."""
    if not os.path.lexists(own):
        return
    if os.path.lexists(lock) and os.path.samestat(os.lstat(own), os.lstat(lock)):
        os.unlink(lock)
    os.unlink(own)
