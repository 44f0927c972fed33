"""`repair_store` and the mirror: numbers, a lost end of the log, lost runs, a lost store, a restore."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Holdfast, step, workflow
from holdfast.errors import BadInput, NotFound, NotTrusted, RunArchived, StoreLost
from holdfast.facade.storeless import doctor
from holdfast.store.sqlite.store import SqliteStore


@step(effect="once")
def pay(amount: int) -> int:
    return amount


@workflow
def order(amount: int) -> int:
    return pay(amount)


opened: list[Holdfast] = []


@step
def copy() -> str:
    return str(opened.pop().backup())


@workflow
def copied_in_the_middle() -> int:
    copy()
    return pay(1)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a store is to be, with a mirror."""
    monkeypatch.setenv("HOLDFAST_MIRROR_DIR", str(tmp_path / "mirror"))
    return tmp_path / "home"


def numbers(home: Path) -> dict[int, str]:
    """Number → the task or run that has it, in a store that must verify."""
    with closing(SqliteStore(home)) as store:
        assert list(store.verify()) == []
    with Holdfast(home, read_only=True) as hf:
        found = {task.number: task.name for task in hf.tasks.list()}
        return found | {run.number: run.id for run in hf.page().runs}


def test_tasks_keep_their_numbers(home: Path) -> None:
    """Rebuilt from the journal alone, tasks are numbered in the order in which they were created."""
    with Holdfast(home, durability="process") as hf:
        for n in range(12):
            hf.tasks.create(f"task {n}")
    before = numbers(home)
    (home / "holdfast.db").unlink()
    assert Holdfast.repair_store(home).ok
    assert numbers(home) == before == {n + 1: f"task {n}" for n in range(12)}


def test_tasks_behind_a_backup_keep_their_numbers(home: Path) -> None:
    """Those that only the journal has follow those of the backup, in the order of the journal."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("early").run(order, 1)
        hf.tasks.create("first")
        hf.backup()
        for n in range(8):
            hf.tasks.create(f"task {n}")
    before = numbers(home)
    (home / "holdfast.db").unlink()
    assert Holdfast.repair_store(home).ok
    assert numbers(home) == before


def test_the_feed_has_the_order_of_the_journal(home: Path) -> None:
    """Events of several streams are in the order in which they happened, not stream by stream."""
    with Holdfast(home, durability="process") as hf:
        tasks = [hf.tasks.create(f"task {n}").id for n in range(4)]
        for n, task in enumerate(reversed(tasks)):
            hf.tasks.note(task, f"note {n}")
        hf.tasks.create("last")
    before = tracker_feed(home)
    (home / "holdfast.db").unlink()
    Holdfast.repair_store(home)
    assert tracker_feed(home) == before


def tracker_feed(home: Path) -> list[tuple[str, int]]:
    with closing(SqliteStore(home)) as store:
        return [(one.stream, one.version) for one in store.feed().entries if one.stream.startswith("@task/")]


# The end of the log is lost


def lose_end(home: Path, *, code: str) -> None:
    """A process writes to the store, brings the mirror up to date and is killed; then its write-ahead log is
    deleted. What it wrote was not yet in the database file."""
    text = "import os, sys; from holdfast import Holdfast; from tests.operations import "
    text += f"test_repairing_from_mirror as t\nhf = Holdfast(sys.argv[1])\n{code}\n"
    text += "hf.mirror_rebuild(); os._exit(9)"
    done = subprocess.run([sys.executable, "-c", text, str(home)], check=False, timeout=60)
    assert done.returncode == 9
    assert (home / "holdfast.db-wal").stat().st_size
    for suffix in ("-wal", "-shm"):
        (home / f"holdfast.db{suffix}").unlink()


CREATES = "for n in range(5): hf.tasks.create(f'late {n}')"


def test_a_lost_write_ahead_log_is_damage(home: Path) -> None:
    """A database that is whole, and older than the journal that was written from it, is reported, and the
    events of the journal come back."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
    lose_end(home, code=CREATES)
    examined = Holdfast.repair_store(home, dry_run=True)
    assert not examined.ok
    assert "journal of the mirror has 5 events behind its end" in examined.findings[0].what
    report = Holdfast.repair_store(home)
    assert report.ok and report.taken["the journal journal.jsonl"] == 5
    assert numbers(home) == {1: "base"} | {n + 2: f"late {n}" for n in range(5)}
    assert Holdfast.repair_store(home).findings == ()


def test_notes_in_a_lost_write_ahead_log_come_back(home: Path) -> None:
    """Events of streams that the database has; nothing is lost, and a backup from before still counts."""
    with Holdfast(home, durability="process") as hf:
        task = hf.tasks.create("base").id
        hf.with_id("first").run(order, 1)
        hf.backup()
    lose_end(home, code=f"hf.tasks.note('{task}', 'low tide is at noon')")
    report = Holdfast.repair_store(home)
    assert report.ok and report.taken["the journal journal.jsonl"] == 1
    (home / "holdfast.db").unlink()
    assert Holdfast.repair_store(home).ok
    with closing(SqliteStore(home)) as store:
        assert "low tide is at noon" in list(store.entries(f"@task/{task}"))[-1].payload
    assert "first" in numbers(home).values()


def test_doctor_reports_a_lost_write_ahead_log(home: Path) -> None:
    """As something bad, with the command that mends it; a whole store has no such check."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
    assert [one.name for one in doctor(str(home)) if one.verdict == "bad"] == []
    lose_end(home, code=CREATES)
    (check,) = [one for one in doctor(str(home)) if one.verdict == "bad"]
    assert check.name == "integrity" and "5 events behind its end" in check.says
    assert "holdfast repair" in check.says


def test_a_lost_end_comes_back_after_the_next_write(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The command that writes first keeps the journal and says so; `mirror status` and `doctor` name it, and
    a plain repair brings its events back, also if they share no stream with the database."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("first").run(order, 1)
    lose_end(home, code=CREATES)
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("new")
        name = f"journal.jsonl.ahead-{hf._store.incarnation}"
    (said,) = [one.message for one in caplog.records]
    kept = home.with_name("mirror") / "tasks" / name
    assert said.startswith(f"the log has lost events that its journal has, which is kept as {kept}")
    assert "`holdfast repair`" in said and "mirror import" not in said
    with Holdfast(home, read_only=True) as hf:
        assert hf.mirror_status().ahead == (f"tasks/{name}",)
    (check,) = [one for one in doctor(str(home)) if one.name in ("integrity", "journal")]
    assert check.verdict == "bad" and f"the journal {name} has 5 events behind its end" in check.says
    report = Holdfast.repair_store(home)
    assert report.ok and report.taken[f"the journal {name}"] == 5
    assert sorted(numbers(home).values()) == ["first", *(f"late {n}" for n in range(5)), "new"]
    assert Holdfast.repair_store(home).findings == () and kept.exists()
    with Holdfast(home, read_only=True) as hf:
        assert hf.mirror_status().ahead == ()


@pytest.mark.parametrize("also", ["late tasks", "nothing else"])
def test_lost_events_that_do_not_fit_are_named(home: Path, also: str) -> None:
    """The same task was changed before the end was lost, and again after: the store keeps its own events, the
    journal the others, and `repair` says which. What fits comes back."""
    with Holdfast(home, durability="process") as hf:
        task = hf.tasks.create("base").id
    late = f"{CREATES}\n" if also == "late tasks" else ""
    lose_end(home, code=f"{late}for n in range(3): hf.tasks.note('{task}', f'note {{n}}')")
    with Holdfast(home, durability="process") as hf:
        hf.tasks.edit(task, name="renamed")
    (kept,) = home.with_name("mirror").glob("tasks/journal.jsonl.ahead-*")
    before = kept.read_bytes()
    report = Holdfast.repair_store(home)
    (finding,) = [one for one in report.findings if one.place == kept.name]
    assert f"its events of @task/{task} do not follow" in finding.what
    assert report.ok and report.taken.get(f"the journal {kept.name}", 0) == (5 if late else 0)
    assert sorted(numbers(home).values()) == [*(f"late {n}" for n in range(5) if late), "renamed"]
    assert kept.read_bytes() == before


def test_a_restore_leaves_a_journal_of_a_lost_end_alone(home: Path) -> None:
    """What was lost before a restore does not come back by itself after it."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
        backup = hf.backup()
    lose_end(home, code=CREATES)
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("new")
    assert list(home.with_name("mirror").glob("tasks/journal.jsonl.ahead-*"))
    Holdfast.restore_backup(backup, home)
    assert not any("behind its end" in one.what for one in Holdfast.repair_store(home).findings)
    assert numbers(home) == {1: "base"}


def test_a_mirror_that_is_behind_is_no_damage(home: Path) -> None:
    """What the database has and the mirror does not is the ordinary case."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
    mirror = home.with_name("mirror")
    shutil.copytree(mirror, home.with_name("older"))
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("late")
        hf.with_id("late").run(order, 1)
    shutil.rmtree(mirror)
    home.with_name("older").rename(mirror)
    assert Holdfast.repair_store(home, dry_run=True).findings == ()
    assert [one.name for one in doctor(str(home)) if one.verdict == "bad"] == []


def test_a_foreign_journal_is_not_the_end_of_this_log(home: Path, tmp_path: Path) -> None:
    """Lines that somebody added to the journal do not continue a stream unless their hashes do; and the
    journal of another store is not this one's, whatever it has."""
    with Holdfast(home, durability="process") as hf:
        task = hf.tasks.create("base").id
        hf.tasks.note(task, "note")
    journal = home.with_name("mirror") / "tasks" / "journal.jsonl"
    last = journal.read_bytes().splitlines(keepends=True)[-1]
    with journal.open("ab") as file:
        file.write(last.replace(b'"version":2', b'"version":3'))
    report = Holdfast.repair_store(home, dry_run=True)
    assert not any("behind its end" in one.what for one in report.findings)


def test_what_a_restore_took_away_stays_away(home: Path) -> None:
    """After a restore, neither the journal of the time before nor the one that was kept aside brings back
    what it took away; and it is not called damage."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
        backup = hf.backup()
        hf.tasks.create("taken away")
        hf.with_id("taken-away").run(order, 1)
    Holdfast.restore_backup(backup, home)
    assert not any("behind its end" in one.what for one in Holdfast.repair_store(home, dry_run=True).findings)
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("new")
    assert list(home.with_name("mirror").glob("tasks/journal.jsonl.replaced-*"))
    before = numbers(home)
    data = bytearray((home / "holdfast.db").read_bytes())
    data[0] ^= 1
    (home / "holdfast.db").write_bytes(data)
    report = Holdfast.repair_store(home)
    assert report.ok and report.kept is not None
    assert numbers(home) == before == {1: "base", 2: "new"}


def test_a_restore_makes_the_mirror_again(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It shows no session that the store does not have, and the mirror of before is not called that of
    another store."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
        backup = hf.backup()
        session = hf.sessions.start().id
    current = home.with_name("mirror") / "tasks" / "current.json"
    assert session in current.read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_MIRROR", "false")
        Holdfast.restore_backup(backup, home)
    with Holdfast(home, read_only=True) as hf:
        assert hf.mirror_status().shows == "earlier"
    Holdfast.restore_backup(backup, home)
    assert session not in current.read_text()
    (said,) = [one.message for one in caplog.records]
    assert said.startswith("the mirror is of the time before a restore or a repair of the store")
    with Holdfast(home, read_only=True) as hf:
        assert hf.mirror_status().is_current


@pytest.mark.parametrize("how", ["damaged", "deleted"])
def test_a_mirror_from_before_a_restore_brings_nothing_back(
    home: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is damaged before the mirror was written again: its journal and its runs are still those of
    the time before."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
        backup = hf.backup()
        hf.tasks.create("taken away")
        hf.with_id("taken-away").run(order, 1)
    with monkeypatch.context() as patch:
        patch.setenv("HOLDFAST_MIRROR", "false")
        Holdfast.restore_backup(backup, home)
    if how == "deleted":
        (home / "holdfast.db").unlink()
    else:
        data = bytearray((home / "holdfast.db").read_bytes())
        data[0] ^= 1
        (home / "holdfast.db").write_bytes(data)
    report = Holdfast.repair_store(home)
    assert report.ok and report.kept is not None
    assert numbers(home) == {1: "base"}


def test_a_journal_that_was_kept_aside_can_be_named(home: Path) -> None:
    """`--from` takes a journal: what only it has comes back because the user asks for it. `doctor` names the
    command."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
        backup = hf.backup()
        hf.tasks.create("taken away")
    Holdfast.restore_backup(backup, home)
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("new")
    (aside,) = home.with_name("mirror").glob("tasks/journal.jsonl.replaced-*")
    (note,) = [one.says for one in doctor(str(home)) if one.name == "journal"]
    assert note == (
        f"{aside} was kept aside with 1 event that the store does not have; "
        f"`holdfast repair --from {aside}` brings back what it has"
    )
    report = Holdfast.repair_store(home, backup=aside)
    assert report.ok and report.taken[f"the journal {aside.name}"] == 1
    assert sorted(numbers(home).values()) == ["base", "new", "taken away"]
    assert [one for one in doctor(str(home)) if one.name == "journal"] == []


def test_a_journal_from_before_a_restore_shows_no_loss(home: Path) -> None:
    """Of a task that went another way since the restore, the longer history in the journal is not lost: it
    does not fit, which is reported, and the rest comes back."""
    with Holdfast(home, durability="process") as hf:
        task = hf.tasks.create("base").id
        backup = hf.backup()
        for n in range(3):
            hf.tasks.note(task, f"note {n}")
        hf.tasks.create("taken away")
    Holdfast.restore_backup(backup, home)
    with Holdfast(home, durability="process") as hf:
        hf.tasks.edit(task, name="renamed")
    (aside,) = home.with_name("mirror").glob("tasks/journal.jsonl.replaced-*")
    report = Holdfast.repair_store(home, backup=aside)
    assert report.ok and report.lost == ()
    assert [one.place for one in report.findings] == ["holdfast.db", aside.name]
    assert sorted(numbers(home).values()) == ["renamed", "taken away"]


@pytest.mark.parametrize("proof", ["a backup", "the mirror", "nothing"])
def test_a_journal_of_another_store_is_refused_if_a_copy_disproves_it(
    home: Path, proof: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is gone, and the journal that the user names shares no event with the copies that have
    tasks: nothing is changed. If no copy has any, the user's word counts."""
    alien = home.with_name("alien")
    with monkeypatch.context() as patch:
        patch.setenv("HOLDFAST_MIRROR_DIR", str(alien / "mirror"))
        with Holdfast(alien / "home", durability="process") as hf:
            hf.tasks.create("alien")
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
        if proof == "a backup":
            hf.backup()
    (home / "holdfast.db").unlink()
    if proof != "the mirror":
        shutil.rmtree(home.with_name("mirror"))
    named = alien / "mirror" / "tasks" / "journal.jsonl"
    if proof == "nothing":
        Holdfast.repair_store(home, backup=named)
        assert numbers(home) == {1: "alien"}
    else:
        with pytest.raises(BadInput, match="is a journal of another store; nothing was changed"):
            Holdfast.repair_store(home, backup=named)
        assert not (home / "holdfast.db").exists()
        Holdfast.repair_store(home)
        assert numbers(home) == {1: "base"}


# Lost runs


def test_runs_that_only_the_mirror_shows_are_lost_by_name(home: Path) -> None:
    """Without database and backup, each run that the mirror shows is named, its id is not free, and tasks
    keep their numbers."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("r1").run(order, 1)
        hf.tasks.create("between")
        hf.with_id("r2").run(order, 2)
        hf.tasks.create("last")
    before = numbers(home)
    (home / "holdfast.db").unlink()
    report = Holdfast.repair_store(home)
    assert not report.ok
    assert [(one.stream, one.first, one.what) for one in report.lost] == [
        ("r1", 1, "run order(1)"),
        ("r2", 1, "run order(2)"),
    ]
    with Holdfast(home) as hf, pytest.raises(RunArchived, match="the history of run r1 was lost"):
        hf.with_id("r1").run(order, 1)
    after = numbers(home)
    assert after == {n: name for n, name in before.items() if name in ("between", "last")}


def test_a_run_that_the_mirror_shows_further_waits_for_a_person(home: Path) -> None:
    """A backup has its beginning only: what followed is lost, and it is not resumed as if it never was."""
    with Holdfast(home, durability="process") as hf:
        opened.append(hf)
        hf.with_id("r1").run(copied_in_the_middle)
    with closing(SqliteStore(home)) as store:
        version = len(list(store.entries("r1")))
    (home / "holdfast.db").unlink()
    report = Holdfast.repair_store(home)
    assert [(one.stream, one.last) for one in report.lost] == [("r1", version)]
    with Holdfast(home, read_only=True) as hf:
        assert hf.get("r1").status == "needs_attention"


def test_runs_in_a_lost_write_ahead_log_are_named(home: Path) -> None:
    """The mirror shows that they were there."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
    lose_end(home, code="hf.with_id('late').run(t.order, 1)")
    examined = Holdfast.repair_store(home, dry_run=True)
    assert "the mirror was written up to event" in examined.findings[0].what
    report = Holdfast.repair_store(home)
    assert [one.stream for one in report.lost] == ["late"] and not report.ok
    assert Holdfast.repair_store(home).findings == ()


def test_a_lost_end_that_no_copy_has_is_a_loss(home: Path) -> None:
    """An end of the log that neither the journal nor the files of runs show is reported as lost."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
    lose_end(home, code="hf.budgets.set('team', usd='2')")
    report = Holdfast.repair_store(home)
    assert [one.stream for one in report.lost] == ["the log"] and not report.ok
    assert Holdfast.repair_store(home).findings == ()


# The store is gone


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two tasks and a run between them; the directory of its store is deleted."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    with Holdfast(durability="process") as hf:
        hf.tasks.create("first")
        hf.with_id("r1").run(order, 1)
        hf.tasks.create("last")
    (store,) = (tmp_path / "data" / "holdfast").glob("project-*")
    shutil.rmtree(store)
    return root


def project_numbers() -> dict[int, str]:
    with Holdfast(read_only=True) as hf:
        return {task.number: task.name for task in hf.tasks.list()}


def test_a_store_that_is_gone_comes_back_from_the_mirror(project: Path) -> None:
    """`doctor` reports it, a dry run changes nothing, and `repair` rebuilds what the mirror has."""
    (check,) = [one for one in doctor() if one.verdict == "bad"]
    assert check.name == "store" and "`holdfast repair`" in check.says
    examined = Holdfast.repair_store(None, dry_run=True)
    assert not examined.ok and not examined.home.exists()
    report = Holdfast.repair_store(None)
    assert [one.stream for one in report.lost] == ["r1"]
    assert project_numbers() == {1: "first", 3: "last"}
    assert [one.name for one in doctor() if one.verdict == "bad"] == []
    assert Holdfast.repair_store(None).findings == ()


def test_no_new_store_begins_over_one_that_is_gone(project: Path) -> None:
    """Neither to write nor to read: it would begin a new mirror, and the journal could no longer be proven to
    be of this project. Nothing is made. Without the card of the mirror a new store begins, and keeps what
    the user has in `.holdfast`, and the journal."""
    skill = project / ".holdfast" / "skills" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text("mine")
    for flags in ({}, {"read_only": True}):
        with pytest.raises(
            StoreLost, match=r"XDG_DATA_HOME .* `holdfast repair` rebuilds .* or move "
        ) as lost:
            Holdfast(**flags)
    assert not list((project.parent / "data" / "holdfast").glob("project-*"))
    card = project / ".holdfast" / "mirror.json"
    assert f" {card} away" in str(lost.value)
    journal = (project / ".holdfast/tasks/journal.jsonl").read_bytes()
    card.rename(project / "old.json")
    with Holdfast() as hf:
        assert hf.tasks.list() == []
        hf.tasks.create("new")
    (kept,) = (project / ".holdfast/tasks").glob("journal.jsonl.replaced-*")
    assert (skill.read_text(), kept.read_bytes()) == ("mine", journal)


def test_a_backup_is_restored_where_the_store_is_gone(project: Path, tmp_path: Path) -> None:
    """The mirror that is left does not stop it."""
    Holdfast.repair_store(None)
    with Holdfast() as hf:
        home, backup = hf.home, hf.backup(tmp_path / "backup.db")
    shutil.rmtree(home)
    with pytest.raises(StoreLost):
        Holdfast()
    Holdfast.restore_backup(backup, None)
    assert project_numbers() == {1: "first", 3: "last"}


def test_checks_of_a_store_from_a_mirror_need_trust(project: Path) -> None:
    """The mirror's files may have come with the project: what they name is executed only if the user says
    so."""
    report = Holdfast.repair_store(None)
    assert report.ways[-1].action == "trust" and report.journaled == 2
    with Holdfast() as hf:
        home, task = hf.home, hf.tasks.create("build", checks=["true"]).id
        with pytest.raises(NotTrusted):
            hf.tasks.complete(task)
    Holdfast.trust(home)
    with Holdfast() as hf:
        assert hf.tasks.complete(task).status == "completed"


def test_a_store_from_a_backup_is_ones_own(project: Path, tmp_path: Path) -> None:
    """Nothing of it came from a journal, whatever the name of the backup: what it names is executed."""
    Holdfast.repair_store(None)
    with Holdfast() as hf:
        home, backup = hf.home, hf.backup(tmp_path / "journal.db")
    shutil.rmtree(home)
    (project / ".holdfast").rename(project / "old")
    report = Holdfast.repair_store(tmp_path / "other", backup=backup)
    assert report.journaled == 0 and report.taken.keys() == {"the backup journal.db"}
    assert not (tmp_path / "other" / "rebuilt").exists()


def test_a_journal_that_cannot_be_read_does_not_stop_doctor(home: Path, monkeypatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("holdfast.operations.repairing.lost_end.find_lost_end", refused)
    monkeypatch.setattr("holdfast.operations.repairing.lost_end.read_ahead", refused)
    with Holdfast(home) as hf:
        hf.tasks.create("first")
    assert [one.name for one in doctor(home) if one.verdict == "bad"] == []


@pytest.mark.parametrize("how", ["copied", "moved", "checked out"])
def test_a_mirror_that_came_with_the_directory_is_not_taken(
    project: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing proves that it is the user's own: the refusal names the command by which the user vouches for
    the journal."""
    if how == "copied":
        shutil.copytree(project, project.with_name("copy"))
        monkeypatch.chdir(project.with_name("copy"))
    elif how == "moved":
        project = project.rename(project.with_name("moved"))
        monkeypatch.chdir(project)
    else:
        (project / ".holdfast" / "mirror.json").chmod(0o644)
    assert [one.name for one in doctor() if one.verdict == "bad"] == []
    if how == "copied":  # a copy is a project of its own, without a store
        with pytest.raises(NotFound, match="there is no project"):
            Holdfast.repair_store(None)
        return
    journal = project / ".holdfast" / "tasks" / "journal.jsonl"
    with pytest.raises(NotFound, match=f"cannot be proven .* `holdfast repair --from {journal}`"):
        Holdfast.repair_store(None)
    assert not list((project.parent / "data" / "holdfast").glob("project-*"))
    report = Holdfast.repair_store(None, backup=journal)
    # Once a moved project is known where it is now, its mirror names the runs.
    assert [one.stream for one in report.lost] == (["r1"] if how == "moved" else [])
    assert sorted(project_numbers().values()) == ["first", "last"]


def test_a_mirror_without_tasks_still_names_the_runs(home: Path) -> None:
    """Of a store that only had runs nothing comes back; their ids are kept, and the store can be used."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("r1").run(order, 1)
    (home / "holdfast.db").unlink()
    assert [one.stream for one in Holdfast.repair_store(home).lost] == ["r1"]
    with Holdfast(home, durability="process") as hf:
        with pytest.raises(RunArchived):
            hf.with_id("r1").run(order, 1)
        hf.with_id("r2").run(order, 1)
    assert numbers(home) == {2: "r2"}


# The sentences


def test_a_file_that_is_missing_is_not_said_to_be_kept(home: Path) -> None:
    """Only a file that was there is kept beside the one that is written again."""
    with Holdfast(home, durability="process") as hf:
        hf.tasks.create("base")
    tasks = home.with_name("mirror") / "tasks"
    (tasks / "memory.json").unlink()
    (tasks / "current.json").write_text("{}")
    actions = {one.place: one.action for one in Holdfast.repair_store(home).findings}
    assert actions == {
        "tasks/memory.json": "the mirror is made again from the log",
        "tasks/current.json": "the mirror is made again from the log; the file is kept beside it",
    }


def test_the_sentences_of_a_store_that_was_gone(project: Path) -> None:
    """A dry run finds what the repair finds. Nothing was left of the store, so no sentence says that it is
    kept."""
    examined = Holdfast.repair_store(None, dry_run=True).findings[0]
    report = Holdfast.repair_store(None)
    assert report.findings[0] == examined
    assert report.kept is not None and [path.name for path in report.kept.iterdir()] == ["report.json"]
    with Holdfast() as hf, pytest.raises(RunArchived) as lost:
        hf.get("r1")
    assert str(lost.value) == (
        f"the history of run r1 was lost; {report.kept.name} has the report of the repair, and the files "
        "that were left of the store; for a new run choose another id"
    )
