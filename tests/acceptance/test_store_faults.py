"""A store that cannot be used: exit 8, one sentence, and nothing made worse."""

from __future__ import annotations

import shutil
import subprocess
import sys

import apsw
import pytest


def execute(cli, *statements: str) -> None:
    db = apsw.Connection(str(cli.home / "holdfast.db"))
    for statement in statements:
        db.execute(statement)
    db.close()


def damage(cli) -> None:
    """Overwrite the middle of the file, every page but the first ones."""
    path = cli.home / "holdfast.db"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x55" * (len(data) - 4096)
    path.write_bytes(data)


def not_a_database(cli) -> None:
    (cli.home / "holdfast.db").write_text("these are my notes\n" * 500)


def foreign(cli) -> None:
    (cli.home / "holdfast.db").unlink()
    execute(cli, "CREATE TABLE theirs (x)")


def newer(cli) -> None:
    execute(cli, "PRAGMA user_version=999")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (damage, "damaged"),
        (not_a_database, "not a database"),
        (foreign, "another program"),
        (newer, "newer holdfast"),
    ],
)
def test_every_command_says_what_is_wrong(cli, spoil, says):
    """Whatever is wrong with the file, every command names it and exits with 8; the file stays as it is."""
    cli("run", "--id", "x", "true")
    spoil(cli)
    before = (cli.home / "holdfast.db").read_bytes()
    for words in (("list",), ("show", "x"), ("run", "true"), ("resume", "x"), ("audit", "verify")):
        assert says in cli(*words, code=8).err, words
    assert says in cli("doctor", code=8).out
    assert (cli.home / "holdfast.db").read_bytes() == before


def test_changed_event_is_found(cli):
    """An event changed behind holdfast's back is named by audit verify and refused by show and resume."""
    cli("run", "--id", "x", "true")
    cli("run", "--id", "y", "true")
    assert "all of them hold" in cli("audit", "verify").out
    execute(
        cli,
        "UPDATE events SET payload = replace(payload, 'true', 'rm') "
        "WHERE version = 1 AND stream = (SELECT id FROM streams WHERE name = 'x')",
    )
    found = cli("audit", "verify", code=8)
    assert "x version 1" in found.out
    assert not [line for line in found.out.splitlines() if line.startswith("fault y")]
    report = cli("audit", "verify", "--json", code=8).json()
    assert report["ok"] is False
    assert report["faults"][0] == {"stream": "x", "version": 1, "what": report["faults"][0]["what"]}
    assert "does not verify" in cli("show", "x", code=8).err


def test_tables_are_made_again(cli):
    """Tables that do not match the log are found, and `repair --rebuild` makes them again."""
    cli("run", "--id", "x", "true")
    execute(cli, "UPDATE runs SET status = 'failed'")
    assert "repair --rebuild" in cli("audit", "verify", code=8).out
    assert "match" in cli("repair", "--rebuild").out
    assert cli.status("x") == "completed"
    assert cli("audit", "verify").code == 0


def test_store_deleted_under_a_run(cli):
    """A store that is deleted while a run continues: the run stops with exit 8 and says so."""
    cli.script("""
        @step
        def one():
            note("one")
            while not Path("go").exists(): time.sleep(0.01)
        @workflow
        def main(): one()
    """)
    process = cli.start("run", "--id", "x", "flow.py:main")
    cli.wait_for_note("one")
    shutil.rmtree(cli.home)
    (cli.directory / "go").touch()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 8
    assert "deleted, replaced or emptied" in err
    assert "Traceback" not in err


def without_powers(cli, *words: object) -> subprocess.Popen[str]:
    """A command for which modes count, even if root starts it."""
    drop = "ctypes.CDLL(None).prctl(24, {}, 0, 0, 0)"  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    code = f"import ctypes, os, sys; {drop.format(1)}; {drop.format(2)}; os.execv(sys.argv[1], sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, *cli.argv(*words)],
        cwd=cli.directory, env=cli.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_store_that_nobody_may_look_at(cli):
    """Mode 000 under a live run: it and what comes later end with exit 8 and say why; then it continues."""
    cli.script("""
        @step
        def one():
            note("one")
            while not Path("go").exists(): time.sleep(0.01)
        @workflow
        def main(): one()
    """)
    live = without_powers(cli, "run", "--id", "x", "flow.py:main")
    cli.wait_for_note("one")
    cli.home.chmod(0)
    try:
        (cli.directory / "go").touch()
        for process in (live, without_powers(cli, "list")):
            _, err = process.communicate(timeout=20)
            assert (process.returncode, "Permission denied" in err, "Traceback" in err) == (8, True, False)
    finally:
        cli.home.chmod(0o700)
    assert cli("resume", "x").code == 0


def in_a_mount(cli, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which the home is a small disk of its own; skips where that is not allowed."""
    prologue = f"mount -t tmpfs -o size=1m,mode=0700 small {cli.home} || exit 99\n"
    program = " ".join(cli.argv())
    cli.home.mkdir(exist_ok=True)
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", prologue + script.replace("HOLDFAST", program)],
            cwd=cli.directory, env=cli.env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert "Traceback" not in done.stderr
    return done


def test_full_disk(cli):
    """On a full disk a run is refused with exit 8 and what to do; with room again it works."""
    cli.script("@step\ndef big(): return 'x' * 300_000\n@workflow\ndef main(): return len(big())")
    done = in_a_mount(
        cli,
        f"""
        HOLDFAST run --id a true || exit 98
        left=$(df -k --output=avail {cli.home} | tail -1)
        dd if=/dev/zero of={cli.home}/filler bs=1k count=$((left - 100)) 2>/dev/null
        HOLDFAST run --id b flow.py:main; echo "code $?"
        rm {cli.home}/filler
        HOLDFAST resume b; echo "after $?"
        HOLDFAST audit verify
        """,
    )
    assert "code 8" in done.stdout
    assert "no room left" in done.stderr
    assert "after 0" in done.stdout
    assert "all of them hold" in done.stdout


def test_a_pause_names_the_full_disk_that_stopped_a_child(cli):
    """The disk is full for a child run while its parent is being paused: `run` and `resume` report the
    pause, and the store's error with what to do."""
    cli.script("""
        import shutil, subprocess, sys
        from holdfast.engine.execution.scope import live_runs
        @step
        def big():
            if Path("go").exists():
                return 1
            subprocess.run([sys.executable, "-m", "holdfast", "pause", "x", "--timeout", "0"])
            parent = next(one for one in live_runs if one.id == "x")
            until = time.monotonic() + 30
            while parent.control is None and time.monotonic() < until:
                time.sleep(0.01)
            home = Path(os.environ["HOLDFAST_HOME"])
            (home / "filler").write_bytes(bytes(shutil.disk_usage(home).free - 100_000))
            return "x" * 300_000
        @workflow
        def child(): return big()
        @workflow
        def main(): return child()
    """)
    done = in_a_mount(
        cli,
        f"""
        HOLDFAST run --id x flow.py:main 2> run.txt; echo "run $?"
        rm {cli.home}/filler
        HOLDFAST resume x 2> resume.txt; echo "resume $?"
        rm {cli.home}/filler
        touch go
        HOLDFAST resume x; echo "after $?"
        """,
    )
    assert [line for line in done.stdout.splitlines() if " " in line] == ["run 7", "resume 7", "after 0"]
    for name in ("run.txt", "resume.txt"):
        (line,) = [one for one in (cli.directory / name).read_text().splitlines() if "is paused" in one]
        assert "a run below it was stopped: no room left for the store" in line, line
        assert line.endswith("free some space and resume")


def test_read_only_disk(cli):
    """On a read-only disk commands that write are refused with exit 8."""
    done = in_a_mount(
        cli,
        f"""
        HOLDFAST run --id a true || exit 98
        mount -o remount,ro {cli.home}
        HOLDFAST run --id b true; echo "run $?"
        HOLDFAST resume a; echo "resume $?"
        """,
    )
    assert "run 8" in done.stdout
    assert "cannot be written" in done.stderr or "read-only" in done.stderr


def test_doctor_on_a_healthy_store(cli):
    """doctor names the store, its size, SQLite, the disk and the owners, and exits 0."""
    cli("run", "true")
    checks = {check["name"]: check for check in cli("doctor", "--json").json()["checks"]}
    assert set(checks) >= {"holdfast", "settings", "disk", "integrity", "store", "sqlite", "owners", "runs"}
    assert all(check["verdict"] == "good" for check in checks.values())
    assert str(cli.home / "holdfast.db") in checks["store"]["says"]
