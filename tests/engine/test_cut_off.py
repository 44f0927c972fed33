"""Operations that were cut off: files and state come to one end, whoever comes next."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, checkpoint, step, workspace_path
from holdfast.errors import HoldfastError, Refused, RestoreUndone, StoreFull, StoreInDoubt
from holdfast.kernel import events as e
from holdfast.kernel import memory as m
from holdfast.kernel.author import Author
from holdfast.operations import operation_locks, rewinding
from holdfast.operations.performing import Moving
from holdfast.store.port import Decision, NewEvent, new_event


@step(effect="workspace")
def edit() -> str:
    (workspace_path() / "a").write_text("agent\n")
    return "edited"


def plot() -> str:
    checkpoint("cp")
    return edit()


class Disk:
    """Commits of operations end as a test says: the next ones by `fates`, all others by `later`."""

    def __init__(self, hf: Holdfast) -> None:
        self._real = hf._store.command_all
        self.fates: list[str] = []
        self.later = "ok"
        self.meanwhile: Callable[[], Any] = lambda: None

    def __call__(self, sources, decide, *, durable=True):
        fate = self.fates.pop(0) if self.fates else self.later
        if fate == "full":
            raise StoreFull("no room")
        if fate == "late":
            self.meanwhile()
        done = None if fate.startswith("lost") else self._real(sources, decide, durable=durable)
        if fate.endswith("in doubt"):
            raise StoreInDoubt("the disk failed")
        if fate.endswith("interrupted"):
            raise KeyboardInterrupt
        return done


CUTS = ("full", "lost in doubt", "written in doubt", "lost interrupted", "written interrupted")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").write_text("mine\n")
    return root


@pytest.fixture
def hf(open_hf, act, root) -> Holdfast:
    """With a run that has edited a file, and ended."""
    hf = open_hf(workspace=root)
    hf.with_id("r").run(act(plot))
    return hf


@pytest.fixture
def disk(hf, monkeypatch) -> Disk:
    disk = Disk(hf)
    monkeypatch.setattr(hf._store, "command_all", disk)
    return disk


def cut_off(hf: Holdfast, disk: Disk, *fates: str) -> str:
    """A rewind whose commits have these fates → what it said."""
    disk.fates[:] = fates
    with pytest.raises((HoldfastError, KeyboardInterrupt)) as raised:
        hf.rewind("r", "cp")
    assert operation_locks.listed(hf._engine.home) != []
    return str(raised.value)


def record_something(hf: Holdfast) -> None:
    hf._store.command("r", lambda _: Decision("run", [new_event(e.SignalReceived("note"), 0)]))


def at(hf: Holdfast, root: Path) -> tuple[str, int, str, list[str]]:
    """The end of the operation, the live generation, the file, and the marks that are left."""
    (row,) = hf.operations("r")
    return (
        row.status,
        hf.get("r").generation,
        (root / "a").read_text(),
        operation_locks.listed(hf._engine.home),
    )


DONE = ("done", 1, "mine\n", [])
DROPPED = ("dropped", 0, "agent\n", [])


@pytest.mark.parametrize("fate", CUTS)
def test_whoever_opens_the_store_next_finishes_it(hf, disk, open_hf, root, caplog, fate):
    """However its last commit ended: files and state are those of the point, and somebody is told."""
    said = cut_off(hf, disk, "ok", fate)
    assert (root / "a").read_text() == "mine\n", "nothing is taken back that may be recorded"
    assert "interrupted" in fate or "finishes it or rolls it back" in said
    other = open_hf(workspace=root)
    assert at(other, root) == DONE
    (row,) = other.operations("r")
    ended = "after it was done" if "written" in fate else "and is finished now"
    assert f"rewind {row.id} of run r was cut off" in caplog.text and ended in caplog.text
    assert (other.undo().status, (root / "a").read_text()) == ("completed", "agent\n")
    assert list(other._store.verify()) == []


@pytest.mark.parametrize("fate", CUTS)
def test_the_memory_moves_with_the_state_or_not_at_all(hf, disk, open_hf, root, home, fate):
    """However the last commit ends: what the run remembered is withdrawn if the run is rewound, and only
    then; who finishes the rewind withdraws it."""
    event = m.Remembered("m", "fact", "kelp", author=Author("ann", run="r", step="edit#1"))
    hf._store.command(m.STREAM, lambda _: Decision(m.KIND, [new_event(event, 0)]))
    cut_off(hf, disk, "ok", fate)
    with Holdfast(home, read_only=True) as looking:
        assert (looking.memory.get("m").status == "withdrawn") == (looking.get("r").generation == 1)
    other = open_hf(workspace=root)
    assert (other.memory.get("m").status, at(other, root)) == ("withdrawn", DONE)
    other.undo()
    assert (other.memory.get("m").status, list(other._store.verify())) == ("current", [])


@pytest.mark.parametrize("fate", CUTS)
def test_a_resume_finishes_it_first(hf, disk, root, fate):
    """Also in the process that was cut off, and without another operation."""
    cut_off(hf, disk, "ok", fate)
    assert hf.resume("r").result(30) == "edited"
    (row,) = hf.operations("r")
    assert (row.status, hf.get("r").generation, (root / "a").read_text()) == ("done", 1, "agent\n")


def test_a_start_finishes_it_first(hf, disk, act, root):
    """With the id of the run; it continues from the point."""
    cut_off(hf, disk, "ok", "full")
    assert hf.with_id("r").run(act(plot)) == "edited"
    assert (hf.operations("r")[0].status, hf.get("r").generation) == ("done", 1)


@pytest.mark.parametrize("fate", ["full", "lost in doubt"])
def test_a_resume_says_what_hinders_it_until_it_can(hf, disk, open_hf, root, fate):
    """The mark stays, nothing is moved to and fro, and no other command is needed when there is room."""
    cut_off(hf, disk, "ok", "full")
    disk.later = fate
    for _ in range(2):
        with pytest.raises((StoreFull, StoreInDoubt), match=r"rewind \w+ of run r .* fix the cause"):
            hf.resume("r").result(30)
        assert (root / "a").read_text() == "mine\n"
        assert [row.id for row in hf.operations("r")] == operation_locks.listed(hf._engine.home)
    disk.later = "ok"
    assert hf.resume("r").result(30) == "edited"
    assert hf.get("r").generation == 1


def test_without_a_mark_it_is_finished_all_the_same(hf, disk, open_hf, root, home):
    """A store that came from a backup has no marks."""
    cut_off(hf, disk, "ok", "full")
    (mark,) = (home / "operations").iterdir()
    mark.unlink()
    assert open_hf(workspace=root).resume("r").result(30) == "edited"
    assert (hf.operations("r")[0].status, hf.get("r").generation) == ("done", 1)


def test_one_that_somebody_is_at_is_waited_for(hf, disk, root, home):
    """A resume does not take it from whoever holds its mark."""
    cut_off(hf, disk, "ok", "full")
    (operation,) = operation_locks.listed(home)
    with operation_locks.held(home, operation) as mark:
        assert mark is not None
        with pytest.raises(Refused, match="under way in another process"):
            hf.resume("r").result(30)
    assert hf.resume("r").result(30) == "edited"


@pytest.mark.parametrize(("fate", "there"), [("lost in doubt", False), ("written in doubt", True)])
def test_a_beginning_in_doubt(hf, disk, open_hf, root, fate, there):
    """What never began leaves no mark; what did is finished."""
    cut_off(hf, disk, fate)
    assert (root / "a").read_text() == "agent\n"
    other = open_hf(workspace=root)
    if there:
        assert at(other, root) == DONE
    else:
        assert (other.operations("r"), operation_locks.listed(other._engine.home)) == ([], [])
        assert (other.get("r").generation, (root / "a").read_text()) == (0, "agent\n")


def test_a_beginning_that_is_refused_leaves_nothing(hf, disk, root):
    """Without room for it, nothing was done, and the error says no more than that."""
    disk.fates[:] = ["full"]
    with pytest.raises(StoreFull, match=r"^no room$"):
        hf.rewind("r", "cp")
    assert (operation_locks.listed(hf._engine.home), hf.operations("r")) == ([], [])
    assert (root / "a").read_text() == "agent\n"


@pytest.mark.parametrize("fate", CUTS)
def test_a_drop_that_is_cut_off_is_brought_to_its_end(hf, disk, open_hf, root, caplog, fate):
    """The run has continued, the files are taken back, and that cannot be recorded."""
    disk.meanwhile = lambda: record_something(hf)
    cut_off(hf, disk, "ok", "late", fate)
    assert (root / "a").read_text() == "agent\n"
    other = open_hf(workspace=root)
    assert at(other, root) == DROPPED
    assert ("after it was undone" if "written" in fate else "is dropped: ") in caplog.text


def test_files_go_back_if_something_was_recorded_since(hf, disk, open_hf, root, caplog):
    """Nobody has executed the run, so that its files are still those that the operation had moved; what
    somebody else wrote since stays."""
    cut_off(hf, disk, "ok", "full")
    record_something(hf)
    (root / "b").write_text("mine\n")
    assert at(open_hf(workspace=root), root) == DROPPED
    assert (root / "b").read_text() == "mine\n"
    assert "is dropped: something else was recorded for the run since" in caplog.text


def test_files_stay_if_another_operation_was_done_since(hf, disk, open_hf, root, monkeypatch, caplog):
    """What hindered the first did not hinder the second: the files are those of the second."""
    cut_off(hf, disk, "ok", "full")
    with monkeypatch.context() as patched:
        patched.setattr(rewinding, "make_way", lambda *_: None)
        hf.rewind("r", "cp")
    other = open_hf(workspace=root)
    assert [one.status for one in other.operations("r")] == ["done", "dropped"]
    assert (other.get("r").generation, (root / "a").read_text()) == (1, "mine\n")
    assert "the run has continued since; its files were left as they are" in caplog.text


@pytest.mark.parametrize("since", [True, False], ids=["dropped", "finished"])
def test_the_repository_comes_to_the_same_end(open_hf, act, root, monkeypatch, since):
    """Rewound with the files, or where it was before."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "somebody@example.org")

    @step(effect="workspace")
    def commit() -> None:
        (root / "a").write_text("agent\n")
        git("commit", "-qam", "agent")

    def committing() -> None:
        checkpoint("cp")
        commit()

    git("init", "-q")
    git("add", "a")
    git("commit", "-qm", "mine")
    old = git("rev-parse", "HEAD")
    hf = open_hf(workspace=root)
    hf.with_id("r").run(act(committing))
    new = git("rev-parse", "HEAD")
    disk = Disk(hf)
    with monkeypatch.context() as patched, pytest.raises(StoreFull):
        patched.setattr(hf._store, "command_all", disk)
        disk.fates[:] = ["ok", "full"]
        hf.rewind("r", "cp", git=True)
    assert git("rev-parse", "HEAD") == old != new
    if since:
        record_something(hf)
    assert at(open_hf(workspace=root), root) == (DROPPED if since else DONE)
    assert (git("rev-parse", "HEAD"), git("status", "--short")) == (new if since else old, "")


def test_what_cannot_be_finished_is_taken_back(hf, disk, open_hf, root, monkeypatch, caplog):
    """The files that it had moved are those of before it again, and the run can be resumed."""
    cut_off(hf, disk, "ok", "full")

    def fail(*_: object) -> None:
        raise RestoreUndone("no permission")

    with monkeypatch.context() as patched:
        patched.setattr(Moving, "move", fail)
        other = open_hf(workspace=root)
    assert at(other, root) == DROPPED
    assert "is dropped: the restore failed (no permission)" in caplog.text
    assert other.resume("r").result(30) == "edited"


def test_the_next_operation_comes_after_it(hf, disk, root):
    """An undo takes back what was asked for, once that is done."""
    cut_off(hf, disk, "ok", "full")
    hf.undo()
    assert [(one.kind, one.status, one.stands) for one in hf.operations("r")] == [
        ("undo", "done", True),
        ("rewind", "done", False),
    ]
    assert (hf.get("r").status, (root / "a").read_text()) == ("completed", "agent\n")


@pytest.mark.parametrize("fate", CUTS)
def test_the_files_of_a_fork_stay_if_it_may_be_in_the_log(hf, disk, tmp_path, caplog, fate):
    """The error says where they are and how to find out; one that is known not to be there leaves none."""
    new = tmp_path / "new" / "deep"
    disk.fates[:] = [fate]
    with pytest.raises((HoldfastError, KeyboardInterrupt)) as raised:
        hf.fork("r", at="cp", into="s", directory=new)
    assert new.exists() == (fate != "full")
    assert (tmp_path / "new").exists() == (fate != "full")
    if fate != "full":
        assert (new / "a").read_text() == "mine\n"
        said = caplog.text if "interrupted" in fate else str(raised.value)
        assert f"stay in {new}" in said and "`holdfast show s`" in said
    if "written" in fate:
        assert hf.resume("s").result(30) == "edited"
        assert (new / "a").read_text() == "agent\n"


def test_an_operation_that_only_a_newer_version_knows_is_left_alone(hf, open_hf, root, caplog):
    """It is listed, and neither finished, dropped nor undone here; the run can be rewound all the same."""
    begun = NewEvent("OperationBegun", 10, '{"kind":"reassign","run":"r","by":"ann"}')
    hf._store.command("@op/aa1", lambda _: Decision("operation", [begun]))
    with operation_locks.made(hf._engine.home, "aa1"):
        pass
    hf.close()
    again = open_hf(workspace=root)
    assert "only a newer holdfast knows" in caplog.text
    assert [(row.id, row.kind, row.status) for row in again.operations("r")] == [("aa1", "reassign", "begun")]
    with pytest.raises(Refused, match="newer holdfast"):
        again.undo("aa1")
    again.rewind("r", "cp")
    assert [row.status for row in again.operations("r")] == ["done", "begun"]
    assert list(again._store.verify()) == []
