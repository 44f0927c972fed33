"""Power cuts: the model of the disk, a sample of the cuts, and what they would see."""

import random
from dataclasses import replace

import pytest
from tests.crash import power
from tests.crash.disk import Disk, Entry, Recording, Sync, Truncate, Write
from tests.crash.power import Budget, Lab, RecorderProcess, judge, lab_of, record

SEED = 1
SAMPLE = Budget(SEED, 0.015)


@pytest.fixture(scope="module")
def recorder():
    with RecorderProcess() as process:
        yield process


@pytest.fixture
def lab():
    with lab_of(SAMPLE, "test") as lab:
        yield lab


def contents(disk: Disk, name: str, count: int = 400) -> set[bytes | None]:
    """What a file may hold after a cut; None if it is not there."""
    chance = random.Random(SEED)
    cuts = [disk.cut(chance).files for _ in range(count)]
    return {bytes(files[name]) if name in files else None for files in cuts}


def played(*records, start=()) -> Disk:
    disk = Disk(Recording(dict(start), list(records)))
    disk.play(len(records))
    return disk


def test_what_was_synced_is_there():
    """Bytes and length of a synced file are as they were written."""
    disk = played(Write(0, 0, b"a" * 700), Sync(0, 1, False), start={"f": b"old"})
    assert contents(disk, "f") == {b"a" * 700}
    assert disk.files() == {"f": b"a" * 700}


def test_any_sector_of_an_unsynced_write_may_be_missing():
    """Whole, torn at the sector, with one of its two pieces, or not at all."""
    disk = played(Write(0, 0, b"a" * 512 + b"b" * 8), start={"f": b"-" * 520})
    left = contents(disk, "f")
    for pieces in (b"a" * 512 + b"b" * 8, b"a" * 512 + b"-" * 8, b"-" * 512 + b"b" * 8, b"-" * 520):
        assert pieces in left


def test_a_later_write_may_arrive_without_an_earlier_one():
    """Order is no promise; between them lies what was there, or zeros."""
    disk = played(Write(0, 0, b"first"), Write(0, 512, b"second"), start={"f": b""})
    left = contents(disk, "f")
    assert bytes(512) + b"second" in left
    assert b"first" in left


def test_a_sync_is_of_what_was_written_before_it_began():
    """What another thread writes meanwhile may be lost."""
    disk = played(Write(0, 0, b"a"), Write(0, 0, b"b"), Sync(0, 1, False), start={"f": b"-"})
    assert {b"a", b"b"} <= contents(disk, "f")
    assert b"-" not in contents(disk, "f")


def test_a_truncation_may_be_lost():
    """Until the file is synced."""
    disk = played(Truncate(0, 1), start={"f": b"long"})
    assert contents(disk, "f") == {b"long", b"l"}


def test_entries_of_the_directory():
    """Until it is synced, a new file may be missing although it was synced, and a deleted one may be back."""
    made = (Entry("f", 0), Write(0, 0, b"new"), Sync(0, 2, False))
    assert contents(played(*made), "f") == {None, b"new"}
    assert contents(played(*made, Sync(0, 3, True)), "f") == {b"new"}
    assert contents(played(Entry("f", None), start={"f": b"old"}), "f") == {None, b"old"}


@pytest.mark.parametrize(
    "name", ["sequential", "tides", "post", "spending", "metered", "heritage", "reopened", "together"]
)
def test_sample(recorder, name):
    """What was acknowledged is there after every cut, and the runs continue to their ends."""
    print(f"seed {SEED}")
    cut, again = power.try_script(SAMPLE, recorder, name)
    assert (cut.violations, again.violations, cut.lost, again.lost) == ([], [], 0, 0)
    assert cut.points >= 20


def test_control(recorder):
    """With durability "process" the same cuts lose steps, and damage nothing."""
    (score,) = power.try_control(Budget(SEED, 0.1), recorder, "post")
    assert score.violations == []
    assert score.notes["of these lost something"] > 0


def lost(lab: Lab, truth: power.Truth) -> int:
    return sum(judge(lab, truth, at, cut)[1] for at, cut in power.cuts(lab, truth, 60))


def without(truth: power.Truth, change) -> power.Truth:
    """The same truth over a recording in which each sync is changed."""
    records = [
        change(at, one) if isinstance(one, Sync) else one for at, one in enumerate(truth.recording.records)
    ]
    return replace(truth, recording=replace(truth.recording, records=records))


def test_a_missing_sync_is_seen(lab, recorder):
    """The cuts lose acknowledged steps when a single sync in the middle of a recording does nothing."""
    truth = record(lab, recorder, "sequential")
    assert lost(lab, truth) == 0
    places = [at for at, one in enumerate(truth.recording.records) if isinstance(one, Sync)]
    middle = places[len(places) // 2]
    assert lost(lab, without(truth, lambda at, one: one._replace(since=0) if at == middle else one)) > 0


def test_a_directory_that_is_never_synced_is_seen(lab, recorder):
    """A write-ahead log whose entry is lost takes everything with it."""
    truth = record(lab, recorder, "sequential")
    assert lost(lab, without(truth, lambda at, one: one._replace(directory=False))) > 0
