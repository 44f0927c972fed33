"""`holdfast backup`: copies of the store and the way back, by the installed program."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import apsw
import pytest
from tests.acceptance.conftest import wait_until

WAITING = """
    @step
    def one(): note("one"); return 1
    @step
    def two():
        note("two")
        while not Path("go").exists(): time.sleep(0.01)
        return 2
    @workflow
    def main(): return one() + two()
"""


@pytest.fixture
def ready(cli):
    """A store with one run in it."""
    cli("run", "--id", "a", "true")
    return cli


def create(cli, *words: object) -> Path:
    return Path(cli("backup", "create", *words).out.strip())


def runs(cli) -> list[str]:
    assert "all of them hold" in cli("audit", "verify").out
    return [run["id"] for run in cli("list", "--json").json()]


def test_there_and_back(ready):
    """create prints where the copy is, list shows it, restore makes it the store and names what it keeps;
    that can be restored in turn."""
    cli = ready
    made = cli("backup", "create")
    path = Path(made.out.strip())
    assert re.fullmatch(r"holdfast-\d{8}T\d{6}Z\.db", path.name)
    assert path.parent == cli.home / "backups"
    assert re.fullmatch(r"\d+ events, with files, \d+ KB, verified\n", made.err)
    (listed,) = cli("backup", "list", "--json").json()
    assert listed == {
        "path": str(path),
        "at": listed["at"],
        "bytes": path.stat().st_size,
        "events": int(made.err.split()[0]),
        "files": True,
        "file_bytes": listed["file_bytes"],
        "ok": True,
        "fault": None,
    }
    assert re.sub(r"\D", "", listed["at"]) == re.sub(r"\D", "", path.name)
    assert path.name in cli("backup", "list").out

    cli("run", "--id", "b", "true")
    done = cli("backup", "restore", path.name).out
    assert f"restored {listed['events']} events from {path}" in done
    kept = done.split("is kept in ")[1].strip()
    assert runs(cli) == ["a"]
    cli("run", "--id", "c", "true")
    report = cli("backup", "restore", kept, "--json").json()
    assert runs(cli) == ["b", "a"]
    assert (report["home"], report["path"]) == (str(cli.home), f"{kept}/holdfast.db")
    assert Path(report["kept"], "holdfast.db").exists()


def test_without_a_command_it_creates(ready):
    """`holdfast backup` is the short form."""
    assert Path(ready("backup").out.strip()).exists()


def test_create_as_json(ready, tmp_path):
    """The same fields as in the list, and what rotation removed."""
    report = ready("backup", "create", tmp_path / "x.db", "--json").json()
    assert report["path"] == str(tmp_path / "x.db")
    assert (report["ok"], report["removed"], report["bytes"]) == (
        True,
        [],
        (tmp_path / "x.db").stat().st_size,
    )


def test_places_of_choice(ready, tmp_path):
    """A directory or a file; `list` and `restore` take them too, and nothing there is removed."""
    (tmp_path / "shelf").mkdir()
    made = [create(ready, tmp_path / "shelf") for _ in range(3)]
    ready.env["HOLDFAST_BACKUP_KEEP"] = "1"
    made.append(create(ready, "../shelf"))
    assert create(ready, tmp_path / "shelf" / "mine.db") == tmp_path / "shelf" / "mine.db"
    listed = ready("backup", "list", tmp_path / "shelf", "--json").json()
    assert {one["path"] for one in listed} == {str(path) for path in made}
    assert len(listed) == 4
    assert ready("backup", "list", "--json").json() == []
    ready("backup", "restore", "../shelf/mine.db")
    assert runs(ready) == ["a"]


def test_rotation(ready, tmp_path):
    """Of the backup directory the newest are kept, as many as the settings say; other files stay."""
    ready.env |= {"HOLDFAST_BACKUP_KEEP": "2", "HOLDFAST_BACKUP_DIR": str(tmp_path / "shelf")}
    first, second = create(ready), create(ready)
    (tmp_path / "shelf" / "mine.db").touch()
    third = ready("backup", "create")
    assert third.err.endswith("verified; removed 1 older\n")
    assert {path.name for path in (tmp_path / "shelf").iterdir()} == {
        second.name, Path(third.out.strip()).name, "mine.db",
    }  # fmt: skip
    removed = ready("backup", "create", "--json").json()["removed"]
    assert removed == [str(second)]
    assert not first.exists()


def test_a_live_owner_keeps_its_store(cli):
    """restore is refused with exit 4 and the owner's process, and changes nothing; a backup of that moment
    has the run as interrupted, and it can be resumed."""
    cli.script(WAITING)
    process = cli.start("run", "--id", "x", "flow.py:main")
    cli.wait_for_note("two")
    path = create(cli)
    refused = cli("backup", "restore", path, code=4)
    assert f"in use by the live process {process.pid} on " in refused.err
    assert not list(cli.home.glob("before-*"))
    process.kill()
    process.wait()
    done = cli("backup", "restore", path)
    assert "1 interrupted run: x; `holdfast resume x` continues" in done.err
    assert cli("list", "--status", "interrupted", "--json").json()[0]["id"] == "x"
    (cli.directory / "go").touch()
    assert cli("resume", "x").out == "3\n"
    assert cli.notes() == {"one": 1, "two": 2}
    assert runs(cli) == ["x"]


def test_a_live_owner_of_a_store_that_cannot_be_read(cli):
    """The system knows whose lock it is."""
    cli.script(WAITING)
    process = cli.start("run", "--id", "x", "flow.py:main")
    cli.wait_for_note("two")
    path = create(cli)
    (cli.home / "moved").mkdir()
    for part in cli.home.glob("holdfast.db*"):
        part.rename(cli.home / "moved" / part.name)
    (cli.home / "holdfast.db").write_text("these are my notes\n" * 500)
    assert f"in use by the live process {process.pid};" in cli("backup", "restore", path, code=4).err


def test_backups_while_runs_go_on(cli):
    """Commits wait for no backup: a run continues, and each backup is one moment of it."""
    cli.script("""
        @step
        def tick(n): return n
        @workflow
        def main():
            n = 0
            while not Path("go").exists():
                n = tick(n + 1)
                if n == 1: note("one")
            return n
    """)
    process = cli.start("run", "--id", "x", "flow.py:main")
    cli.wait_for_note("one")
    made = [cli("backup", "create", "--json").json() for _ in range(3)]
    assert process.poll() is None
    (cli.directory / "go").touch()
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert made[0]["events"] < made[1]["events"] < made[2]["events"]
    assert [one["ok"] for one in cli("backup", "list", "--json").json()] == [True] * 3
    cli("backup", "restore", made[1]["path"])
    assert runs(cli) == ["x"]


def test_a_store_that_is_lost_comes_back(ready):
    """The file is deleted, or the whole directory but for the backups elsewhere."""
    path = create(ready)
    (ready.home / "holdfast.db").unlink()
    assert ready("backup", "list", "--json").json()[0]["path"] == str(path)
    done = ready("backup", "restore", path.name)
    assert "kept" not in done.out
    assert runs(ready) == ["a"]
    elsewhere = create(ready, ready.directory / "elsewhere.db")
    shutil.rmtree(ready.home)
    ready("backup", "restore", elsewhere)
    assert runs(ready) == ["a"]


def test_a_project_of_its_own_without_a_store(ready, tmp_path):
    """restore makes the project's store where `run` would make it."""
    path = create(ready, tmp_path / "mine.db")
    del ready.env["HOLDFAST_HOME"]
    assert "no backups yet" in ready("backup", "list").err
    assert ready("backup", "list", "--json").json() == []
    ready("backup", "restore", path)
    assert runs(ready) == ["a"]
    assert "/.local/share/holdfast/" in create(ready).as_posix()


def test_a_damaged_backup_is_listed_as_such_and_refused(ready):
    """One byte is enough. The store stays as it is."""
    good, bad = create(ready), create(ready)
    data = bytearray(bad.read_bytes())
    data[len(data) // 2] ^= 1
    bad.write_bytes(data)
    listed = {Path(one["path"]): one for one in ready("backup", "list", "--json").json()}
    assert (listed[good]["ok"], listed[bad]["ok"]) == (True, False)
    assert "damaged" in listed[bad]["fault"]
    assert re.search(rf"{bad.name}  damaged", ready("backup", "list").out)
    assert "nothing was changed" in ready("backup", "restore", bad.name, code=8).err
    assert not list(ready.home.glob("before-*"))
    assert runs(ready) == ["a"]


def test_bad_input(ready, tmp_path):
    """One sentence, the right code, nothing made and nothing lost."""
    path = create(ready)
    (tmp_path / "notes.txt").write_text("my notes")
    db = apsw.Connection(str(tmp_path / "theirs.db"))
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    shutil.copy(path, tmp_path / "newer.db")
    db = apsw.Connection(str(tmp_path / "newer.db"))
    db.execute("PRAGMA user_version=999")
    db.close()
    os.truncate(tmp_path / "newer.db", path.stat().st_size - 56)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words, code, says in [
        (["create", ready.home / "holdfast.db"], 2, "belongs to the store itself"),
        (["create", ready.home / "holdfast.db", "--force"], 2, "belongs to the store itself"),
        (["create", tmp_path / "notes.txt"], 2, "--force"),
        (["create", "/dev/null"], 2, "no regular file"),
        (["create", ""], 2, "is empty"),
        (["create", "not/there"], 3, "no directory"),
        (["create", "there/"], 3, "no directory"),
        (["create", "x" * 300], 8, "File name too long"),
        (["create", "a", "b"], 2, "unexpected extra argument"),
        (["list", "nowhere"], 3, "no directory nowhere"),
        (["restore"], 2, "missing argument 'FILE'"),
        (["restore", ""], 3, "no backup ''"),
        (["restore", "nowhere.db"], 3, "no backup 'nowhere.db'"),
        (["restore", path.name[:-5]], 3, f"nearest: {path.name}"),
        (["restore", "x" * 300], 8, "File name too long"),
        (["restore", ready.home / "holdfast.db"], 2, "the store itself"),
        (["restore", "/dev/null"], 2, "no regular file"),
        (["restore", tmp_path], 2, "no regular file"),
        (["restore", tmp_path / "notes.txt"], 8, "no backup of holdfast"),
        (["restore", tmp_path / "theirs.db"], 8, "no backup of holdfast"),
        (["restore", tmp_path / "newer.db"], 8, "newer holdfast"),
        (["destroy"], 2, "there is no command"),
    ]:
        result = ready("backup", *words, code=code)
        assert says in result.err, words
        assert len(result.err.splitlines()) == 1, words
        assert result.out == "", words
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {p: b for p, b in after.items() if p in before} == before
    assert {path.name for path in after.keys() - before.keys()} <= {"holdfast.db-shm", "holdfast.db-wal"}
    assert "no store" in ready("--home", tmp_path / "void", "backup", "create", code=3).err


def test_a_full_disk(ready, tmp_path):
    """Exit 8, a sentence, no file; the store continues."""
    point = tmp_path / "small"
    point.mkdir()
    script = f"""
        mount -t tmpfs -o size=256k small {point} || exit 99
        HOLDFAST backup create {point} || exit 98
        dd if=/dev/zero of={point}/filler bs=1k count=250 2>/dev/null
        HOLDFAST backup create {point}; echo "code $?"
        ls -A {point} | wc -l
        HOLDFAST run --id b true && HOLDFAST audit verify
    """
    program = " ".join(ready.argv())
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script.replace("HOLDFAST", program)],
        cwd=ready.directory, env=ready.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert "no room on the disk of" in done.stderr
    assert "nothing was changed" in done.stderr
    assert "Traceback" not in done.stderr
    assert "code 8\n2\n" in done.stdout
    assert "all of them hold" in done.stdout


@pytest.mark.parametrize("words", [("backup", "create"), ("backup", "restore", "first.db")])
def test_killed_at_any_time(ready, words):
    """kill -9 from outside, wherever it is by then: the store is the old one or the new one, and no half
    backup has a name."""
    create(ready, ready.home / "backups-first.db")
    (ready.home / "backups").mkdir()
    shutil.move(ready.home / "backups-first.db", ready.home / "backups" / "first.db")
    ready.script(
        "@step\ndef big(n): return 'x' * 20_000\n@workflow\ndef main():\n    for n in range(200): big(n)"
    )
    ready("run", "--id", "b", "flow.py:main")
    for after_ms in (150, 200, 250, 300, 400):
        process = ready.start(*words)
        try:
            process.wait(after_ms / 1000)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        assert runs(ready) in (["b", "a"], ["a"])
        assert all(one["ok"] for one in ready("backup", "list", "--json").json())
    ready("backup", "create")
    assert not list((ready.home / "backups").glob(".*"))


def test_on_start(cli):
    """With `backup_on_start` the store is backed up when runs are to be executed, if it has changed."""
    cli.env["HOLDFAST_BACKUP_ON_START"] = "true"
    cli("run", "--id", "a", "true")
    assert cli("backup", "list", "--json").json() == []  # there was nothing yet
    cli("run", "--id", "b", "true")
    assert len(cli("backup", "list", "--json").json()) == 1
    cli("list")
    cli("run", "--id", "b", "true")
    cli("run", "--id", "b", "true")  # it has ended: nothing was added by either
    assert len(cli("backup", "list", "--json").json()) == 2
    (newest, _) = cli("backup", "list", "--json").json()
    assert newest["ok"]
    cli("backup", "restore", newest["path"])
    assert runs(cli) == ["b", "a"]


def test_on_start_says_what_is_wrong(ready):
    """A backup that was asked for and cannot be made stops the start, and nothing has begun."""
    ready.env |= {"HOLDFAST_BACKUP_ON_START": "1", "HOLDFAST_BACKUP_DIR": "/dev/null/x"}
    assert "/dev/null/x cannot be used" in ready("run", "--id", "b", "true", code=8).err
    assert runs(ready) == ["a"]


def test_from_python(cli):
    """`hf.backup()` while a run continues, in a loop under `hf.aio`; after close it says so."""
    cli.script("""
        import asyncio
        from holdfast import errors

        @step
        def one(): return 1
        @workflow
        def main():
            one()
            return str(hf.backup("inside.db"))
        @workflow
        async def amain(): return await one.aio()

        if __name__ == "__main__":
            with Holdfast() as hf:
                print(hf.run(main))
                print(hf.backup())
                try:
                    hf.backup("flow.py")
                except errors.BadInput as error:
                    print(error)
            try:
                hf.backup()
            except errors.StoreClosed as error:
                print(type(error).__name__)

            async def loop():
                async with Holdfast() as hf:
                    await hf.start(amain)
                    try:
                        hf.backup()
                    except errors.WrongColour as error:
                        print(error)
                    print(await hf.aio.backup("flow.py", force=True))
            asyncio.run(loop())
    """)
    done = subprocess.run(
        [cli.python, "flow.py"], cwd=cli.directory, env=cli.env, capture_output=True, text=True, check=True
    )
    inside, default, refused, closed, colour, forced = done.stdout.splitlines()
    assert inside == str(cli.directory / "inside.db")
    assert default.startswith(str(cli.home / "backups"))
    assert "overwrite it with --force" in refused
    assert closed == "StoreClosed"
    assert "await hf.aio.backup(...)" in colour
    assert forced == str(cli.directory / "flow.py")
    cli("backup", "restore", "inside.db")
    assert [run["status"] for run in cli("list", "--json").json()] == ["running"]


def test_progress_shows_on_a_terminal_only(ready):
    """What was drawn is gone at the end; a pipe gets no part of it."""
    code, written = ready.on_a_terminal("backup", "create")
    assert code == 0
    assert "copying 100 %" in written and "checking" in written
    assert "\x1b[K" in written
    result = ready("backup", "create")
    assert "copying" not in result.err and "\x1b" not in result.out + result.err


def test_doctor_knows_the_newest_backup(ready):
    """None yet, and how old and large the newest one is."""

    def says() -> str:
        checks = json.loads(ready("doctor", "--json").out)["checks"]
        return next(check["says"] for check in checks if check["name"] == "backups")

    assert "none yet" in says()
    create(ready)
    assert re.fullmatch(rf"the newest (just now|\d+ s ago), \d+ KB; 1 in {ready.home}/backups", says())


# Files


COMMITTING = """
    @workflow
    def main():
        command(["sh", "-c", "echo run > a; head -c 3000000 /dev/urandom > large"], name="first")
        checkpoint("drafted")
        command(["sh", "-c", "echo BAD > a; rm large"], name="agent")
        return 1
"""


def worked(cli) -> tuple[str, bytes]:
    """A run that changed files, small and large; as they were at its checkpoint."""
    cli.script(COMMITTING)
    cli("run", "--id", "r", "flow.py:main")
    cli("rewind", "r", "--to", "drafted")
    found = (cli.directory / "a").read_text(), (cli.directory / "large").read_bytes()
    cli("undo")
    assert not (cli.directory / "large").exists()
    return found


def in_a_new_home(cli, tmp_path: Path) -> None:
    cli.env["HOLDFAST_HOME"] = str(tmp_path / "another")


def test_a_backup_is_whole(cli, tmp_path):
    """Restored into a new home, files go back, byte for byte; the old home is not needed."""
    at_checkpoint = worked(cli)
    made = cli("backup", "create", str(tmp_path / "copy.db"), "--json").json()
    assert made["files"] is True and made["file_bytes"] > 3_000_000
    in_a_new_home(cli, tmp_path)
    cli.home.rename(tmp_path / "gone")
    restored = cli("backup", "restore", str(tmp_path / "copy.db"))
    assert "no files" not in restored.err
    assert not list((tmp_path / "another" / "workspace").glob("import-*"))
    cli("workspace", "verify")
    cli("audit", "verify")
    cli("rewind", "r", "--to", "drafted")
    assert ((cli.directory / "a").read_text(), (cli.directory / "large").read_bytes()) == at_checkpoint


def test_a_backup_without_files_says_so(cli, tmp_path):
    """When it is made, listed and restored, and where a rewind needs them; a whole one mends that."""
    worked(cli)
    made = cli("backup", "create", "--without-files")
    assert "without files" in made.err
    assert "without files" in cli("backup", "list").out
    assert cli("backup", "list", "--json").json()[0]["files"] is False
    whole = cli("backup", "create", str(tmp_path / "whole.db")).out.strip()
    in_a_new_home(cli, tmp_path)
    assert "holds no files" in cli("backup", "restore", made.out.strip()).err
    refused = cli("rewind", "r", "--to", "drafted", code=3)
    assert "which holds no files" in refused.err and "--no-files" in refused.err
    cli("backup", "restore", whole)
    cli("rewind", "r", "--to", "drafted")
    assert (cli.directory / "a").read_text() == "run\n"


def test_backups_without_files_by_a_setting(cli):
    worked(cli)
    assert "without files" in cli("backup", "create", HOLDFAST_BACKUP_FILES="false").err


def test_a_kept_store_still_has_its_files(cli):
    """A store that a restore kept is restored in turn: its files are where they were."""
    worked(cli)
    made = create(cli)
    kept = cli("backup", "restore", made, "--json").json()["kept"]
    assert "no files" not in cli("backup", "restore", kept).err
    cli("rewind", "r", "--to", "drafted")
    assert (cli.directory / "a").read_text() == "run\n"


def kept_aside(cli) -> str:
    """The directory of a store with a run that changed files, after a backup of before was restored."""
    cli("run", "--id", "before", "true")
    made = create(cli)
    worked(cli)
    kept: str = cli("backup", "restore", made, "--json").json()["kept"]
    assert runs(cli) == ["before"]
    return kept


def test_gc_keeps_the_files_of_a_kept_store(cli):
    """They are there until the kept store is removed, and `du` shows what they take."""
    kept = kept_aside(cli)
    assert "0 contents are needed by no snapshot" in cli("gc", "--dry-run").out
    assert cli("gc", "--json").json()["removed"] == 0
    usage = cli("du", "--json").json()
    assert usage["kept"] > 3_000_000 > usage["files"]
    assert "a restore kept" in cli("du").out
    assert cli("backup", "restore", kept, "--json").json()["files"] is True
    cli("workspace", "verify")
    cli("rewind", "r", "--to", "drafted")
    assert (cli.directory / "a").read_text() == "run\n"


def test_gc_removes_the_files_of_a_kept_store_with_it(cli):
    shutil.rmtree(kept_aside(cli))
    assert cli("gc", "--json").json()["freed"] > 3_000_000
    assert cli("du", "--json").json()["kept"] == 0


def test_a_quota_leaves_a_kept_store_alone(cli):
    """It neither takes its files, nor takes those of other runs because of them."""
    kept = kept_aside(cli)
    (cli.directory / "small").write_text("x")
    tight = {"HOLDFAST_WORKSPACE_QUOTA_MB": "1"}
    for name in ("r2", "r3"):
        cli("run", "--id", name, "sh -c 'date +%N > small'", **tight)
    done = cli("gc", "--json", **tight).json()
    assert (done["forgotten"], done["over"]) == ([], 0)
    cli("rewind", "r2", "--to", "start")
    cli("backup", "restore", kept)
    cli("rewind", "r", "--to", "drafted")


def test_a_kept_store_whose_files_are_gone_says_so(cli):
    """When it is restored, and where a rewind needs them; a kept store of another home is one such."""
    kept = kept_aside(cli)
    shutil.rmtree(cli.home / "workspace")
    result = cli("backup", "restore", kept)
    assert "holds no files" in result.err
    refused = cli("rewind", "r", "--to", "drafted", code=3)
    assert f"the backup {Path(kept).name}, which holds no files" in refused.err


def test_a_kept_store_of_another_home_has_no_files_here(cli, tmp_path):
    kept = kept_aside(cli)
    in_a_new_home(cli, tmp_path)
    assert cli("backup", "restore", kept, "--json").json()["files"] is False


def test_a_backup_without_files_where_they_still_are(cli):
    """Nothing is missing, so nothing is said."""
    worked(cli)
    made = create(cli, "--without-files")
    assert "no files" not in cli("backup", "restore", made).err
    cli("rewind", "r", "--to", "drafted")


def test_gc_beside_a_kept_store_that_is_damaged(cli):
    """It cannot be restored, and keeps nothing from being collected; it stays as it is."""
    database = Path(kept_aside(cli)) / "holdfast.db"
    data = database.read_bytes()
    for damage in (data[:4096] + bytes(len(data) - 4096), bytes(100), b""):
        database.write_bytes(damage)
        cli("gc")
        assert database.read_bytes() == damage
    assert [path.name for path in database.parent.iterdir()] == ["holdfast.db"]


def test_gc_reads_the_write_ahead_log_of_a_kept_store(cli):
    """Somebody has the old store open: what is only in its log counts, and stays where it is."""
    database = Path(kept_aside(cli)) / "holdfast.db"
    db = apsw.Connection(str(database))
    events = list(db.execute("SELECT * FROM events"))
    db.execute("DELETE FROM events; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA wal_autocheckpoint=0")
    db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", events)
    log = database.with_name("holdfast.db-wal")
    before = log.read_bytes()
    assert cli("gc", "--json").json()["removed"] == 0
    assert log.read_bytes() == before != b""
    db.close()


def test_a_stray_file_among_the_saved_ones(cli, tmp_path):
    """It is not ours, and in no backup; the backup can be restored, and nothing else stumbles over it."""
    worked(cli)
    saved = cli.home / "workspace"
    (large,) = (saved / "large").glob("??/*")
    for stray in (
        *(large.parent / ".nfs0000001", large.parent / "note.zst", large.with_suffix(".zst~")),
        *(
            saved / "large" / "zz" / large.name,
            saved / "packs" / "copy of.pack",
            saved / "packs" / ".DS_Store",
        ),
    ):
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"not a content")
    made = create(cli, tmp_path / "copy.db")
    for words in (("du",), ("gc",), ("workspace", "verify")):
        cli(*words)
    in_a_new_home(cli, tmp_path)
    cli("backup", "restore", made)
    cli("workspace", "verify")
    cli("rewind", "r", "--to", "drafted")


def test_two_restores_at_once(cli, tmp_path):
    """One waits for the other: neither takes away what the other one has unpacked."""
    worked(cli)
    made = create(cli, tmp_path / "copy.db")
    for n in range(3):
        cli.env["HOLDFAST_HOME"] = str(tmp_path / f"home-{n}")
        both = [cli.start("backup", "restore", made) for _ in range(2)]
        for one in both:
            _, told = one.communicate(timeout=60)
            assert one.returncode == 0, told
        cli("workspace", "verify")
        cli("rewind", "r", "--to", "drafted")


def test_gc_removes_what_a_killed_restore_left(cli):
    worked(cli)
    left = cli.home / "workspace" / "import-killed" / "packs"
    left.mkdir(parents=True)
    (left / f"{'0' * 32}.pack").write_bytes(b"x")
    cli("gc")
    assert not left.parent.exists()


def test_backups_while_commands_save_files(cli, tmp_path):
    """Each one, made while runs save files and gc sweeps, holds every file that its log names."""
    cli.script(
        """
    @workflow
    def main(n: int):
        for i in range(n):
            command(["sh", "-c", f"head -c 20000 /dev/urandom > f{i % 7}"], key=str(i))
        return n
    """
    )
    run = cli.start("run", "--id", "r", "flow.py:main", "60")
    made = []
    while run.poll() is None and len(made) < 4:
        wait_until(lambda: run.poll() is not None or (cli.home / "workspace").is_dir(), "files")
        made.append(create(cli, tmp_path / f"copy-{len(made)}.db"))
        cli("gc")
    run.communicate(timeout=60)
    assert made
    for number, path in enumerate(made):
        cli.env["HOLDFAST_HOME"] = str(tmp_path / f"home-{number}")
        cli("backup", "restore", path)
        cli("workspace", "verify")


def test_a_flipped_bit_in_the_files_is_refused(cli, tmp_path):
    worked(cli)
    path = create(cli, tmp_path / "copy.db")
    with path.open("r+b") as file:
        file.seek(-1_000_000, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1_000_000, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    in_a_new_home(cli, tmp_path)
    assert "damaged" in cli("backup", "restore", path, code=8).err
    assert not (tmp_path / "another").exists()


def test_a_file_that_was_damaged_before_the_backup_is_named(cli, tmp_path):
    """It keeps neither the backup nor the restore from being made: all else is there."""
    worked(cli)
    (large,) = (cli.home / "workspace" / "large").glob("??/*")
    large.chmod(0o600)
    with large.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"damage")
    path = create(cli, tmp_path / "copy.db")
    in_a_new_home(cli, tmp_path)
    assert "damaged" in cli("backup", "restore", path).err
    assert cli("workspace", "verify", code=8)
    cli("rewind", "r", "--to", "drafted", "--partial")
    assert (cli.directory / "a").read_text() == "run\n"


def test_a_restore_with_files_that_is_killed(cli, tmp_path):
    """At any time: the next one does it all, and nothing of the first is left."""
    worked(cli)
    path = create(cli, tmp_path / "copy.db")
    in_a_new_home(cli, tmp_path)
    for n in range(8):
        restoring = cli.start("backup", "restore", path)
        time.sleep(0.15 + 0.05 * n)
        restoring.kill()
        restoring.communicate()
    cli("backup", "restore", path)
    assert not list((tmp_path / "another" / "workspace").glob("import-*"))
    cli("workspace", "verify")
    cli("rewind", "r", "--to", "drafted")
