"""Which words each file of a tree has. The index is kept, and only files that changed are read again.

Two looks at the same files give the same index, whatever was kept before.
"""

from __future__ import annotations

import os
import string
import time
from hashlib import sha256
from pathlib import Path

import msgspec

from holdfast import typed_values
from holdfast.durable_file import replace_file
from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.beneath import shown
from holdfast.workspace.fs.lock_safe_open import opened
from holdfast.workspace.snapshots import visible_files

_VERSION = 1
_MOST_FILES = 50_000
_MOST_READ = 256 << 10
_MOST_DATA = 16 << 10
"""Of a file of data, whose words say little."""
_BINARY = frozenset(
    b"so pyc pyo pyd o a dylib dll exe bin png jpg jpeg gif ico webp svg pdf zip gz xz bz2 zst whl jar class "
    b"woff woff2 ttf otf eot mp3 mp4 mov wav db sqlite sqlite3 npy npz parquet pickle pkl wasm node".split()
)
_DATA = frozenset(b"json jsonl csv tsv lock xml map log sum txt html css ipynb".split())
_PROBED = 8192
_SETTLED_NS = 2_000_000_000
"""A file that was written so shortly before a look may be written again without another time."""
_LONGEST_WORD = 40
_WORD_BYTES = (string.ascii_letters + string.digits + "_").encode()
_TO_WORDS = bytes(ord(chr(byte).lower()) if byte in _WORD_BYTES else 32 for byte in range(256))


class FileWords(msgspec.Struct, array_like=True, frozen=True):
    """A file, and its words, lower case, each once, with spaces around them. Empty for a binary file."""

    path: str
    size: int
    mtime_ns: int
    words: bytes


class _Kept(msgspec.Struct, array_like=True, frozen=True):
    version: int
    root: str
    files: list[FileWords]


class WordIndex(msgspec.Struct, frozen=True):
    """The files of a tree that are not ignored, in the order of their paths. `left_out` files are not in
    it."""

    files: list[FileWords]
    left_out: int = 0


def look(root: Path, cache: Path | None = None) -> WordIndex:
    """The index of the files as they are; `cache` is a directory to keep it in."""
    kept_at = None if cache is None else cache / f"words-{sha256(os.fsencode(root)).hexdigest()[:16]}"
    known = _read(kept_at, root)
    started_ns = time.time_ns()
    files: list[FileWords] = []
    left_out = 0
    changed = False
    fd = os.open(root, beneath.FLAGS)
    try:
        walk = beneath.Walk(fd)
        for entry in visible_files.walk(fd):
            if not entry.is_file:
                continue
            if len(files) >= _MOST_FILES:
                left_out += 1
                continue
            path, status = shown(entry.path), entry.status
            one = known.get(path)
            if one is None or (one.size, one.mtime_ns) != (status.st_size, status.st_mtime_ns):
                words = _words_of(walk, entry.path, status.st_size)
                is_settled = status.st_mtime_ns < started_ns - _SETTLED_NS
                one = FileWords(path, status.st_size, status.st_mtime_ns if is_settled else -1, words)
                changed = True
            files.append(one)
        walk.close()
    finally:
        os.close(fd)
    files.sort(key=lambda one: one.path)
    if kept_at is not None and (changed or len(files) != len(known)):
        _keep(kept_at, _Kept(_VERSION, str(root), files))
    return WordIndex(files, left_out)


def text_at(root: int, path: str) -> str:
    """The beginning of a file as text; empty if it cannot be read."""
    directory, name = beneath.split(os.fsencode(path))
    try:
        with beneath.directory(root, directory) as fd, opened(fd, name) as file:
            return os.pread(file, _MOST_READ, 0).decode("utf-8", "replace")
    except OSError:
        return ""


def _words_of(walk: beneath.Walk, path: bytes, size: int) -> bytes:
    ending = path.rpartition(b".")[2].lower()
    if not size or ending in _BINARY:
        return b""
    directory, name = beneath.split(path)
    try:
        with opened(walk.to(directory), name) as fd:
            data = os.pread(fd, _MOST_DATA if ending in _DATA else _MOST_READ, 0)
    except OSError:
        return b""
    if b"\0" in data[:_PROBED]:
        return b""
    words = {one for one in data.translate(_TO_WORDS).split() if 2 < len(one) <= _LONGEST_WORD}
    return b" " + b" ".join(words) + b" "


def _read(path: Path | None, root: Path) -> dict[str, FileWords]:
    if path is None:
        return {}
    try:
        kept = typed_values.unpack(path.read_bytes(), _Kept)
    except (OSError, msgspec.MsgspecError):
        return {}
    if (kept.version, kept.root) != (_VERSION, str(root)):
        return {}
    return {one.path: one for one in kept.files}


def _keep(path: Path, kept: _Kept) -> None:
    """An index that cannot be kept is made again."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, msgspec.msgpack.encode(kept), sync=False)
    except OSError:
        pass
