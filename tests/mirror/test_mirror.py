"""The mirror shows what the log has, and never overwrites what it did not write."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from tests.mirror.project import CHECKLIST, Project, fails, look, survey
from tests.mirror.schema import misfits

from holdfast import Holdfast, plans, workflow
from holdfast.errors import BadInput, NotApproved, NotFound
from holdfast.facade.drain_thread import DrainThread
from holdfast.kernel.author import Author
from holdfast.mirror import sealed_json, sealed_text
from holdfast.mirror.inspecting import status
from holdfast.store.port import GENESIS
from holdfast.tracker import journal
from holdfast.workspace.contents.compression import decompress

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
SECRETS = (
    "sk-abcdefghijklmnopqrstuvwxyz",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "sk-ant-api03-abc_DEF-123",
)


@workflow
def _repeat(text: str) -> str:
    return text


@workflow
def _refuse(text: str) -> None:
    raise ValueError(text)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def fits(data: object, name: str) -> None:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    assert misfits(data, schema, schema) == []


def kept(project: Project) -> list[str]:
    return sorted(
        path.name for suffix in ("edited", "replaced") for path in project.mirror.rglob(f"*.{suffix}-*")
    )


# What is in it


def test_the_files_of_a_session(project: Project) -> None:
    """current.json has every field of the session, the history a line, and all files fit their schemas."""
    with project.opened() as hf:
        project.work(hf)
        with pytest.raises(ValueError):
            hf.with_id("r2").run(fails)
    current = project.json("tasks/current.json")
    assert current == project.json("tasks/sessions/s1.json")
    assert current["session_id"] == "s1" and current["started_at"] == "2030-01-01T00:00:01Z"
    task = current["current_task"]
    assert (task["id"], task["name"], task["status"]) == ("t2", "Implement feature X", "in_progress")
    assert task["context"] == {
        "files_modified": ["src/main.rs"],
        "decisions": ["Use async pattern"],
        "scope_changes": [],
    }
    (done,) = current["completed_tasks"]
    assert (done["id"], done["name"], done["duration_seconds"]) == ("t1", "Setup project", 1.0)
    assert current["memory"]["key_decisions"] == ["one store per project"]
    assert current["memory"]["learned_patterns"] == ["tests before code"]
    (ended,) = (project.mirror / "tasks/history/2030-01.jsonl").read_text().splitlines()
    assert json.loads(ended)["summary"] == "it builds"
    run, failed = project.json("runs/r1.json"), project.json("runs/r2.json")
    assert (run["status"], run["result"], len(run["steps"])) == ("completed", 1, 2)
    assert failed["error"]["message"] == "no kelp here"
    fits(current, "current")
    fits(project.json("tasks/memory.json"), "memory")
    fits(run, "run")
    fits(failed, "run")
    fits(project.json("mirror.json"), "mirror")
    fits(json.loads(ended), "history")
    for line in (project.mirror / "tasks/journal.jsonl").read_text().splitlines():
        fits(json.loads(line), "journal")


def test_the_journal_verifies(project: Project) -> None:
    """Each line of the journal is an event of the log, byte for byte: the hashes of a stream are a chain."""
    with project.opened() as hf:
        project.work(hf)
        project.link(hf, "t2", "t1")
    hashes: dict[str, bytes] = {}
    with (project.mirror / "tasks/journal.jsonl").open("rb") as file:
        lines = list(journal.read_lines(file))
    for line in lines:
        assert line is not None and line.follows(hashes.get(line.stream, GENESIS))
        hashes[line.stream] = bytes.fromhex(line.hash)
    assert {line.stream for line in lines if line} == {
        "@session/s1",
        "@task/t1",
        "@task/t2",
        "@memory",
        "@links",
    }


def test_drains_and_a_rebuild_write_the_same(tmp_path: Path) -> None:
    """On random histories: the files after many drains are those that one rebuild makes from the log."""
    for seed in range(3):
        chance = random.Random(seed)
        project = Project(tmp_path / str(seed))
        project.mirror.parent.mkdir()
        for number in range(12):
            if chance.random() < 0.2:
                project.clock.advance(timedelta(days=chance.randint(10, 60)))
            with project.opened() as hf:
                _act(project, hf, chance, number)
        project.rebuild(tmp_path / f"rebuilt{seed}")
        assert look(project.mirror) == look(tmp_path / f"rebuilt{seed}")
        assert kept(project) == []


def _act(project: Project, hf: Holdfast, chance: random.Random, number: int) -> None:
    if number == 0:
        project.begin(hf)
    if chance.random() < 0.7:
        project.create(hf, f"t{number}", f"task {number}")
        if chance.random() < 0.7:
            project.claim(hf, f"t{number}")
            project.note(hf, f"t{number}", "decision", f"so be it {number}")
        if chance.random() < 0.6:
            chance.choice((project.complete, project.fail))(hf, f"t{number}", "because")
    if chance.random() < 0.4:
        project.remember(hf, f"m{number}", f"text {number}", chance.choice(("decision", "pattern", "fact")))
    if chance.random() < 0.3:
        hf.run(survey)


def test_old_months_are_compressed(project: Project) -> None:
    """The months before the last one are compressed and hold what they held; a task that ends later does not
    change them."""
    with project.opened() as hf:
        project.work(hf)
    plain = (project.mirror / "tasks/history/2030-01.jsonl").read_bytes()
    project.clock.advance(timedelta(days=70))
    with project.opened() as hf:
        project.complete(hf, "t2")
    history = project.mirror / "tasks/history"
    assert sorted(path.name for path in history.iterdir()) == ["2030-01.jsonl.zst", "2030-03.jsonl"]
    assert decompress((history / "2030-01.jsonl.zst").read_bytes()) == plain
    before = look(project.mirror)
    project.rebuild()
    assert look(project.mirror) == before


def test_a_burst_is_few_files(project: Project) -> None:
    """A thousand changes are drained with at most 20 replacements, and the previous revisions are kept."""
    with project.opened() as hf:
        project.work(hf)
    with project.opened(drains=False) as hf:
        for number in range(250):
            project.create(hf, f"b{number}", "burst")
            project.claim(hf, f"b{number}")
            project.note(hf, f"b{number}", "decision", "x")
            project.complete(hf, f"b{number}")
        before = (project.mirror / "tasks/current.json").read_bytes()
        done = project.mirror_of(hf).drain()
    assert done.events == 1000 and done.replaced <= 20
    assert (project.mirror / "tasks/previous/current.json").read_bytes() == before
    assert project.json("tasks/current.json")["completed_count"] == 251


def test_nothing_secret_is_written(project: Project) -> None:
    """What the redactor hides is in no file of the mirror, as bytes, wherever it came from."""
    told = " ".join(SECRETS)
    with project.opened() as hf:
        project.begin(hf)
        project.create(hf, "t1", f"use {SECRETS[0]}", told)
        project.claim(hf, "t1")
        project.note(hf, "t1", "decision", told)
        project.complete(hf, "t1", told)
        project.create(hf, "t2", told, told)
        project.claim(hf, "t2")
        project.note(hf, "t2", "file", told)
        project.remember(hf, "m1", told)
        hf.run(_repeat, told)
        with pytest.raises(ValueError):
            hf.run(_refuse, told)
    files = [path for path in project.mirror.rglob("*") if path.is_file()]
    assert len(files) >= 8
    for path in files:
        for secret in SECRETS:
            assert secret.encode() not in path.read_bytes(), path


# Checklists


def _boxes(project: Project, run_id: str) -> str:
    """The box of each item: `x` or a space."""
    lines = (project.mirror / f"runs/{run_id}.md").read_text().splitlines()
    return "".join(line.partition("[")[2][0] for line in lines if "- [" in line)


def test_a_checklist_is_ticked(project: Project) -> None:
    """The file has the whole text of the checklist. An item is ticked when its step has ended, also by a
    drain while the run waits; a gate when it was approved."""
    with project.opened(drains=False) as hf:
        project.check_off(hf, "c")
        project.mirror_of(hf).drain()
        assert _boxes(project, "c") == "xx  "
        hf.approve("c")
        hf.resume("c").result()
        project.mirror_of(hf).drain()
    text = CHECKLIST.replace("[ ]", "[x]")
    written = (project.mirror / "runs/c.md").read_bytes()
    assert written == sealed_text.seal(text) and written.decode().startswith(text)
    assert project.json("mirror.json")["checklists"] == []
    assert project.json("runs/c.json")["status"] == "completed"
    before = look(project.mirror)
    shutil.rmtree(project.mirror)
    project.rebuild()
    assert look(project.mirror)["runs/c.md"] == before["runs/c.md"]


def test_items_are_ticked_while_the_run_works(project: Project, tmp_path: Path) -> None:
    """A drain ticks what has ended although the run's status is as before; the run's other file stays."""
    fifos = [tmp_path / name for name in ("first", "go1", "second", "go2")]
    for fifo in fifos:
        os.mkfifo(fifo)
    first, go1, second, go2 = fifos
    plan = tmp_path / "slow.md"
    items = ((first, go1), (second, go2))
    plan.write_text("".join(f"- [ ] `sh -c 'echo > {at}; read x < {go}'`\n" for at, go in items))
    with project.opened(drains=False) as hf:
        run = hf.with_id("c").start(plans.run_plan, plans.read(plan), {})
        first.read_text()
        project.mirror_of(hf).drain()
        before = project.json("runs/c.json")["version"]
        go1.write_text("go\n")
        second.read_text()
        project.mirror_of(hf).drain()
        assert _boxes(project, "c") == "x "
        assert project.json("runs/c.json")["version"] == before
        go2.write_text("go\n")
        run.result()


def test_a_rejected_item_is_not_ticked(project: Project) -> None:
    """Nor one that a rewind has undone."""
    with project.opened() as hf:
        project.check_off(hf, "c")
        hf.reject("c")
        with pytest.raises(NotApproved):
            hf.resume("c").result()
    assert _boxes(project, "c") == "xx  "
    with project.opened() as hf:
        hf.rewind("c", to="before:weigh-kelp", rerun_once=True)
    assert _boxes(project, "c") == "x   "


def test_an_edited_checklist_is_kept(project: Project) -> None:
    """A person who ticks an item in the mirror changes no run: the file is named, and kept aside."""
    with project.opened() as hf:
        project.check_off(hf, "c")
    path = project.mirror / "runs/c.md"
    edited = path.read_text().replace("- [ ] Ship", "- [x] Ship")
    path.write_text(edited)
    with project.opened() as hf:
        assert [str(fault.path) for fault in _status(project, hf)] == ["runs/c.md"]
        hf.approve("c")
        hf.resume("c").result()
    (aside,) = kept(project)
    assert (project.mirror / "runs" / aside).read_text() == edited
    assert _boxes(project, "c") == "xxxx"


def test_a_deleted_run_has_no_checklist(project: Project) -> None:
    """Neither the file nor its previous revision stays."""
    with project.opened() as hf:
        project.check_off(hf, "c")
        hf.cancel("c")
    project.clock.advance(timedelta(days=1))
    with project.opened() as hf:
        hf.archive(project.clock.now() - timedelta(hours=1))
    assert list((project.mirror / "runs").rglob("*.md")) == []


# What is never overwritten


@pytest.mark.parametrize("content", [b"", b'{"session_id": "s1", "curr', b'{"mine": true}', None], ids=str)
def test_an_edited_or_torn_file_is_kept(
    project: Project, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    """A file that is not as it was written is renamed, reported once, and written again."""
    with project.opened() as hf:
        project.work(hf)
    names = ["tasks/current.json", "tasks/memory.json", "tasks/sessions/s1.json"]
    edited = {}
    for name in names:
        path = project.mirror / name
        edited[path] = path.read_bytes().replace(b"store", b"shop") if content is None else content
        path.write_bytes(edited[path])
    with project.opened(drains=False) as hf:
        assert sorted(fault.path for fault in _status(project, hf)) == names
    with caplog.at_level(logging.WARNING), project.opened() as hf:
        project.remember(hf, "m3", "another")
    for path, data in edited.items():
        what = "is torn or damaged" if sealed_json.read(data) is None else "was edited by hand"
        aside = path.with_name(f"{path.name}.edited-20300101T000011Z")
        sentence = f"{path} {what}; it is kept as {aside.name}"
        assert [one.message for one in caplog.records].count(sentence) == 1
        assert aside.read_bytes() == data
        assert sealed_json.state_of(path.read_bytes()) == "own"
    caplog.clear()
    with caplog.at_level(logging.WARNING), project.opened() as hf:
        project.remember(hf, "m4", "yet another")
    assert caplog.records == []


def _status(project: Project, hf: Holdfast) -> list[object]:
    return list(status(hf._store, hf._reader, project.mirror).faults)


def test_a_changed_journal_is_kept(project: Project) -> None:
    """A line changed, added or removed by somebody: the journal is kept as it is, and made again."""
    changes = [
        lambda data: data.replace(b"Setup", b"Set-p"),
        lambda data: data + b"mine\n",
        lambda data: b"".join(data.splitlines(keepends=True)[1:]),
        lambda data: b"",
    ]
    with project.opened() as hf:
        project.work(hf)
    path = project.mirror / "tasks/journal.jsonl"
    for number, change in enumerate(changes):
        data = path.read_bytes()
        path.write_bytes(change(data))
        os.utime(path, ns=(number, number))
        with project.opened() as hf:
            project.note(hf, "t2", "decision", f"number {number}")
        assert path.read_bytes().startswith(data)
    assert len(kept(project)) == 3  # an empty one has nothing to keep


def test_a_cut_journal_is_completed(project: Project) -> None:
    """A journal whose end is missing is the beginning of what the log has: nothing is kept aside."""
    with project.opened() as hf:
        project.work(hf)
    path = project.mirror / "tasks/journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    project.drain()
    assert path.read_bytes() == whole and kept(project) == []


def test_the_journal_of_a_longer_log_is_kept(project: Project) -> None:
    """After an older backup is restored, the journal has events that the log has not: that copy is kept."""
    with project.opened() as hf:
        project.work(hf)
        backup = hf.backup(project.mirror.parent / "backup.db")
        project.create(hf, "t9", "made after the backup")
    whole = (project.mirror / "tasks/journal.jsonl").read_bytes()
    shutil.rmtree(project.home)
    Holdfast.restore_backup(backup, home=project.home)
    project.drain()
    (name,) = kept(project)
    assert (project.mirror / "tasks" / name).read_bytes() == whole
    assert b"t9" not in (project.mirror / "tasks/journal.jsonl").read_bytes()


def test_a_touched_journal_is_no_edit(project: Project) -> None:
    """A file that was checked out anew has another time and the same content: it is as holdfast wrote it,
    also if the log has more by now. One that differs is edited."""
    with project.opened() as hf:
        project.work(hf)
    with project.opened(drains=False) as hf:
        project.note(hf, "t2", "decision", "later")
    tasks = project.mirror / "tasks"
    for path in (tasks / "journal.jsonl", *(tasks / "history").iterdir()):
        os.utime(path, ns=(1, 1))
        with project.opened(drains=False) as hf:
            assert _status(project, hf) == []
        path.write_bytes(path.read_bytes().replace(b"Setup", b"Set-p"))
        os.utime(path, ns=(1, 1))
        with project.opened(drains=False) as hf:
            assert [fault.fault for fault in _status(project, hf)] == ["edited"]
        path.write_bytes(path.read_bytes().replace(b"Set-p", b"Setup"))


def test_a_mirror_that_is_ahead_is_not_behind(project: Project) -> None:
    """The mirror has events that the log has lost, or is of another store: its status names which."""
    with project.opened() as hf:
        project.create(hf, "t1", "kept")
    shutil.copytree(project.home, project.home.with_name("earlier"))
    with project.opened() as hf:
        project.create(hf, "t2", "lost")
        assert hf.mirror_status().shows == "own"
    shutil.rmtree(project.home)
    project.home.with_name("earlier").rename(project.home)

    def found() -> tuple[str, int, bool]:
        with project.opened(drains=False) as hf:
            known = status(hf._store, hf._reader, project.mirror)
            return known.shows, known.behind, known.is_current

    assert found() == ("ahead", 0, False)
    shutil.rmtree(project.home)
    assert found() == ("other", 0, False)


def _contents(directory: Path) -> set[bytes]:
    return {path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("card", ["there", "gone"])
@pytest.mark.parametrize("uses", ["tasks", "runs"])
def test_the_mirror_of_another_store_is_kept(tmp_path: Path, uses: str, card: str) -> None:
    """A clone of a repository that has a mirror: whatever the new store writes, and however often, each file
    of the other one is still there, and none of its files is in the way. It is reported in one sentence."""
    other, project = Project(tmp_path / "other", session_id="s9"), Project(tmp_path / "own")
    with other.opened() as hf:
        other.work(hf)
        hf.with_id("r7").run(survey)
    if card == "gone":
        (other.mirror / "mirror.json").unlink()
    shutil.copytree(other.mirror, project.mirror)
    (project.mirror / "runs/README.md").write_text("mine")
    before = _contents(other.mirror) - _contents(other.mirror / "previous")
    before.discard((other.mirror / "mirror.json").read_bytes() if card == "there" else b"")
    with project.opened(drains=False) as hf:
        if uses == "tasks":
            project.create(hf, "t5", "mine")
        hf.with_id("r1").run(survey, 3)
    project.named = False  # a clone has it where the mirror of a project is
    (sentence,) = project.drain().kept
    assert "was not written by this store" in sentence
    fresh = tmp_path / "fresh"
    project.drain(fresh)
    kept_aside = {name for name in look(project.mirror) if ".replaced-" in name}
    assert kept_aside and not list(project.mirror.rglob("*.edited-*"))  # nobody edited them
    assert look(project.mirror).keys() - kept_aside == {*look(fresh), "runs/README.md"}
    for number in range(3):
        with project.opened() as hf:
            project.remember(hf, f"m{number}", f"number {number}")
            hf.with_id(f"r{6 + number}").run(survey)
    assert before <= _contents(project.mirror)


def test_a_directory_is_the_mirror_of_one_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second store to which the user gives the same directory does not write there, and says so; the files
    of the first stay as they are, however often both write. `rebuild` takes the directory."""
    first, second = Project(tmp_path / "first"), Project(tmp_path / "second")
    second.mirror = first.mirror
    with first.opened() as hf:
        first.work(hf)
    before = look(first.mirror)
    for number in range(3):
        with second.opened(drains=False) as hf:
            second.create(hf, f"t{number}", "mine")
        done = second.drain()
        assert not done.is_current and done.replaced == 0
        (sentence,) = done.kept
        assert f"{first.mirror} has that of another store; name another directory" in sentence
        first.drain()
    assert look(first.mirror) == before
    with second.opened() as hf:
        for number in range(3, 6):
            second.create(hf, f"t{number}", "mine")
            hf._drain_mirror()
    assert len(caplog.records) == 1, "once, however long the process lives"
    second.rebuild()
    assert second.drain().is_current


def test_what_others_put_there_is_not_followed(project: Project, tmp_path: Path) -> None:
    """Links and files of others in the mirror's directory: nothing outside changes, and nothing is lost."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keys").write_text("mine")
    for name in ("tasks", "runs"):
        project.mirror.mkdir(exist_ok=True)
        (project.mirror / name).symlink_to(outside)
    (project.mirror / "mirror.json").symlink_to(outside / "keys")
    with project.opened() as hf:
        project.work(hf)
    (project.mirror / "tasks/current.json").unlink()
    (project.mirror / "tasks/current.json").symlink_to(outside / "keys")
    shutil.rmtree(project.mirror / "tasks/sessions")
    (project.mirror / "tasks/sessions").symlink_to(outside)
    os.link(project.mirror / "tasks/journal.jsonl", outside / "journal")
    linked = (outside / "journal").read_text()
    (project.mirror / "runs/r2.json").write_text("theirs")
    with project.opened() as hf:
        project.complete(hf, "t2")
        hf.with_id("r2").run(survey)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"keys": "mine", "journal": linked}
    assert project.json("tasks/current.json")["completed_count"] == 2
    (theirs,) = (project.mirror / "runs").glob("r2.json.edited-*")
    assert theirs.read_text() == "theirs"


# Where there is none, and where it fails


def test_it_comes_back_whole(project: Project) -> None:
    """`git clean` deletes it: the next drain writes all of it again."""
    with project.opened() as hf:
        project.work(hf)
    before = look(project.mirror)
    shutil.rmtree(project.mirror)
    project.drain()
    assert look(project.mirror) == before
    for name in ("tasks", "runs"):
        shutil.rmtree(project.mirror / name)
        project.drain()
        assert look(project.mirror) == before


def test_a_mirror_that_cannot_be_written_is_a_warning(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """The command succeeds, one sentence names the file, and the next drain writes all."""
    project.mirror.write_text("a file")
    with caplog.at_level(logging.WARNING), project.opened() as hf:
        project.work(hf)
    (record,) = caplog.records
    assert str(project.mirror) in record.message and "HOLDFAST_MIRROR=false" in record.message
    project.mirror.unlink()
    project.drain()
    assert project.json("tasks/current.json")["session_id"] == "s1"


def test_an_explicit_home_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a project there is no mirror, and a setting turns it off; status says so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with Holdfast(tmp_path / "store", durability="process") as hf:
        hf.run(survey)
        assert hf.mirror_status().directory is None and "HOLDFAST_MIRROR_DIR" in hf.mirror_status().off
    assert not (tmp_path / ".holdfast").exists()
    monkeypatch.setenv("HOLDFAST_MIRROR", "false")
    with Holdfast(durability="process") as hf:
        hf.run(survey)
    assert not (tmp_path / ".holdfast/runs").exists()
    monkeypatch.delenv("HOLDFAST_MIRROR")
    with Holdfast(durability="process") as hf:
        assert not hf.mirror_status().is_current
        hf.run(survey)
    assert len(list((tmp_path / ".holdfast/runs").glob("*.json"))) == 2
    with Holdfast(durability="process", read_only=True) as hf:
        assert hf.mirror_status().is_current


@pytest.mark.parametrize("left", ["another task", "nothing"])
def test_a_deleted_task_leaves_no_text(project: Project, left: str) -> None:
    """No file of the mirror has the text of a task that was deleted: no session that worked on it alone, no
    previous revision, and no file of a tracker that has nothing else. `undo` brings it back."""
    with project.opened() as hf:
        if left == "another task":
            project.create(hf, "t2", "Weigh wrack")
        project.author = Author("me", "s2")
        project.create(hf, "t1", "a secret plan")
        project.claim(hf, "t1")
    with project.opened() as hf:
        project.note(hf, "t1", "decision", "a secret plan, too")
    before = look(project.mirror)
    with project.opened() as hf:
        assert b"secret" in b"".join(_contents(project.mirror / "tasks/previous"))
        hf.delete("t1")
    assert not [data for data in _contents(project.mirror) if b"secret" in data]
    with project.opened() as hf:
        hf.undo()
    assert look(project.mirror).keys() == before.keys()
    with project.opened() as hf:
        hf.delete("t1")
        hf.gc()
    project.rebuild()
    assert not [data for data in _contents(project.mirror) if b"secret" in data]


def test_files_of_a_person_are_neither_removed_nor_renamed(project: Project) -> None:
    """In the directories of a mirror, too: a deletion removes previous revisions that holdfast wrote, and a
    store that begins there puts aside what another store wrote."""
    with project.opened() as hf:
        project.create(hf, "t1", "a plan")
    with project.opened() as hf:
        project.note(hf, "t1", "decision", "done")
    theirs = [
        "tasks/previous/notes.md",
        "tasks/previous/sub/notes.md",
        "tasks/todo.jsonl",
        "runs/train.jsonl",
    ]
    for name in theirs:
        (project.mirror / name).parent.mkdir(parents=True, exist_ok=True)
        (project.mirror / name).write_text("a person's")
    with project.opened() as hf:
        hf.delete("t1")
    (project.mirror / "mirror.json").unlink()
    project.rebuild()
    assert [(project.mirror / name).read_text() for name in theirs] == ["a person's"] * 4


def test_an_emptied_journal_is_not_current(project: Project) -> None:
    with project.opened() as hf:
        project.create(hf, "t1", "a plan")
    (project.mirror / "tasks/journal.jsonl").write_bytes(b"")
    with project.opened() as hf:
        assert [fault.path for fault in hf.mirror_status().faults] == ["tasks/journal.jsonl"]


def test_an_archived_run_has_no_file(project: Project) -> None:
    """A run that leaves the log leaves the mirror, with its previous revision."""
    with project.opened() as hf:
        hf.with_id("r1").run(survey)
        hf.with_id("r2").run(survey)
    project.clock.advance(timedelta(days=1))
    with project.opened() as hf:
        hf.archive(project.clock.now() - timedelta(hours=1))
    assert list((project.mirror / "runs").rglob("*.json")) == []


@pytest.mark.parametrize("how", ["archived", "deleted"])
def test_a_cursor_inside_a_run_that_is_gone(project: Project, how: str) -> None:
    """The mirror was last written in the middle of a run, which left the log since, as a task did: nothing is
    lost, nothing is kept aside, and no file has the text of either."""
    with project.opened(drains=False) as hf:
        project.create(hf, "t1", "a secret plan")
        project.create(hf, "t2", "Weigh wrack")
        project.check_off(hf, "r1")
        project.mirror_of(hf).drain()
        hf.cancel("r1")
        project.clock.advance(timedelta(days=1))
        if how == "archived":
            hf.archive(project.clock.now())
        else:
            hf.delete("r1")
        hf.delete("t1")
        hf.gc()
        known = status(hf._store, hf._reader, project.mirror)
        assert (known.shows, known.is_current) == ("own", False)
    assert project.drain().kept == ()
    assert not [data for data in _contents(project.mirror) if b"secret" in data or b"kelp" in data]


# Importing


def test_an_edited_session_is_imported(project: Project) -> None:
    """Names, texts, statuses, decisions, files and memories of an edited file: shown first, then recorded,
    and after that there is nothing more to import."""
    with project.opened() as hf:
        project.work(hf)
    file = project.mirror / "tasks/current.json"
    data = project.json("tasks/current.json")
    task = data["current_task"]
    data["completed_tasks"].append({"id": "t2", "name": "Implement feature Y", "summary": "done by hand"})
    data["completed_tasks"][0]["name"] = "Set up the project"
    task["context"]["decisions"].append("no kelp")
    task["context"]["files_modified"].append("src/tide.rs")
    task.update(name="Implement feature Y", body="as they asked", status="completed")
    data["failed_tasks"] = [{"name": "One more task", "status": "sunk"}, 7]
    data["memory"]["learned_patterns"].append("read the tide first")
    file.write_text(json.dumps(data))
    with project.opened() as hf:
        before = look(project.mirror)
        found = hf.mirror_import(file)
        assert look(project.mirror) == before and not found.applied
        assert [(one.action, one.target) for one in found.changes] == [
            ("create", ""),
            ("edit", "t2"),
            ("edit", "t1"),
            ("note", "t2"),
            ("note", "t2"),
            ("remember", ""),
            ("complete", "t2"),
        ]
        assert len(found.left) == 2
    with project.opened() as hf:
        assert hf.mirror_import(file, apply=True).applied
        done = hf.tasks.get("t2")
        assert (done.name, done.body, done.status) == ("Implement feature Y", "as they asked", "completed")
        assert hf.tasks.get("t1").name == "Set up the project"
        assert [one.text for one in hf.memory.recall(kind="pattern")] == [
            "read the tide first",
            "tests before code",
        ]
        assert [one.name for one in hf.tasks.list("pending")] == ["One more task"]
        assert hf.mirror_import(file).changes == ()
    assert kept(project) == ["current.json.edited-20300101T000010Z"]


def test_an_edited_memory_is_imported(project: Project, tmp_path: Path) -> None:
    """A changed text supersedes, a new entry is remembered, and what is missing stays."""
    with project.opened() as hf:
        project.work(hf)
    data = project.json("tasks/memory.json")
    decision = next(one for one in data["memories"] if one["id"] == "m1")
    decision["text"] = "two stores per project"
    data["memories"] = [
        decision,
        {"text": "kelp grows fast"},
        {"kind": "rumour", "text": "x"},
        {"kind": "fact"},
    ]
    file = tmp_path / "edited.json"
    file.write_text(json.dumps(data))
    with project.opened() as hf:
        found = hf.mirror_import(file, apply=True)
        texts = {one.text for one in hf.memory.recall()}
    assert texts == {"two stores per project", "kelp grows fast", "tests before code"}
    assert len(found.left) == 2


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"id": 1}', None])
def test_a_file_that_cannot_be_imported_is_refused(
    project: Project, tmp_path: Path, content: str | None
) -> None:
    """A sentence says what can be."""
    file = tmp_path / "some.json"
    if content is not None:
        file.write_text(content)
    with (
        project.opened() as hf,
        pytest.raises((BadInput, NotFound), match=r"name a|is no JSON|there is no file"),
    ):
        hf.mirror_import(file)


# Several at once


def test_processes_that_drain_at_once(project: Project) -> None:
    """Four processes write and drain: the mirror is whole, and has the events of all."""
    argv = [sys.executable, "-m", "tests.mirror.test_mirror", str(project.mirror.parent)]
    processes = [subprocess.Popen([*argv, str(number)]) for number in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    project.drain()
    lines = (project.mirror / "tasks/journal.jsonl").read_bytes().splitlines(keepends=True)
    assert None not in list(journal.read_lines(lines)) and len(set(lines)) == len(lines) == 4 * 6 * 3
    before = look(project.mirror)
    project.rebuild()
    assert look(project.mirror) == before and kept(project) == []


def _write_and_drain(directory: Path, number: int) -> None:
    project = Project(directory, session_id=f"s{number}")
    for turn in range(6):
        with project.opened() as hf:
            project.create(hf, f"t{number}-{turn}", "task")
            project.claim(hf, f"t{number}-{turn}")
            project.complete(hf, f"t{number}-{turn}")


def test_an_open_holdfast_drains_as_it_goes() -> None:
    """The thread drains when the log has changed, and not when it has not."""
    pulse, drained = [1], threading.Semaphore(0)
    thread = DrainThread("mirror", lambda: pulse[0], drained.release, every_s=0.001)
    assert drained.acquire(timeout=30)
    pulse[0] = 2
    assert drained.acquire(timeout=30)
    thread.close()
    assert not drained.acquire(blocking=False)


if __name__ == "__main__":
    _write_and_drain(Path(sys.argv[1]), int(sys.argv[2]))


def test_files_that_nobody_edited_are_replaced(tmp_path: Path) -> None:
    """After the store is another, its intact files get `.replaced-`, one that was edited gets `.edited-`.
    Those that say something new are importable; none is after all of them were imported."""
    other, project = Project(tmp_path / "other", session_id="s9"), Project(tmp_path / "own")
    with other.opened() as hf:
        other.work(hf)
    shutil.copytree(other.mirror, project.mirror)
    memory = project.mirror / "tasks/memory.json"
    memory.write_text(memory.read_text().replace("store", "shop"))
    with project.opened(drains=False) as hf:
        project.create(hf, "t5", "mine")
    project.named = False
    project.drain()
    edited = [name for name in kept(project) if ".edited-" in name]
    assert [name.partition("-")[0] for name in edited] == ["memory.json.edited"]
    assert any(name.startswith("journal.jsonl.replaced-") for name in kept(project))
    with project.opened(drains=False) as hf:
        found = status(hf._store, hf._reader, project.mirror).importable
        assert {name.partition("-")[0] for name in found} >= {"tasks/memory.json.edited"}
        for name in found:
            hf.mirror_import(project.mirror / name, apply=True)
        assert status(hf._store, hf._reader, project.mirror).importable == ()


def test_a_rebuild_counts_files_as_the_status_does(project: Project) -> None:
    with project.opened() as hf:
        project.work(hf)
        assert hf.mirror_rebuild().files == hf.mirror_status().files > 4
