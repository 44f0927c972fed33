"""The content store: what files held, by SHA-256.

Small contents go into packs (`pack.py`), large ones into files of their own (`large.py`). All files are
written once, under a temporary name, and renamed when they are synced: whatever can be seen is whole, several
processes write at once without knowing of each other, and a crash leaves at most a temporary file.

`gc.lock` is held shared by a process that puts contents, until something that lasts refers to them, and
exclusively by `gc`. When `gc` removed something, `generation` changes: an index that remembers what is here
must look again.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from holdfast import file_lock
from holdfast.durable_file import TEMPORARY, replace_file
from holdfast.errors import ContentsDamaged
from holdfast.workspace.contents import compression, store_files
from holdfast.workspace.contents.batch import QUICK, Batch
from holdfast.workspace.contents.large import LargeFiles
from holdfast.workspace.contents.pack import NAME, SUFFIX, Pack, PackDamaged, Place
from holdfast.workspace.contents.prefetch import Reading
from holdfast.workspace.contents.refs import Ref, ref_of

WITHOUT_FILES = "restored-without-files"
"""Which backup without files the store was restored from, if it was."""
STAGED = "import-"
"""Directories with contents that are not part of the store yet; `gc.lock` is held shared as long as one is
used."""
_THOROUGH = 9
_MERGE = 16
_CACHED_GROUPS = 4


@dataclass(frozen=True, slots=True)
class Usage:
    """How much is kept, in files and bytes on disk."""

    packs: int
    pack_bytes: int
    packed: int
    large: int
    large_bytes: int

    @property
    def bytes(self) -> int:
        return self.pack_bytes + self.large_bytes


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of `gc`."""

    removed: int
    freed_bytes: int
    damaged: tuple[str, ...]


class Contents:
    """A content store in a directory. Safe to use from several threads and processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._packs_at = directory / "packs"
        with store_files.errors_of(directory):
            self._packs_at.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._large = LargeFiles(directory / "large")
        self._packs: dict[str, Pack] = {}
        self._damaged: dict[str, Path] = {}
        self._groups: dict[tuple[Path, int], bytes] = {}
        self._mutex = threading.Lock()
        self._refresh()

    def close(self) -> None:
        with self._mutex:
            while self._packs:
                self._packs.popitem()[1].close()
            self._groups.clear()

    # Locks and generations

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Nothing is removed inside: from the first put until something that lasts refers to it."""
        with self._locked(shared=True):
            yield

    @contextmanager
    def _locked(self, *, shared: bool) -> Iterator[None]:
        with ExitStack() as stack:
            with store_files.errors_of(self._directory):
                stack.enter_context(file_lock.held(self._directory / "gc.lock", shared=shared))
            yield

    @property
    def generation(self) -> str:
        """Changes whenever contents were removed."""
        path = self._directory / "generation"
        with store_files.errors_of(self._directory):
            try:
                return path.read_text()
            except FileNotFoundError:
                return self._renew_generation()

    def forget_generation(self) -> None:
        """Contents were removed by other means than `gc`: an index that remembers what is here must look
        again."""
        self._renew_generation()

    def _renew_generation(self) -> str:
        token = secrets.token_hex(16)
        replace_file(self._directory / "generation", token.encode())
        return token

    @property
    def restored_without_files(self) -> str:
        """The backup without files that the store was restored from; "" if there is none."""
        try:
            return (self._directory / WITHOUT_FILES).read_text(errors="replace")
        except OSError:
            return ""

    # Writing

    @contextmanager
    def writing(self) -> Iterator[Batch]:
        """Put contents; they are here, and last, when the block has ended without an exception."""
        with self.hold():
            batch = Batch(self._packs_at, self._large, self._is_packed)
            try:
                yield batch
                batch.commit()
            finally:
                batch.abandon()
            if batch.made:
                self._refresh()
                with store_files.errors_of(self._directory):
                    self._merge_small_packs()

    def _merge_small_packs(self) -> None:
        """Keep the number of packs logarithmic: sixteen of about one size become one.

        A reader of the old ones has them open; one that misses them looks again.
        """
        tiers: dict[int, list[Pack]] = {}
        for pack in self._pack_list():
            tiers.setdefault(pack.size.bit_length() // 3, []).append(pack)
        crowded = [packs for packs in tiers.values() if len(packs) >= _MERGE]
        if not crowded:
            return
        try:
            with file_lock.tried(self._directory / "merge.lock") as alone:  # otherwise another process merges
                for packs in crowded if alone else ():
                    self._rewrite(packs, None, QUICK)
        except PackDamaged:
            return  # `verify` has something to say about these

    def _rewrite(self, packs: Sequence[Pack], keep: Collection[Ref] | None, level: int) -> None:
        """Put the contents of packs, or those of them that are kept, into new ones; remove the old."""
        batch = Batch(self._packs_at, self._large, None, level)
        try:
            for pack in packs:
                for place, ref in pack.in_order():
                    if keep is None or ref in keep:
                        batch.add(ref, self._read_from(pack, place))
            batch.commit()
        finally:
            batch.abandon()
        for pack in packs:
            if pack.path.name not in batch.made:
                pack.path.unlink(missing_ok=True)
        self._refresh()

    # Reading

    def __contains__(self, ref: Ref) -> bool:
        return self.here(ref) or (self._refresh() and self.here(ref))

    def here(self, ref: Ref) -> bool:
        """Whether a content is here, as far as is known without looking at the directory again."""
        return self._is_packed(ref) or self._large.path(ref) is not None

    def _is_packed(self, ref: Ref) -> bool:
        return any(ref in pack for pack in self._pack_list())

    def read(self, ref: Ref) -> bytes:
        """A content, verified. Raises ContentsDamaged if it is missing or not what it was."""
        return b"".join(self.pieces(ref))

    def pieces(self, ref: Ref) -> Iterator[bytes]:
        """A content in pieces of some MB at most. The last one comes only if the whole is what it was."""
        data = self._packed(ref)
        if data is None and self._refresh():
            data = self._packed(ref)
        if data is not None:
            if ref_of(data) != ref:
                raise ContentsDamaged([ref.hex()])
            yield data
            return
        digest = sha256()
        held = b""
        try:
            for piece in self._large.pieces(ref):
                yield held
                digest.update(piece)
                held = piece
        except (FileNotFoundError, EOFError, compression.CompressionError) as exc:
            raise ContentsDamaged([ref.hex()]) from exc
        if digest.digest() != ref:
            raise ContentsDamaged([ref.hex()])
        yield held

    def damaged_places(self, ref: Ref) -> tuple[str, ...]:
        """Where a content is that cannot be read: its packs and its own file, or else the packs whose
        contents are unknown. Empty if it is not here."""
        found = [f"pack {pack.path.name}" for pack in self._pack_list() if ref in pack]
        path = self._large.path(ref)
        if path is not None:
            found.append(f"large file {path.name}")
        return tuple(found or (f"pack {name}" for name in sorted(self._damaged)))

    def reading(self) -> Reading:
        """For who knows which contents to ask for, and in which order."""
        return Reading(self._find, self.pieces)

    def _find(self, ref: Ref) -> tuple[Pack, Place] | None:
        for pack in self._pack_list():
            place = pack.place(ref)
            if place is not None:
                return pack, place
        return None

    def _packed(self, ref: Ref) -> bytes | None:
        """A small content, not verified."""
        damaged = False
        for pack in self._pack_list():
            place = pack.place(ref)
            if place is None:
                continue
            try:
                return self._read_from(pack, place)
            except PackDamaged:
                damaged = True
        return b"" if damaged else None

    def _read_from(self, pack: Pack, place: Place) -> bytes:
        key = (pack.path, place.group)
        group = self._groups.get(key)
        if group is None:
            group = pack.group(place.group)
            with self._mutex:
                while len(self._groups) >= _CACHED_GROUPS:
                    self._groups.pop(next(iter(self._groups)))
                self._groups[key] = group
        return group[place.offset : place.offset + place.size]

    def _pack_list(self) -> Sequence[Pack]:
        return tuple(self._packs.values())

    def _refresh(self) -> bool:
        """Look which packs there are → whether that is news. Packs that are gone stay readable here."""
        with self._mutex, store_files.errors_of(self._directory):
            found = (path.name for path in self._packs_at.glob(f"*{SUFFIX}"))
            names = {name for name in found if NAME.fullmatch(name)}
            fresh = names - self._packs.keys() - self._damaged.keys()
            for name in self._packs.keys() - names:
                del self._packs[name]  # its descriptor is closed when the last reader lets it go
            for name in fresh:
                try:
                    self._packs[name] = Pack(self._packs_at / name)
                except PackDamaged:
                    self._damaged[name] = self._packs_at / name
                except FileNotFoundError:
                    continue
            return bool(fresh)

    # Care

    def verify(self) -> tuple[str, ...]:
        """Read everything → what is damaged: contents by their SHA-256, packs by name."""
        with self.hold():
            self._refresh()
            bad = [f"pack {name}" for name in sorted(self._damaged)]
            for pack in self._pack_list():
                for place, ref in pack.in_order():
                    try:
                        if ref_of(self._read_from(pack, place)) != ref:
                            bad.append(ref.hex())
                    except PackDamaged:
                        bad.append(ref.hex())
            for ref, _ in self._large.all():
                try:
                    for _piece in self.pieces(ref):
                        pass
                except ContentsDamaged:
                    bad.append(ref.hex())
            return tuple(dict.fromkeys(bad))

    def du(self) -> Usage:
        self._refresh()
        packs = self._pack_list()
        large = [path.stat().st_size for _, path in self._large.all()]
        return Usage(
            packs=len(packs),
            pack_bytes=sum(pack.size for pack in packs),
            packed=sum(len(pack) for pack in packs),
            large=len(large),
            large_bytes=sum(large),
        )

    def size_of(self, refs: Collection[Ref]) -> int:
        """How many bytes on disk these contents take, about: of a pack, their share by length."""
        self._refresh()
        size = sum(path.stat().st_size for ref, path in self._large.all() if ref in refs)
        for pack in self._pack_list():
            lengths = [(place.size, ref in refs) for place, ref in pack.in_order()]
            some = sum(length for length, counts in lengths if counts)
            size += pack.size * some // max(sum(length for length, _ in lengths), 1)
        return size

    def refs(self) -> set[Ref]:
        """All that is here."""
        self._refresh()
        packed = {ref for pack in self._pack_list() for ref in pack}
        return packed | {ref for ref, _ in self._large.all()}

    def gc(self, needed: Callable[[], Collection[Ref]]) -> Swept:
        """Remove all but what is needed; waits until no process puts contents. What is damaged stays, named.

        `needed` is asked when no process can put any more: what came to be needed before that is on its list.
        A crash in the middle leaves contents twice or some of them not removed, never one too few.
        """
        with self._locked(shared=False), store_files.errors_of(self._directory):
            keep = needed()
            before = self.du()
            for path in (*self._large.leftovers(), *self._packs_at.glob(f"{TEMPORARY}*")):
                path.unlink(missing_ok=True)
            for staged in self._directory.glob(f"{STAGED}*"):  # of a restore that was killed
                shutil.rmtree(staged)
            dead = [path for ref, path in self._large.all() if ref not in keep]
            packs = [pack for pack in self._pack_list() if any(ref not in keep for ref in pack)]
            damaged = [f"pack {name}" for name in sorted(self._damaged)]
            if dead or packs:
                self._renew_generation()
            for path in dead:
                path.unlink()
            while packs:
                try:
                    self._rewrite(packs, keep, _THOROUGH)
                    break
                except PackDamaged as exc:
                    packs = [pack for pack in packs if pack.path != exc.path]
                    damaged.append(f"pack {exc.path.name}")
            after = self.du()
        removed = before.packed + before.large - after.packed - after.large
        return Swept(removed, before.bytes - after.bytes, tuple(damaged))
