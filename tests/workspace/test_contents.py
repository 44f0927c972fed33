"""The content store: what was put is there, whole, for everybody, or it is not there at all."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from holdfast.errors import ContentsDamaged
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref, ref_of


def put(contents: Contents, *data: bytes) -> list[Ref]:
    with contents.writing() as batch:
        return [batch.put(one) for one in data]


def put_large(contents: Contents, path: Path) -> Ref:
    with contents.writing() as batch, path.open("rb") as file:
        return batch.put_file(file.fileno())


def some(count: int, seed: int = 0, size: int = 3000) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(chance.randrange(size)) + b"text " * chance.randrange(500) for _ in range(count)]


def test_what_was_put_can_be_read(tmp_path: Path) -> None:
    """Small contents, an empty one and many groups of them come back as they were, also by another reader."""
    data = [b"", b"kelp", *some(400)]
    contents = Contents(tmp_path)
    refs = put(contents, *data)
    assert refs == [ref_of(one) for one in data]
    assert [contents.read(ref) for ref in refs] == data
    assert [Contents(tmp_path).read(ref) for ref in refs] == data


def test_nothing_is_there_before_the_block_ends(tmp_path: Path) -> None:
    """A batch that fails leaves nothing, not even a temporary file."""
    contents = Contents(tmp_path)
    with pytest.raises(RuntimeError), contents.writing() as batch:
        ref = batch.put(b"kelp" * 1000)
        raise RuntimeError
    assert ref not in contents
    assert list((tmp_path / "packs").iterdir()) == []


@pytest.mark.parametrize("kind", ["text", "noise"])
def test_a_large_content_has_a_file_of_its_own(tmp_path: Path, kind: str) -> None:
    """Compressed where that pays; put twice it is there once."""
    source = tmp_path / "source"
    source.write_bytes(b"kelp and rock\n" * 300_000 if kind == "text" else os.urandom(3_000_000))
    contents = Contents(tmp_path / "store")
    ref = put_large(contents, source)
    assert put_large(contents, source) == ref
    assert contents.read(ref) == source.read_bytes()
    usage = contents.du()
    assert (usage.large, usage.packs) == (1, 0)
    assert (usage.large_bytes < 100_000) == (kind == "text")


def test_a_writer_in_another_process_is_seen(tmp_path: Path) -> None:
    """A content that came after the store was opened is found."""
    reader = Contents(tmp_path)
    (ref,) = put(Contents(tmp_path), b"later")
    assert ref in reader
    assert reader.read(ref) == b"later"


def test_many_small_batches_make_few_packs(tmp_path: Path) -> None:
    """Packs are merged; a reader that has the old ones continues."""
    contents, reader = Contents(tmp_path), Contents(tmp_path)
    data = some(300, size=200)
    refs = []
    for one in data:
        refs += put(contents, one)
        assert reader.read(refs[len(refs) // 2]) == data[len(refs) // 2]
    assert contents.du().packs < 50
    assert [reader.read(ref) for ref in refs] == data
    assert contents.verify() == ()


def test_a_missing_content_is_damage(tmp_path: Path) -> None:
    """Asking for what is not there names it."""
    with pytest.raises(ContentsDamaged) as caught:
        Contents(tmp_path).read(ref_of(b"never"))
    assert caught.value.what == (ref_of(b"never").hex(),)


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_byte_is_found(tmp_path: Path, seed: int) -> None:
    """Wherever a byte of a pack changes: what is read is right or refused, and verify says so."""
    data = some(60, seed)
    refs = put(Contents(tmp_path), *data)
    (pack,) = (tmp_path / "packs").iterdir()
    bytes_ = bytearray(pack.read_bytes())
    at = random.Random(seed).randrange(8, len(bytes_))
    bytes_[at] ^= 0x40
    pack.write_bytes(bytes_)
    contents = Contents(tmp_path)
    assert contents.verify() != ()
    for ref, one in zip(refs, data, strict=True):
        try:
            assert contents.read(ref) == one
        except ContentsDamaged as exc:
            assert exc.what == (ref.hex(),)


@pytest.mark.parametrize("kept", [0, 1000, 100_000])
def test_a_torn_large_content_is_refused(tmp_path: Path, kept: int) -> None:
    """A large file that is cut short is damage, compressed or not."""
    for content in (b"kelp and rock\n" * 300_000, os.urandom(2_000_000)):
        source = tmp_path / "source"
        source.write_bytes(content)
        contents = Contents(tmp_path / "store")
        ref = put_large(contents, source)
        (path,) = (tmp_path / "store" / "large").glob("*/" + ref.hex() + ".*")
        os.truncate(path, min(kept, path.stat().st_size - 1))
        assert ref.hex() in contents.verify()
        with pytest.raises(ContentsDamaged):
            contents.read(ref)


def test_a_torn_pack_is_ignored_and_removed(tmp_path: Path) -> None:
    """What a killed writer leaves is not seen by anybody, and gc takes it away."""
    (ref,) = put(Contents(tmp_path), b"kelp")
    (tmp_path / "packs" / "tmp-torn").write_bytes(b"HFPACK1\nhalf")
    contents = Contents(tmp_path)
    assert contents.verify() == ()
    contents.gc(lambda: {ref})
    assert [path.suffix for path in (tmp_path / "packs").iterdir()] == [".pack"]


def test_gc_keeps_what_is_kept(tmp_path: Path) -> None:
    """Everything else goes, and the generation changes only if something went."""
    contents = Contents(tmp_path / "store")
    refs = put(contents, *(data := some(500)))
    source = tmp_path / "source"
    source.write_bytes(os.urandom(2_000_000))
    large = put_large(contents, source)
    before = contents.generation
    assert contents.gc(lambda: {*refs, large}).removed == 0
    assert contents.generation == before
    swept = contents.gc(lambda: set(refs[::3]))
    assert swept.removed == len(set(refs)) - len(set(refs[::3])) + 1
    assert contents.generation != before
    assert [contents.read(ref) for ref in refs[::3]] == data[::3]
    assert refs[1] not in contents and large not in contents
    assert contents.verify() == ()


def test_gc_leaves_a_damaged_pack_alone(tmp_path: Path) -> None:
    """What can still be read in it stays; it is named."""
    contents = Contents(tmp_path)
    refs = put(contents, *some(200))
    (pack,) = (tmp_path / "packs").iterdir()
    with pack.open("r+b") as file:
        file.seek(20)
        file.write(b"damaged")
    contents = Contents(tmp_path)
    swept = contents.gc(lambda: set(refs[:50]))
    assert swept.damaged == (f"pack {pack.name}",)
    assert pack.exists()


def _writer(directory: str, seed: int) -> None:
    contents = Contents(Path(directory))
    for number in range(30):
        data = some(5, seed * 1000 + number, 200)
        for ref, one in zip(put(contents, *data), data, strict=True):
            assert contents.read(ref) == one


def test_processes_write_at_once(tmp_path: Path) -> None:
    """Four writers, merging as they go: nothing of any of them is missing."""
    context = get_context("spawn")
    processes = [context.Process(target=_writer, args=(str(tmp_path), seed)) for seed in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    contents = Contents(tmp_path)
    assert contents.verify() == ()
    for seed in range(4):
        for number in range(30):
            for one in some(5, seed * 1000 + number, 200):
                assert contents.read(ref_of(one)) == one


def test_gc_waits_for_who_holds(tmp_path: Path) -> None:
    """Between put and the commit of what refers to it, nothing is removed."""
    contents = Contents(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        with contents.hold():
            (ref,) = put(contents, b"kelp")
            swept = pool.submit(contents.gc, set)
            with pytest.raises(TimeoutError):
                swept.result(0.2)
            assert ref in contents
        assert swept.result(10).removed == 1
