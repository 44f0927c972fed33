"""Contents on their way into the store: whole packs and synced files when it is committed, or nothing.

What fails here is the store and raises StoreError; an OSError is of the file that is read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from holdfast.durable_file import TEMPORARY, sync_directory
from holdfast.workspace.contents import store_files
from holdfast.workspace.contents.large import LargeFiles
from holdfast.workspace.contents.pack import PackWriter
from holdfast.workspace.contents.pieces import pieces
from holdfast.workspace.contents.refs import Ref, ref_of

QUICK = 1
"""The zstd level of new contents."""
LARGE = 1024 * 1024
"""A content of that many bytes or more is a file of its own."""
_MOST_PACK_BYTES = 512 * 1024 * 1024


class _Unread(Exception):
    """The file that is to be kept cannot be read. No OSError, so that it is not taken for the store's."""

    def __init__(self, cause: OSError) -> None:
        self.cause = cause
        super().__init__(str(cause))


class Batch:
    """Made by `Contents.writing`; `known` says what need not be put again."""

    def __init__(
        self, packs: Path, large: LargeFiles, known: Callable[[Ref], bool] | None, level: int = QUICK
    ) -> None:
        self._packs = packs
        self._large = large
        self._known = known
        self._level = level
        self._writer: PackWriter | None = None
        self._file: BinaryIO | None = None
        self._temporary = Path()
        self._unsynced: set[Path] = set()
        self.made: set[str] = set()

    def put(self, data: bytes) -> Ref:
        """Keep a small content."""
        ref = ref_of(data)
        self.add(ref, data)
        return ref

    def add(self, ref: Ref, data: bytes) -> None:
        """Keep a small content whose ref is known."""
        writer = self._writer
        if (writer is not None and ref in writer) or (self._known is not None and self._known(ref)):
            return
        if writer is None:
            writer = self._begin()
        try:
            writer.add(ref, data)
        except OSError as exc:
            raise store_files.error_of(self._packs.parent, exc) from exc
        if writer.written > _MOST_PACK_BYTES:
            self._finish(writer)

    def keep(self, data: bytes) -> Ref:
        """Keep a content of any size that is in memory."""
        if len(data) < LARGE:
            return self.put(data)
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            return self.put_file(file.fileno())

    def put_file(self, fd: int) -> Ref:
        """Keep a file, of any size, that a descriptor is of. Raises OSError if that cannot be read."""
        try:
            with self._errors():
                ref, directory = self._large.write(_read(fd))
        except _Unread as exc:
            raise exc.cause from None
        if directory is not None:
            self._unsynced |= {directory, directory.parent}
        return ref

    def commit(self) -> None:
        """Everything that was put is here, and lasts. The batch can be used on."""
        if self._writer is not None:
            self._finish(self._writer)
        with self._errors():
            while self._unsynced:
                sync_directory(self._unsynced.pop())

    def abandon(self) -> None:
        """Forget what was not committed; nothing to do after a commit."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None
        if self._file is not None:
            with self._errors():
                self._file.close()
                self._temporary.unlink(missing_ok=True)
            self._file = None

    def _begin(self) -> PackWriter:
        with self._errors():
            fd, name = tempfile.mkstemp(prefix=TEMPORARY, dir=self._packs)
            self._temporary = Path(name)
            self._file = os.fdopen(fd, "wb")
            self._writer = PackWriter(self._file, self._level)
            return self._writer

    def _finish(self, writer: PackWriter) -> None:
        assert self._file is not None, "a writer has a file"
        with self._errors():
            name = writer.finish()
            self._file.close()
            self._temporary.rename(self._packs / name)
        self._writer = self._file = None
        self.made.add(name)
        self._unsynced.add(self._packs)

    def _errors(self) -> AbstractContextManager[None]:
        return store_files.errors_of(self._packs.parent)


def _read(fd: int) -> Iterator[bytes]:
    """The pieces of a file; raises _Unread."""
    try:
        yield from pieces(fd)
    except OSError as exc:
        raise _Unread(exc) from exc
