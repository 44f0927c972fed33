"""All that a content store holds, as a tar file: written for a backup, and brought back.

The files are those of the store, compressed and each content once. What is brought back is read and compared
with its SHA-256 before it gets its name.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast import file_lock
from holdfast.durable_file import replace_file, sync_directory
from holdfast.errors import StoreCorrupt
from holdfast.workspace.contents import large, pack, store_files
from holdfast.workspace.contents.content_store import STAGED, WITHOUT_FILES, Contents

Progress = Callable[[int, int], None]
"""How many bytes are done, of how many."""
_NAME = re.compile(rf"packs/{pack.NAME.pattern}|large/[0-9a-f]{{2}}/{large.NAME.pattern}")


class Export:
    """The content of the store, as long as nothing can be removed from it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def _paths(self) -> list[Path]:
        found = [*self._directory.glob("packs/*"), *self._directory.glob("large/??/*")]
        return sorted(path for path in found if _NAME.fullmatch(str(path.relative_to(self._directory))))

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        return sum(path.stat().st_size + 1024 for path in self._paths())

    def write(self, file: BinaryIO, progress: Progress) -> int:
        """Append everything to a file → how many files it is."""
        paths = self._paths()
        done, total = 0, sum(path.stat().st_size for path in paths)
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in paths:
                progress(done, total)
                entry = tarfile.TarInfo(str(path.relative_to(self._directory)))
                entry.size, entry.mode = path.stat().st_size, 0o600
                with path.open("rb") as source:
                    tar.addfile(entry, source)
                done += entry.size
        progress(total, total)
        return len(paths)


@contextmanager
def exporting(directory: Path) -> Iterator[Export]:
    """Nothing is removed from the store inside: what a log names that is copied inside is in the export."""
    with ExitStack() as held:
        if directory.is_dir():
            with store_files.errors_of(directory):
                held.enter_context(file_lock.held(directory / "gc.lock", shared=True))
                held.enter_context(file_lock.held(directory / "merge.lock"))
        yield Export(directory)


class Import:
    """Contents beside a store, read and compared. `damaged` names those that are not what they were."""

    def __init__(self, staged: Path, directory: Path, names: Sequence[str], damaged: tuple[str, ...]) -> None:
        self._staged = staged
        self._directory = directory
        self._names = names
        self.damaged = damaged

    def adopt(self) -> None:
        """Give the contents their names in the store. What is there already stays: it is the same. Raises
        StoreError if one of them has vanished."""
        with store_files.errors_of(self._directory):
            changed = set()
            for name in self._names:
                target = self._directory / name
                if self.damaged and target.exists():
                    continue  # which of the two is the damaged one is not known
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                (self._staged / name).rename(target)
                changed |= {target.parent, target.parent.parent}
            for parent in changed:
                sync_directory(parent)


@contextmanager
def importing(
    file: BinaryIO, directory: Path, progress: Progress, total: int, files: int
) -> Iterator[Import]:
    """Unpack the tar file that begins where `file` stands, beside the store in `directory`, and read it all.
    Nothing is removed from the store inside. Raises StoreCorrupt for what is no such file, or one that does
    not have `files` files. The caller makes sure that there is one import at a time: what another one has
    unpacked is removed."""
    with ExitStack() as held:
        with store_files.errors_of(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(file_lock.held(directory / "gc.lock", shared=True))
            for old in directory.glob(f"{STAGED}*"):  # of one that was killed
                shutil.rmtree(old)
            staged = Path(tempfile.mkdtemp(prefix=STAGED, dir=directory))
            held.callback(shutil.rmtree, staged, ignore_errors=True)
            names = _unpack(file, staged, progress, total)
            if len(names) != files:
                raise StoreCorrupt(f"the backup has {len(names)} saved files instead of {files}")
            contents = Contents(staged)
            damaged = contents.verify()
            contents.close()
        yield Import(staged, directory, names, damaged)


def _unpack(file: BinaryIO, staged: Path, progress: Progress, total: int) -> list[str]:
    """The names of the files that were unpacked."""
    done, names = 0, []
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for entry in tar:
                source = tar.extractfile(entry) if entry.isreg() else None
                if source is None or not _NAME.fullmatch(entry.name):
                    raise StoreCorrupt(f"the backup has a file {entry.name!r} that is none of ours")
                target = staged / entry.name
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with target.open("xb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                    copy.flush()
                    os.fsync(copy.fileno())
                names.append(entry.name)
                done += entry.size
                progress(min(done, total), total)
    except tarfile.TarError as error:
        raise StoreCorrupt(f"the files in the backup cannot be read ({error})") from error
    return names


def note_without_files(directory: Path, backup: str) -> None:
    """Leave a note that the store was restored from a backup without files; "" removes it."""
    path = directory / WITHOUT_FILES
    with store_files.errors_of(directory):
        if backup:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, backup.encode(errors="surrogateescape"))
        else:
            path.unlink(missing_ok=True)
