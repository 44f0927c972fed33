"""The directories of the mirror, by descriptor: no symbolic link in them is ever followed.

Files in the project may come from others. A link, or a file that holdfast did not write, is renamed
(`NAME.edited-TIME`) before a file of that name is written; a file that another store wrote, and nobody
changed, or this store before a restore or a repair, becomes `NAME.replaced-TIME`. A journal with events
that the log has lost becomes `journal.jsonl.ahead-INCARNATION`: by the name, `repair` finds the journals of
its store.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.counts import counted
from holdfast.durable_file import NO_LINKS, TEMPORARY, replace_file, sync_directory
from holdfast.mirror import sealed_text
from holdfast.tracker import journal

PREVIOUS: Final = "previous"
"""The directory beside a file that keeps its previous revision, under the same name."""
_EDITED: Final = ".edited-"
_REPLACED: Final = ".replaced-"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LEFT_OVER = re.compile(re.escape(TEMPORARY) + "[0-9a-f]{16}")
_LINES = re.compile(r"journal\.jsonl|\d{4}-\d{2}\.jsonl(\.zst)?")
"""The names of files of lines: the journal, and a month of the history."""


class _Drain:
    """The state that the directories of one mirror share while it is written.

    stamp      the time that the names of files kept aside get
    kept       a sentence for each file that was renamed
    is_others  whether the files that are there are not this store's
    why        why they are not, in words
    ahead      the incarnation of this store, if they show events that its log does not have; else empty
    others     of those, the paths of all that were renamed
    written    of those, the paths of all that are now as this store has them
    """

    def __init__(self, stamp: str) -> None:
        self.stamp = stamp
        self.kept: list[str] = []
        self.is_others = False
        self.why = ""
        self.ahead = ""
        self.others: list[Path] = []
        self.written: set[Path] = set()


class MirrorDirectory:
    """One directory of the mirror. Subdirectories share what was kept."""

    def __init__(self, fd: int, path: Path, drain: _Drain) -> None:
        self._fd = fd
        self.path = path
        self._shared = drain
        self.replaced = 0
        """How many files were replaced here."""

    @classmethod
    @contextmanager
    def opened(cls, path: Path, stamp: str, *, follow: bool = False) -> Iterator[MirrorDirectory]:
        """The top of the mirror, made if it is not there. It is itself no link, unless the user named it
        (`follow`). Raises OSError."""
        try:
            fd = os.open(path, _OPEN & ~os.O_NOFOLLOW if follow else _OPEN)
        except FileNotFoundError:
            path.mkdir(mode=0o700, parents=follow)
            sync_directory(path.parent)
            fd = os.open(path, _OPEN)
        try:
            yield cls(fd, path, _Drain(stamp))
        finally:
            os.close(fd)

    @contextmanager
    def within(self, name: str) -> Iterator[MirrorDirectory]:
        """A directory in this one, made if it is not there."""
        fd = self._open_inside(name)
        try:
            inside = MirrorDirectory(fd, self.path / name, self._shared)
            yield inside
            self.replaced += inside.replaced
        finally:
            os.close(fd)

    def _open_inside(self, name: str) -> int:
        try:
            return os.open(name, _OPEN, dir_fd=self._fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise _named(error, self.path / name) from None
            self.keep_aside(name, "is not a directory of holdfast's")
        with _naming(self.path / name):
            os.mkdir(name, 0o700, dir_fd=self._fd)
            os.fsync(self._fd)
            return os.open(name, _OPEN, dir_fd=self._fd)

    @property
    def kept(self) -> list[str]:
        """A sentence for each file of the mirror that was renamed; one for all that other stores wrote."""
        others = self._shared.others
        if not others:
            return self._shared.kept
        ahead = [one for one in others if one.name.startswith(journal.AHEAD)]
        if ahead:
            more = f" and {counted(len(others) - 1, 'file')} more" if len(others) > 1 else ""
            sentence = f"the log has lost events that its journal has, which is kept as {ahead[0]}{more}"
            advice = (
                "`holdfast repair` brings back those that fit, `holdfast mirror status` lists what is kept"
            )
            return [*self._shared.kept, f"{sentence}; {advice}"]
        some = (
            f"{others[0]} is kept"
            if len(others) == 1
            else f"{others[0]} and {len(others) - 1:,} more are kept"
        )
        advice = "`holdfast mirror status` lists what is kept"
        return [*self._shared.kept, f"{self._shared.why}: {some}; {advice}"]

    @property
    def is_others(self) -> bool:
        """Whether the files that are there may be another store's."""
        return self._shared.is_others

    def begin_anew(self, why: str, ahead: str = "") -> None:
        """From here on, treat every present file as one of another log: rename it before it is replaced, even
        if holdfast wrote it. `why` begins the sentence about it; `ahead` is the incarnation of this store if
        the files show events that its log lacks."""
        self._shared.is_others = True
        self._shared.why = why
        self._shared.ahead = ahead

    def end_anew(self) -> None:
        """End `begin_anew`: all files are of this store now."""
        self._shared.is_others = False

    def has(self, name: str) -> bool:
        return self._look(name) is not None

    def has_directory(self, name: str) -> bool:
        found = self._look(name)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def names(self) -> list[str]:
        with _naming(self.path):
            return sorted(os.listdir(self._fd))  # noqa: PTH208

    def status(self, name: str) -> os.stat_result | None:
        """The status of a regular file; None if there is none of that name."""
        found = self._look(name)
        return found if found is not None and stat.S_ISREG(found.st_mode) else None

    def _look(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _named(error, self.path / name) from None

    def read(self, name: str) -> bytes | None:
        """The content of a regular file; None if there is none of that name."""
        if self.status(name) is None:
            return None
        with self.reading(name) as fd, open(fd, "rb", closefd=False) as file:
            return file.read()

    @contextmanager
    def reading(self, name: str) -> Iterator[int]:
        """A descriptor of a file that is there, to read it."""
        with _naming(self.path / name):
            fd = os.open(name, _READ, dir_fd=self._fd)
        try:
            yield fd
        finally:
            os.close(fd)

    # Writing

    def replace_sealed(self, name: str, data: bytes) -> None:
        """Write a sealed file, unless it is the same already. The present file becomes its previous revision,
        or is kept aside if this store did not write it so."""
        self._shared.written.add(self.path / name)
        here = self.read(name)
        if here == data:
            return
        if here is None:
            if self.has(name):
                self.keep_aside(name, "is not a file of holdfast's")
        elif (state := sealed_text.state_of(name, here)) != "own":
            self.keep_aside(name, _WORDS[state])
        elif self.is_others:
            self.keep_aside(name, "was not written by this store", is_intact=True)
        else:
            self._keep_previous(name, here)
        self._replace(name, data)

    def _replace(self, name: str, data: bytes) -> None:
        with _naming(self.path / name):
            replace_file(Path(name), data, dir_fd=self._fd)
        self.replaced += 1

    def _keep_previous(self, name: str, data: bytes) -> None:
        with self.within(PREVIOUS) as previous, _naming(previous.path / name):
            temporary = f"{TEMPORARY}{os.urandom(8).hex()}"
            try:
                os.link(name, temporary, src_dir_fd=self._fd, dst_dir_fd=previous._fd, follow_symlinks=False)
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                replace_file(Path(name), data, sync=False, dir_fd=previous._fd)
            else:
                os.replace(temporary, name, src_dir_fd=previous._fd, dst_dir_fd=previous._fd)
                # If both names are already one file, the rename does nothing.
                previous._unlink(temporary)
            previous.replaced += 1

    def append(self, name: str, data: bytes) -> os.stat_result:
        """Add to the end of a file of holdfast's, made if it is not there; on the disk when this returns."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with _naming(self.path / name):
            is_new = not self.has(name)
            fd = os.open(name, flags, 0o600, dir_fd=self._fd)
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(fd, left) :]
                os.fsync(fd)
                if is_new:
                    os.fsync(self._fd)
                return os.fstat(fd)
            finally:
                os.close(fd)

    @contextmanager
    def rewriting(self) -> Iterator[tuple[str, int]]:
        """(name, descriptor) of a new temporary file, to be written and passed to `adopt`; removed at the end
        unless it was adopted."""
        name = f"{TEMPORARY}{os.urandom(8).hex()}"
        with _naming(self.path):
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        try:
            with _naming(self.path / name):
                yield name, fd
        finally:
            os.close(fd)
            self._unlink(name)

    def adopt(self, temporary: str, name: str, fd: int) -> None:
        """Rename a temporary file durably, replacing the present file of that name."""
        with _naming(self.path / name):
            os.fsync(fd)
            os.replace(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            os.fsync(self._fd)
        self.replaced += 1

    def remove(self, name: str) -> None:
        """Remove a sealed file and its previous revision; one that was edited is kept aside."""
        here = self.read(name)
        state = "own" if here is None else sealed_text.state_of(name, here)
        if state != "own":
            self.keep_aside(name, _WORDS[state])
        elif here is not None:
            self._unlink(name)
        if self.has(PREVIOUS):
            with self.within(PREVIOUS) as previous:
                previous._unlink(name)

    def discard(self, name: str) -> None:
        """Remove a file that holdfast wrote."""
        self._unlink(name)

    def keep_aside(self, name: str, why: str, *, is_intact: bool = False) -> None:
        """Rename a file out of the way, and note why. `is_intact`: it is as another store wrote it."""
        first = f"{name}{_REPLACED if is_intact else _EDITED}{self._shared.stamp}"
        if self._shared.ahead and name == journal.NAME:
            first = f"{journal.AHEAD}{self._shared.ahead}"
        aside, number = first, 1
        while self.has(aside):
            number += 1
            aside = f"{first}-{number}"
        with _naming(self.path / name):
            os.rename(name, aside, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            os.fsync(self._fd)
        if self.is_others:
            self._shared.others.append(self.path / aside)
        else:
            self._shared.kept.append(f"{self.path / name} {why}; it is kept as {aside}")

    def keep_others_aside(self, is_known: Callable[[str], bool]) -> None:
        """After all files were written anew: rename those here that another store wrote, and the previous
        revisions. `is_known` says of a name whether this store may have written it before. A file that no
        store wrote stays: it is renamed when one of its name is written."""
        for name in self.names():
            if is_aside(name) or self.path / name in self._shared.written or is_known(name):
                continue
            if self._is_written(name) or (name == PREVIOUS and self._holds_only_written(name)):
                self.keep_aside(name, "was not written by this store", is_intact=True)

    def _is_written(self, name: str) -> bool:
        """Whether a store wrote the file, by its digest or, for a file of lines, by its name."""
        if name.endswith((".json", sealed_text.SUFFIX)):
            here = self.read(name)
            return here is not None and sealed_text.state_of(name, here) == "own"
        return _LINES.fullmatch(name) is not None and self.status(name) is not None

    def _holds_only_written(self, name: str) -> bool:
        """Whether all that is in a directory was written by a store."""
        if not self.has_directory(name):
            return False
        with self.within(name) as inside:
            return all(inside._is_written(one) for one in inside.names())

    def forget(self) -> None:
        """After all files were written anew: remove the sealed files here that the log no longer has, and all
        previous revisions, which may show deleted data."""
        for name in self.names():
            if (
                name.endswith(".json")
                and self.path / name not in self._shared.written
                and self._is_written(name)
            ):
                self.remove(name)
        if self.has_directory(PREVIOUS):
            with self.within(PREVIOUS) as previous:
                for name in previous.names():
                    if previous._is_written(name):
                        previous._unlink(name)

    def sweep(self) -> None:
        """Remove the temporary files of processes that were killed, here and in all directories below. Only
        under the mirror's lock."""
        for name in self.names():
            if _LEFT_OVER.fullmatch(name):
                self._unlink(name)
            elif self.has_directory(name) and not is_aside(name):
                with self.within(name) as inside:
                    inside.sweep()

    def _unlink(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _named(error, self.path / name) from None


_WORDS = {"edited": "was edited by hand", "torn": "is torn or damaged"}


def is_aside(name: str) -> bool:
    """Whether it is the name of a file that was kept aside."""
    return _EDITED in name or _REPLACED in name or name.rpartition("/")[2].startswith(journal.AHEAD)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An OSError names the whole path: descriptors leave only the last part of it."""
    try:
        yield
    except OSError as error:
        raise _named(error, path) from None


def _named(error: OSError, path: Path) -> OSError:
    return type(error)(error.errno, error.strerror, str(path))
