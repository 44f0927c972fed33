"""Damage and repair: a sample of `python -m tests.crash --only repairs`, and what a bad repair would look
like."""

from collections import Counter

import pytest
from tests.crash import repairs
from tests.crash.repair_specimen import make

from holdfast.operations.repairing import chains, salvage, store_records
from holdfast.store.sqlite.salvage import rows

SEED = 1
POINTS = 12


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    return make(tmp_path_factory.mktemp("made") / "home")


@pytest.fixture(scope="module")
def deletions(tmp_path_factory):
    return make(tmp_path_factory.mktemp("deletions") / "home", "write_deletions")


@pytest.fixture(autouse=True)
def mirror(monkeypatch, tmp_path):
    """Each point names a mirror of its own."""
    monkeypatch.setenv("HOLDFAST_MIRROR_DIR", str(tmp_path / "no mirror"))


def test_sample(truth, tmp_path):
    """What one copy still has is there after a repair, and what is lost is named."""
    print(f"seed {SEED}")
    score = repairs.run_points(truth, tmp_path / "home", SEED, POINTS)
    assert score.violations == []
    assert score.notes["log written anew"] >= 3


def test_sample_of_deletions(deletions, tmp_path):
    """A run stays deleted if a record or its row shows it, and one that was restored stays there."""
    print(f"seed {SEED}")
    score = repairs.run_points(deletions, tmp_path / "home", SEED, POINTS // 2, repairs.strike_deletions)
    assert score.violations == []
    assert score.notes["something lost for good"] >= 3


def test_a_repair_that_believes_rows_that_are_left_over_is_seen(deletions, tmp_path, monkeypatch):
    """With a repair that takes what a split page left for rows that SQLite reads, lost records are
    violations: this store has such rows."""
    monkeypatch.setattr(rows, "LEFT_OVER", rows.POINTED)
    score = repairs.run_points(deletions, tmp_path / "home", SEED, POINTS // 2, repairs.strike_deletions)
    assert any("was deleted, and is there again" in one for one in score.violations)


def test_a_repair_that_loses_events_is_seen(truth, tmp_path, monkeypatch):
    """With a repair that drops the last event of each stream, the same damage is a violation."""
    follow = chains.follow

    def forgetful(candidates, name):
        found = follow(candidates, name)
        if name == "plain":
            found.ids.pop()
            found.sources = Counter(found.sources)
        return found

    monkeypatch.setattr("holdfast.operations.repairing.salvage.follow", forgetful)
    base = {name: data for name, data in truth.files.items() if name != repairs.LOG}
    damaged = bytearray(truth.folded)
    damaged[0] ^= 1  # not a database any more, for SQLite
    damage = repairs.Damage(
        ["flip"], base | {repairs.DATABASE: truth.folded}, {repairs.DATABASE: bytes(damaged)}, truth.lock
    )
    wrong, _ = repairs.try_one(truth, repairs.Oracle(truth), damage, tmp_path / "home")
    assert any("plain has 40 events, and 41 were still there" in one for one in wrong)


def test_backups_count_though_the_first_event_of_the_database_is_damaged(truth, tmp_path):
    """They are of the same incarnation: that their logs do not begin alike is the damage."""
    first = truth.events["@store"][0].hash
    data = truth.folded.replace(first, first[:-1] + bytes([first[-1] ^ 1]))
    start = data.rindex(truth.events["plain"][5].payload.encode())
    data = data[:start] + bytes(4096) + data[start + 4096 :]
    base = {name: data for name, data in truth.files.items() if name != repairs.LOG}
    damage = repairs.Damage(["flips"], base | {repairs.DATABASE: truth.folded}, {}, truth.lock)
    damage.after[repairs.DATABASE] = data
    wrong, report = repairs.try_one(truth, repairs.Oracle(truth), damage, tmp_path / "home")
    assert wrong == []
    assert any("the backup" in one for one in report.taken)


@pytest.fixture
def gone(truth):
    """The database, its log and all backups are deleted; archives and the mirror are left."""
    files = [name for name in truth.files if name.startswith(("holdfast.db", "backups/"))]
    return repairs.Damage(["delete"], dict(truth.files), dict.fromkeys(files), truth.lock)


def test_without_database_and_backups(truth, gone, tmp_path):
    """Tasks come back with their numbers, and every run that the mirror shows is named."""
    wrong, report = repairs.try_one(truth, repairs.Oracle(truth), gone, tmp_path / "home")
    assert wrong == []
    assert {"plain", "late"} <= {one.stream for one in report.lost}


def test_a_repair_that_renumbers_is_seen(truth, gone, tmp_path, monkeypatch):
    """With a repair that creates streams in another order, the same damage is a violation."""
    unrecorded = store_records.unrecorded
    for module in (salvage, store_records):
        monkeypatch.setattr(module, "unrecorded", lambda made, recorded: unrecorded(made, recorded)[::-1])
    wrong, _ = repairs.try_one(truth, repairs.Oracle(truth), gone, tmp_path / "home")
    assert any(one.startswith("the order of runs and tasks is") for one in wrong)


def test_a_repair_that_does_not_read_the_mirror_is_seen(truth, gone, tmp_path, monkeypatch):
    """With a repair that takes no notice of the files of runs, the same damage is a violation."""
    monkeypatch.setattr("holdfast.mirror.second_copy._runs", lambda *_: ())
    wrong, _ = repairs.try_one(truth, repairs.Oracle(truth), gone, tmp_path / "home")
    assert any("plain: versions 1 to 41 are lost, and nobody says so" in one for one in wrong)


@pytest.mark.parametrize("how", ["archives another run", "brings a deleted run back"])
def test_a_repair_that_believes_a_damaged_name_is_seen(truth, tmp_path, monkeypatch, how):
    """With a repair that takes the name in the record of a deletion or an archive as it stands, one flipped
    bit is a violation."""
    kind, name, other = {
        "archives another run": ("StreamArchived", "old-1", "old-3"),
        "brings a deleted run back": ("StreamDeleted", "gone-1", "gone-5"),
    }[how]
    (event, *_) = [
        one for one in truth.events["@store"] if one.type == kind and f'"stream":"{name}"' in one.payload
    ]
    damaged = truth.folded.replace(event.payload.encode(), event.payload.replace(name, other).encode())
    copies = [one for one in truth.files if one.startswith(("backups/", "archive/", "mirror/"))]
    base = {one: data for one, data in truth.files.items() if one != repairs.LOG}
    after = {repairs.DATABASE: damaged, **dict.fromkeys(copies)}
    damage = repairs.Damage(
        ["flip"], base | {repairs.DATABASE: truth.folded}, after, truth.lock, aim="record"
    )
    wrong, _ = repairs.try_one(truth, repairs.Oracle(truth), damage, tmp_path / "home")
    assert wrong == []
    monkeypatch.setattr(store_records, "_with_known_head", lambda _made, event: event)
    wrong, _ = repairs.try_one(truth, repairs.Oracle(truth), damage, tmp_path / "home")
    assert any(one.startswith((other, name)) for one in wrong)
