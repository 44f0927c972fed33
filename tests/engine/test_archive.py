"""Archive: runs that have ended leave the store for a file, and the log still verifies."""

import gzip
import json
from datetime import timedelta

import pytest

from holdfast import Holdfast, RunNotFound, step
from holdfast.clock import SystemClock, instant
from holdfast.errors import RunArchived, StoreCorrupt, StoreError
from holdfast.operations import archiving


@step
def work(n: int) -> str:
    return "x" * n


def later():
    return instant(SystemClock().now_us()) + timedelta(seconds=1)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "archive"


def archive(hf: Holdfast, directory, **options):
    rows = archiving.find(hf._store, hf.home, options.pop("before", later()), **options)
    return archiving.archive(hf._store, rows, directory, SystemClock())


def test_a_finished_run_leaves_the_store_whole(hf, act, directory):
    """Its events and large values are in the file, with their hashes; the store has only a record of it, and
    does not begin it again."""
    hf.with_id("r").run(act(lambda: [work(1), work(50_000)]))
    hf.with_id("s").run(act(lambda: work(3)))
    events = hf.events("r")
    made = archive(hf, directory)
    assert (set(made.runs), made.stayed) == ({"r", "s"}, ())
    assert made.file is not None and made.file.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in gzip.decompress(made.file.read_bytes()).splitlines()]
    begin, end = (lines.index(one) for one in lines if one.get("stream") in ("r", "s"))
    of_r = lines[begin:] if lines[begin]["stream"] == "r" else lines[end:]
    assert [line["type"] for line in of_r if "type" in line][: len(events)] == [one.type for one in events]
    assert sum("blob" in line for line in of_r) == 2  # the large result of the step, and of the run
    with pytest.raises(RunNotFound):
        hf.get("r")
    with pytest.raises(RunArchived, match="choose another id"):
        hf.with_id("r").run(act(lambda: 1))
    assert (hf.runs(), list(hf._store.verify()), hf._store.sweep()) == ([], [], 0)
    assert hf.with_id("t").run(act(lambda: work(1))) == "x"
    hf._store.rebuild()
    assert list(hf._store.verify()) == []


def test_what_has_not_ended_or_is_not_old_stays(hf, act, directory):
    """A run that can be resumed, and one that changed since; failed ones go only if that is said."""
    hf.with_id("done").run(act(lambda: work(1)))
    with pytest.raises(ZeroDivisionError):
        hf.with_id("failed").run(act(lambda: 1 // 0))
    hf.fork("done", "work", into="paused")
    assert archiving.find(hf._store, hf.home, later() - timedelta(days=1)) == []
    assert archive(hf, directory).runs == ("done",)
    assert archive(hf, directory).runs == ()
    assert archive(hf, directory, failed=True).runs == ("failed",)
    assert [run.id for run in hf.runs()] == ["paused"]


def test_a_family_goes_together(hf, act, directory):
    """Child runs with their parent, whatever became of them; alone they stay."""
    kid = act(lambda n: work(n), "child")
    hf.with_id("r").run(act(lambda: [work(1), kid(1)]))
    hf.rewind("r", "work#1")
    hf.resume("r").result(30)
    assert len(hf.runs()) == 3
    made = archive(hf, directory)
    assert (len(made.runs), made.runs[0], hf.runs()) == (3, "r", [])
    assert [one.stands for one in hf.operations()] == [False]


def test_a_run_that_goes_on_meanwhile_stays(hf, act, directory):
    """It is in the file too; the log says that it is here."""
    hf.with_id("r").run(act(lambda: [work(1), work(2)]))
    rows = archiving.find(hf._store, hf.home, later())
    hf.rewind("r", "work#1")
    made = archiving.archive(hf._store, rows, directory, SystemClock())
    assert (made.runs, made.stayed, hf.get("r").status) == ((), ("r",), "paused")
    assert hf.resume("r").result(30) == ["x", "xx"]


def test_an_archive_that_was_changed_is_not_read(hf, act, directory):
    """Every event is checked against the one before it."""
    hf.with_id("r").run(act(lambda: work(1)))
    file = archive(hf, directory).file
    assert [(head.stream, head.version) for head in archiving.read(file)] == [("r", 4)]
    changed = gzip.decompress(file.read_bytes()).replace(b"xx", b"xy").replace(b'\\"x\\"', b'\\"y\\"')
    file.write_bytes(gzip.compress(changed))
    with pytest.raises(StoreCorrupt, match="does not match its hash"):
        archiving.read(file)


def test_a_directory_that_cannot_be_written_leaves_everything(hf, act, tmp_path):
    hf.with_id("r").run(act(lambda: work(1)))
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        archive(hf, tmp_path / "file")
    assert hf.get("r").status == "completed"


def test_two_archives_of_one_second_do_not_meet(hf, act, directory):
    """Each has a file of its own."""
    files = set()
    for n in range(3):
        hf.with_id(f"r{n}").run(act(lambda: work(1)))
        files.add(archive(hf, directory).file)
    assert len(files) == 3
