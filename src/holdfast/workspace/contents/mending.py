"""The intact contents of a damaged pack, and a content store without its damaged files.

A content is intact if it matches its SHA-256, whatever became of the rest of its pack. The table of a pack is
found without the footer by its groups: each begins where the one before it ends, and the last one ends where
the table begins.
"""

from __future__ import annotations

import shutil
import struct
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple

from holdfast.durable_file import sync_directory
from holdfast.workspace.contents import compression, large, pack, store_files
from holdfast.workspace.contents.batch import Batch
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import SIZE, Ref, ref_of

Content = tuple[Ref, bytes]


class Mended(NamedTuple):
    """The result for damaged files: those put aside, how many contents of them were kept, how many
    came from other copies."""

    aside: tuple[str, ...]
    kept: int
    brought: int


def intact(data: bytes) -> Iterator[Content]:
    """The contents of a pack that match their hash."""
    found = _table(data)
    if found is None:
        return
    at, groups = found
    count = (len(data) - pack.FOOTER.size - at - groups * pack.GROUP.size) // (SIZE + pack.PLACE.size)
    names = at + groups * pack.GROUP.size
    places = names + count * SIZE
    read: dict[int, bytes] = {}
    for n in range(count):
        ref = Ref(data[names + n * SIZE : names + (n + 1) * SIZE])
        try:
            group, offset, size = pack.PLACE.unpack_from(data, places + n * pack.PLACE.size)
        except struct.error:
            return
        if group < groups:
            if group not in read:
                read[group] = _group(data, at, group)
            content = read[group][offset : offset + size]
            if ref_of(content) == ref:
                yield ref, content


def _table(data: bytes) -> tuple[int, int] | None:
    """(where the table begins, how many groups it has)."""
    said = data[-pack.FOOTER.size :]
    if len(said) == pack.FOOTER.size:
        at, groups = struct.unpack_from("<QI", said)
        if (
            at + groups * pack.GROUP.size < len(data)
            and groups
            and pack.GROUP.unpack_from(data, at)[0] == len(pack.MAGIC)
        ):
            return at, groups
    first = struct.pack("<Q", len(pack.MAGIC))
    at = data.find(first, len(pack.MAGIC))
    while at >= 0:
        groups = _chained(data, at)
        if groups:
            return at, groups
        at = data.find(first, at + 1)
    return None


def _chained(data: bytes, at: int) -> int:
    """How many groups a table at `at` has, if they lie one behind the other up to there; 0 if not."""
    end, groups = len(pack.MAGIC), 0
    while at + (groups + 1) * pack.GROUP.size <= len(data):
        where, stored, _ = pack.GROUP.unpack_from(data, at + groups * pack.GROUP.size)
        if where != end or not stored:
            return 0
        end += stored
        groups += 1
        if end == at:
            return groups
        if end > at:
            return 0
    return 0


def _group(data: bytes, table: int, number: int) -> bytes:
    where, stored, raw = pack.GROUP.unpack_from(data, table + number * pack.GROUP.size)
    part = data[where : where + stored]
    if stored == raw:
        return part
    try:
        return compression.decompress(part)
    except compression.CompressionError:
        return b""


def damaged_files(directory: Path) -> list[Path]:
    """The packs and large contents that are not what they were."""
    found = []
    with closing(Contents(directory)) as contents:
        bad = set(contents.verify())
    for path in sorted(directory.glob(f"packs/*{pack.SUFFIX}")):
        if not pack.NAME.fullmatch(path.name):
            continue
        try:
            one = pack.Pack(path)
        except pack.PackDamaged:
            found.append(path)
            continue
        if any(ref.hex() in bad for ref in one) and not _is_sound(one):
            found.append(path)
        one.close()
    found += [path for ref, path in large.LargeFiles(directory / "large").all() if ref.hex() in bad]
    return found


def _is_sound(one: pack.Pack) -> bool:
    try:
        return all(
            ref_of(one.group(place.group)[place.offset : place.offset + place.size]) == ref
            for place, ref in one.in_order()
        )
    except pack.PackDamaged:
        return False


def exported(file: BinaryIO) -> Iterator[Content]:
    """The intact contents of an export (`transfer.py`), as far as it can be read."""
    try:
        with tarfile.open(fileobj=file, mode="r:", ignore_zeros=True) as tar:
            for entry in tar:
                source = tar.extractfile(entry) if entry.isreg() else None
                if source is None:
                    continue
                data = source.read()
                if entry.name.startswith("packs/"):
                    yield from intact(data)
                elif entry.name.startswith("large/"):
                    yield from _large(Path(entry.name), data)
    except (tarfile.TarError, OSError, EOFError):
        return


def _large(name: Path, data: bytes) -> Iterator[Content]:
    if not large.NAME.fullmatch(name.name):
        return
    if name.suffix == ".zst":
        try:
            data = compression.decompress(data)
        except (compression.CompressionError, EOFError):
            return
    ref = ref_of(data)
    if ref.hex() == name.stem:
        yield ref, data


def mend(
    directory: Path, bad: Sequence[Path], kept: Path, copies: Iterable[Callable[[], Iterator[Content]]]
) -> Mended:
    """Put damaged files aside in `kept`, keep what is intact in them, and bring what is missing from other
    copies of contents. Killed at any moment, it can be done again."""
    count = brought = 0
    aside = []
    with store_files.errors_of(directory):
        for path in bad:
            target = kept / path.relative_to(directory.parent)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy2(path, target)
            aside.append(str(path.relative_to(directory.parent)))
            found = list(intact(path.read_bytes())) if path.suffix == pack.SUFFIX else []
            made = _write(directory, found)
            if path.name not in made:
                path.unlink()
                sync_directory(path.parent)
            count += len(found)
        with closing(Contents(directory)) as contents:
            for copy in copies:
                with contents.writing() as batch:
                    for ref, data in copy():
                        if ref not in contents:
                            batch.keep(data)
                            brought += 1
            contents.forget_generation()
    return Mended(tuple(aside), count, brought)


def _write(directory: Path, found: Sequence[Content]) -> set[str]:
    """Put contents into a new pack, whatever other packs say that they hold; its name."""
    batch = Batch(directory / "packs", large.LargeFiles(directory / "large"), None)
    try:
        for ref, data in found:
            batch.add(ref, data)
        batch.commit()
    finally:
        batch.abandon()
    return batch.made
