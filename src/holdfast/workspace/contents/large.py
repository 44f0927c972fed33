"""Large contents: a file each, read and written in pieces, so that their size does not show in memory."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from holdfast.durable_file import TEMPORARY
from holdfast.workspace.contents import compression
from holdfast.workspace.contents.pieces import PIECE, is_hole
from holdfast.workspace.contents.refs import Ref

_LEVEL = 1
_ENDINGS = (".zst", ".raw")
NAME = re.compile(r"[0-9a-f]{64}\.(?:zst|raw)")
"""Of a large content; a file with another name is not part of the store."""


class LargeFiles:
    """`<directory>/ab/<SHA-256>.zst` or `.raw`. A file gets its name when it is whole and synced."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, ref: Ref) -> Path | None:
        """Where a content is, if it is here."""
        return next((path for path in self._candidates(ref) if path.exists()), None)

    def write(self, source: Iterable[bytes]) -> tuple[Ref, Path | None]:
        """Keep a content that comes in pieces → its ref, and the directory whose sync makes it last.

        None for the directory if the content was here already.
        """
        self._directory.mkdir(mode=0o700, exist_ok=True)
        temporary, name = tempfile.mkstemp(prefix=TEMPORARY, dir=self._directory)
        try:
            ref, compressed = self._copy(source, temporary)
            if self.path(ref) is not None:
                Path(name).unlink()
                return ref, None
            place = self._candidates(ref)[0 if compressed else 1]
            place.parent.mkdir(mode=0o700, exist_ok=True)
            Path(name).rename(place)
            return ref, place.parent
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @staticmethod
    def _copy(source: Iterable[bytes], target: int) -> tuple[Ref, bool]:
        """→ the ref, and whether it was worth compressing, by its first piece."""
        digest = sha256()
        compressor = compression.Compressor(level=_LEVEL)
        compressed: bool | None = None
        with os.fdopen(target, "wb") as file:
            for piece in source:
                if compressed is None:
                    compressed = compression.pays(len(piece), len(compression.squeeze(piece, _LEVEL)))
                digest.update(piece)
                if compressed:
                    file.write(compressor.compress(piece))
                elif is_hole(piece):
                    file.seek(len(piece), os.SEEK_CUR)
                else:
                    file.write(piece)
            if compressed:
                file.write(compressor.flush())
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        return Ref(digest.digest()), bool(compressed)

    def pieces(self, ref: Ref) -> Iterator[bytes]:
        """The content in pieces, not verified. Raises FileNotFoundError, CompressionError or EOFError."""
        path = self.path(ref)
        if path is None:
            raise FileNotFoundError(ref.hex())
        with path.open("rb") as file:
            if path.suffix == ".raw":
                while piece := file.read(PIECE):
                    yield piece
                return
            expander = compression.Decompressor()
            while not expander.eof:
                fresh = file.read(PIECE // 4) if expander.needs_input else b""
                if expander.needs_input and not fresh:
                    raise EOFError(path)
                if piece := expander.decompress(fresh, max_length=PIECE):
                    yield piece

    def all(self) -> Iterator[tuple[Ref, Path]]:
        for path in sorted(self._directory.glob("??/*")):
            if NAME.fullmatch(path.name) and path.name[:2] == path.parent.name:
                yield Ref(bytes.fromhex(path.stem)), path

    def leftovers(self) -> Iterator[Path]:
        """Temporary files of writers. The caller removes them only if no writer lives."""
        yield from self._directory.glob(f"{TEMPORARY}*")

    def _candidates(self, ref: Ref) -> tuple[Path, Path]:
        name = ref.hex()
        base = self._directory / name[:2] / name
        return base.with_suffix(_ENDINGS[0]), base.with_suffix(_ENDINGS[1])
