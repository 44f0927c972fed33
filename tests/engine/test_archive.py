"""Archive: runs that have ended leave the store for a file, and the log still verifies."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from holdfast import Holdfast, RunNotFound, step
from holdfast.clock import SystemClock, instant
from holdfast.errors import BadInput, RunArchived, StoreCorrupt
from holdfast.kernel import events as e
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
    return archiving.archive(hf._store, hf.home, later(), directory, SystemClock(), **options)


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
    for look in (hf.get, hf.steps, hf.approve, hf.cancel, hf.resume, lambda run: hf.rewind(run, "work#1")):
        with pytest.raises(RunArchived, match=made.file.name):
            look("r")
    with pytest.raises(RunNotFound):
        hf.get("x")
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
    """Before or after it was written to the file: it is in that too, and the log says that it is here."""
    for run in ("r", "s", "t"):
        hf.with_id(run).run(act(lambda: [work(1), work(2)]))

    def meanwhile(done: int, total: int) -> None:
        if done == 1:
            for run in ("r", "t"):
                hf.rewind(run, "work#1")

    made = archive(hf, directory, progress=meanwhile)
    assert (made.runs, made.stayed, hf.get("r").status) == (("s",), ("t", "r"), "paused")
    assert hf.resume("r").result(30) == ["x", "xx"]


def test_a_family_of_which_one_goes_on_meanwhile_stays_whole(hf, act, directory):
    """A parent that is gone would leave a child behind that nobody can continue."""
    kid = act(lambda n: [work(n), work(2)], "child")
    hf.with_id("r").run(act(lambda: [work(1), kid(1)]))
    made = archive(hf, directory, progress=lambda done, total: done == 2 and hf.rewind("r.child-1", "work#1"))
    assert (made.runs, set(made.stayed), len(hf.runs())) == ((), {"r", "r.child-1"}, 2)


def test_an_archive_that_is_cut_off_leaves_whole_families(hf, act, directory, monkeypatch):
    """However many runs a family has; the next archive takes what is left."""
    kid = act(lambda n: n, "child")
    for run in ("r", "s"):
        hf.with_id(run).run(act(lambda: [kid(n) for n in range(120)] and 1))
    whole = hf._store.archive
    calls: list[int] = []

    def dies(families, at):
        calls.append(len(families))
        if len(calls) == 2:
            raise SystemExit
        return whole(families, at)

    monkeypatch.setattr(hf._store, "archive", dies)
    with pytest.raises(SystemExit):
        archive(hf, directory)
    assert {run.parent for run in hf.runs()} == {"", "r"} and len(hf.runs()) == 121
    assert len(archive(hf, directory).runs) == 121


def test_a_child_whose_parent_is_gone_is_archived(hf, act, directory):
    """One that an archive of an older holdfast left behind."""
    kid = act(lambda n: work(n), "child")
    hf.with_id("r").run(act(lambda: [kid(1)]))
    *_, last = hf._store.entries("r")
    hf._store.archive([[e.StreamArchived("r", last.version, last.hash.hex())]], 1)
    assert archive(hf, directory).runs == ("r.child-1",)


def test_an_archive_that_was_changed_is_not_read(hf, act, directory):
    """Every event is checked against the one before it."""
    hf.with_id("r").run(act(lambda: work(1)))
    events = hf.events("r")
    file = archive(hf, directory).file
    assert [(head.stream, head.version) for head in archiving.read(file)] == [("r", len(events))]
    changed = gzip.decompress(file.read_bytes()).replace(b"xx", b"xy").replace(b'\\"x\\"', b'\\"y\\"')
    file.write_bytes(gzip.compress(changed))
    with pytest.raises(StoreCorrupt, match="does not match its hash"):
        archiving.read(file)


def test_a_directory_that_cannot_be_written_leaves_everything(hf, act, tmp_path):
    hf.with_id("r").run(act(lambda: work(1)))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="no directory"):
        archive(hf, tmp_path / "file")
    assert hf.get("r").status == "completed"


def test_two_archives_at_once_lose_nothing(hf, open_hf, act, directory):
    """The second waits for the first, and finds nothing left; a file is never written over."""
    for n in range(20):
        hf.with_id(f"r{n}").run(act(lambda: [work(900) for _ in range(20)]))
    other = open_hf()
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda one: archive(one, directory), (hf, other)))
    assert sorted(len(one.runs) for one in made) == [0, 20]
    assert len([head for file in directory.iterdir() for head in archiving.read(file)]) == 20


def test_a_file_that_is_there_is_not_written_over(hf, act, directory, monkeypatch):
    """Of whatever store it is; and what a process that died left of its own is cleared away."""
    at = SystemClock().now_us()
    directory.mkdir()
    taken = directory / f"runs-{instant(at):%Y%m%dT%H%M%SZ}.jsonl.gz"
    taken.write_text("another's")
    monkeypatch.setattr(SystemClock, "now_us", lambda self: at)
    hf.with_id("r").run(act(lambda: work(1)))
    made = archive(hf, directory)
    assert (taken.read_text(), made.file.name) == ("another's", taken.name.replace(".jsonl", "-2.jsonl"))
    assert sorted(directory.iterdir()) == sorted([taken, made.file])


def test_archives_of_one_second_do_not_meet(hf, act, directory):
    """Each has a file of its own."""
    files = set()
    for n in range(3):
        hf.with_id(f"r{n}").run(act(lambda: work(1)))
        files.add(archive(hf, directory).file)
    assert len(files) == 3
