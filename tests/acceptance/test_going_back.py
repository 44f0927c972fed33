"""Rewind, undo, fork, replay, checkpoints and archive from the command line, also when they are killed."""

from __future__ import annotations

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.operations import archiving
from holdfast.store.port import Decision, NewEvent
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import perform

FLOW = """
    @step
    def work(n):
        note(f"{idempotency_key()}")
        return n
    @step(effect="once")
    def pay(n):
        note(f"{idempotency_key()}")
        return n
    @workflow
    def main(): return [work(1), work(2), pay(3), work(4)]
"""


@contextmanager
def opened(cli) -> Iterator[SqliteStore]:
    store = SqliteStore(cli.home)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def ran(cli):
    cli.script(FLOW)
    cli("run", "--id", "r", "flow.py:main")
    (cli.directory / "side.txt").unlink()
    return cli


def test_rewind_resume_undo(ran):
    """Exactly the steps after the point run again, with new keys; undo brings the old generation back; the
    log keeps everything; a `once` step after the point needs --rerun-once."""
    before = ran("show", "r", "--events", "--json").json()
    planned = ran("rewind", "r", "--to", "work#1", "--dry-run", "--json").json()
    assert (planned["again"], planned["once"], planned["operation"]) == (
        ["work#2", "pay#1", "work#3"], ["pay#1"], None,
    )  # fmt: skip
    refused = ran("rewind", "r", "--to", "work#1", code=2)
    assert "pay#1" in refused.err and "--rerun-once" in refused.err
    assert ran("show", "r", "--events", "--json").json() == before
    told = ran("rewind", "r", "--to", "work#1", "--rerun-once").out
    assert "run r was rewound to work#1" in told and "holdfast resume r" in told
    assert ran.status("r") == "paused"
    assert ran("resume", "r").out.strip() == "[1,2,3,4]"
    assert ran.notes() == {"r:1:work#2": 1, "r:1:pay#1": 1, "r:1:work#3": 1}
    assert "is completed again" in ran("undo").out
    after = ran("show", "r", "--events", "--json").json()
    assert (after["steps"], after["result"], after["status"]) == (
        before["steps"], before["result"], "completed",
    )  # fmt: skip
    assert after["events"][: len(before["events"])] == before["events"]
    kinds = [event["type"] for event in after["events"]]
    assert (kinds.count("Rewound"), kinds.count("GenerationRestored")) == (1, 1)
    operations = ran("op", "log", "--json").json()
    assert [(one["kind"], one["stands"]) for one in operations] == [("undo", True), ("rewind", False)]
    assert operations[0]["undoes"] == operations[1]["id"]
    ran("audit", "verify")


def test_durations_after_rewind_and_undo(ran):
    """Rewound, a run has not ended; when that is undone, it ended when it did, and took as long as it did."""
    before = ran("show", "r", "--json").json()
    took = ran("show", "r").out.partition("completed in ")[2].partition("\n")[0]
    ran("rewind", "r", "--to", "work#1", "--rerun-once")
    assert ran("show", "r", "--json").json()["completed_at"] is None
    ran("undo", "--rerun-once")
    after = ran("show", "r", "--json").json()
    assert after["completed_at"] == before["completed_at"] < after["updated_at"]
    assert f"completed in {took}\n" in ran("show", "r").out
    (row,) = ran("list", "--json").json()
    assert row["completed_at"] == before["completed_at"]
    assert ran("stats", "--json").json()["durations"]["max_s"] < 1


def test_redo_takes_the_last_undo_back(ran):
    """The rewind is there again. Without an undo that stands there is nothing to redo."""
    me = getpass.getuser()
    assert f"nothing to redo: user {me} has undone nothing; " in ran("redo", code=3).err
    ran("rewind", "r", "--to", "work#1", "--rerun-once")
    assert f"nothing to redo: user {me} has undone nothing; " in ran("redo", code=3).err
    ran("undo", "--rerun-once")
    assert ran("redo", "--rerun-once", "--dry-run", "--json").json()["operation"] is None
    assert ran("redo", "--rerun-once", "--json").json()["kind"] == "undo"
    assert ran.status("r") == "paused"
    assert f"nothing to redo: the last undo of user {me} was itself undone; " in ran("redo", code=3).err


def test_checkpoints_of_generations_that_were_left(cli):
    """They are listed and marked; those that a generation has taken over are there once."""
    cli.script('@workflow\ndef main(): checkpoint("a"); checkpoint("b", n=1); checkpoint("c")')
    cli("run", "--id", "r", "flow.py:main")
    cli("rewind", "r", "--to", "a")
    listed = cli("checkpoints", "r", "--json").json()
    assert [(one["key"], one["live"], one["generation"]) for one in listed] == [
        ("a#1", True, 0), ("b#1", False, 0), ("c#1", False, 0),
    ]  # fmt: skip
    told = cli("checkpoints", "r")
    assert [line.split()[0] for line in told.out.splitlines() if "generation 0, which was left" in line] == [
        "b#1", "c#1",
    ]  # fmt: skip
    assert "--to 'a#1'` goes back to the last one" in told.err
    cli("resume", "r")
    listed = cli("checkpoints", "r", "--json").json()
    assert [(one["key"], one["live"], one["generation"]) for one in listed[3:]] == [
        ("b#1", True, 1), ("c#1", True, 1),
    ]  # fmt: skip


def test_resume_names_the_last_checkpoint(cli):
    """With how many steps are done, and where it continues."""
    cli.script(
        """
        @step
        def work(n):
            if n == 2 and not Path("go").exists(): raise RuntimeError("not yet")
        @workflow
        def main(): work(1); checkpoint("first"); checkpoint("after-work"); work(2)
        """
    )
    cli("run", "--id", "r", "flow.py:main", code=1)
    (cli.directory / "go").touch()
    told = cli("resume", "r").err.splitlines()[0]
    assert "the last checkpoint is after-work#1 (just now), work#2 is tried again" in told


def test_a_run_that_executes_is_not_rewound(cli, wait_until):
    """Exit code 4, and the process is named."""
    cli.script(
        """
        @step
        def work(n):
            note(f"work {n}")
            if n == 2: time.sleep(60)
        @workflow
        def main(): return [work(1), work(2)]
        """
    )
    process = cli.start("run", "--id", "r", "flow.py:main")
    cli.wait_for_note("work 2")
    held = cli("rewind", "r", "--to", "work#1", code=4)
    assert str(process.pid) in held.err
    assert cli("rewind", "r", "--to", "work#1", "--dry-run").code == 0
    process.kill()
    process.wait()
    assert cli("rewind", "r", "--to", "work#1", "--json").json()["generation"] == 1


def test_fork(ran):
    """The new run has what came before the step, and does the rest; at no such step: the nearest."""
    made = ran("fork", "r", "--at", "pay", "--into", "s", "--json").json()
    assert (made["id"], made["kept"], made["once"]) == ("s", ["work#1", "work#2"], ["pay#1"])
    assert ran("resume", "s").out.strip() == "[1,2,3,4]"
    assert ran.notes() == {"s:0:pay#1": 1, "s:0:work#3": 1}
    missing = ran("fork", "r", "--at", "wrk#2", code=3)
    assert "nearest: work" in missing.err
    assert "exists" in ran("fork", "r", "--at", "pay", "--into", "s", code=2).err
    assert ran("fork", "r", "--at", "pay", "--dry-run", "--json").json()["id"] is None


def test_a_fork_goes_on_in_a_directory_of_its_own(cli):
    """The command that `fork` prints finds the store of the project it was given in, without --home; the
    directory is told as it is, and what the fork writes is in it."""
    del cli.env["HOLDFAST_HOME"]
    cli.script("""
        @workflow
        def main():
            checkpoint("begun")
            command(["sh", "-c", "pwd > where"])
            return Path("where").read_text().strip()
    """)
    cli("run", "--id", "r", "flow.py:main")
    made = cli("fork", "r", "--at", "begun", "--into", "s", "--directory", "../other", "--json").json()
    other = cli.directory.parent / "other"
    assert made["files"]["directory"] == str(other)
    assert cli("resume", "s").json() == str(other)
    assert (cli.directory / "where").read_text().strip() == str(cli.directory)
    assert cli.status("s") == "completed"


def test_a_store_is_found_before_the_directory_is_changed(cli):
    """`HOLDFAST_HOME=store` means the store where the command is given, not where the run was started."""
    cli.script("@step\ndef work(): return Path('out').exists()\n@workflow\ndef main(): return work()")
    cli("run", "--id", "r", "flow.py:main", HOLDFAST_HOME="../store")
    cli("fork", "r", "--at", "work", "--into", "s", HOLDFAST_HOME="../store")
    inner = cli.directory / "inner"
    inner.mkdir()
    cli.directory = inner
    assert cli("resume", "s", HOLDFAST_HOME="../../store").out == "false\n"


@pytest.mark.parametrize(
    "words", [("rewind", "r", "--to"), ("fork", "r", "--at"), ("diff", "r")], ids=lambda words: words[0]
)
def test_a_point_that_is_not_there(cli, words):
    """A checkpoint or a step was looked for: the nearest, or the child run that has it."""
    cli.script("""
        @step
        def inner(): return 1
        @workflow
        def chapter(): return inner()
        @workflow
        def book(): checkpoint("drafted"); return chapter()
    """)
    cli("run", "--id", "r", "flow.py:book")
    assert "has no checkpoint or step 'draftd'; nearest: drafted" in cli(*words, "draftd", code=3).err
    told = cli(*words, "inner", code=3).err
    assert "run r has no checkpoint or step 'inner'; its child run r.chapter-1 has inner#1" in told


def test_replay(ran):
    """A reordered step in a run in flight is found without running anything; exit code 6 for CI."""
    ran("rewind", "r", "--to", "pay")
    assert "3 calls, up to work#3" in ran("replay", "r").out
    ran.script(FLOW.replace("work(1), work(2), pay(3)", "work(2), work(1), pay(3)"))
    listed = ran("replay", "--all", "--json", code=6).json()
    assert [(one["run"], one["verdict"]) for one in listed] == [("r", "diverges")]
    assert "work#1" in listed[0]["why"]
    assert (ran.notes(), ran.status("r")) == ({}, "paused")
    ran.script(FLOW.replace("def main", "def other"))
    assert ran("replay", "r", "--json", code=6).json()[0]["verdict"] == "unloadable"
    assert "name one RUN" in ran("replay", code=2).err


def test_replay_plays_a_child_with_its_parent(cli):
    """`--all` names the family once; its calls are those of both."""
    cli.script("""
        @workflow
        def inner(): return approval("ok").outcome
        @workflow
        def outer(): checkpoint("begin"); return inner()
    """)
    cli("run", "--id", "r", "flow.py:outer", code=5)
    (one,) = cli("replay", "--all", "--json").json()
    assert (one["run"], one["verdict"]) == ("r", "matches")


def test_checkpoints(ran):
    """Their names, keys, times and data; a run without any says what to do instead."""
    assert ran("checkpoints", "r", "--json").json() == []
    assert "no checkpoint" in ran("checkpoints", "r").err
    ran("rewind", "r", "--to", "work#2", "--rerun-once")
    with opened(ran) as store:
        take = c.Record(e.CheckpointTaken("half#1", 3, "half", msgspec.Raw(b'{"done":2}')))
        perform(store, "r", c.ClaimRun("r", "me"), take, c.ReleaseRun("r", "me"))
    listed = ran("checkpoints", "r", "--json").json()
    assert [(one["name"], one["key"], one["data"]) for one in listed] == [("half", "half#1", {"done": 2})]
    assert ran("rewind", "r", "--to", "half", "--rerun-once", "--json").json()["to"] == "half#1"
    assert "half#1" in ran("checkpoints", "r").out


def test_archive(ran):
    """What ended goes to a file and can be audited; what did not stays; the id is not used again."""
    ran("fork", "r", "--at", "pay", "--into", "s")
    assert ran("archive").out.startswith("nothing to archive")
    planned = ran("archive", "--older-than", "0s", "--dry-run", "--json").json()
    assert (planned["runs"], planned["file"]) == (["r"], None)
    done = ran("archive", "--older-than", "0s", "--json").json()
    assert done["runs"] == ["r"]
    assert [(head.stream, head.version) for head in archiving.read(Path(done["file"]))] == [
        ("r", done["events"])
    ]
    assert "all of them hold" in ran("audit", "verify").out
    assert [run["id"] for run in ran("list", "--json").json()] == ["s"]
    assert "archived" in ran("run", "--id", "r", "flow.py:main", code=2).err
    for words in (("show",), ("logs",), ("approve",), ("cancel",), ("checkpoints",)):
        assert f"archived in {Path(done['file']).name}" in ran(*words, "r", code=2).err
    ran("repair", "--rebuild")
    assert ran("resume", "s").out.strip() == "[1,2,3,4]"


def test_bad_input(ran):
    """One sentence each, the right code, nothing written."""
    before = ran("show", "r", "--events", "--json").json()
    for words, code, text in (
        (("undo",), 3, "nothing that can be undone"),
        (("undo", "abc"), 3, "no operation 'abc'"),
        (("rewind", "r"), 2, "--to"),
        (("rewind", "r", "--to", "work"), 2, "work#1, work#2"),
        (("rewind", "r", "--to", "nothing like it"), 3, "nearest"),
        (("rewind", "x", "--to", "work#1"), 3, "no run has the id 'x'"),
        (("fork", "r", "--at", "pay", "--into", "a/b"), 2, "cannot be a run's id"),
        (("archive", "--older-than", "soon"), 2, "is no time"),
        (("archive", "--older-than", "0s", "--to", "/proc/nowhere"), 8, "cannot be written"),
        (("archive", "--older-than", "0s", "--to", "/dev/null"), 2, "is no directory"),
        (("checkpoints", "x"), 3, "no run has the id"),
        (("op", "log", "x"), 3, "no run has the id"),
    ):
        result = ran(*words, code=code)
        assert text in result.err and result.err.count("\n") == 1, result
    assert ran("show", "r", "--events", "--json").json() == before


def test_what_a_person_sees(ran):
    """On a terminal: colours, aligned; nothing wraps in the middle of a command."""
    code, shown = ran.on_a_terminal("rewind", "r", "--to", "work#1", "--rerun-once", columns=60)
    assert code == 0 and "\x1b[" in shown and "holdfast resume r" in shown
    _, shown = ran.on_a_terminal("op", "log")
    assert "rewind to work#1" in shown and "just now" in shown
    _, shown = ran.on_a_terminal("replay", "--all")
    assert "all match" in shown and "replaying 1 of 1" in shown


# kill -9 at the system calls of an operation

CALLS = [("pwrite64", n) for n in range(1, 46, 4)] + [("fdatasync", n) for n in range(1, 7)]


def killed_at(cli, call: str, nth: int, *words: str) -> bool:
    """Run a command that is killed at its nth such system call; whether it came to that."""
    inject = [f"-einject={call}:signal=SIGKILL:when={nth}", f"-etrace={call}", "-o/dev/null", "-f", "-qq"]
    argv = ["strace", *inject, *cli.argv(*words)]
    done = subprocess.run(argv, cwd=cli.directory, env=cli.env, capture_output=True, check=False, timeout=60)
    return done.returncode != 0


@pytest.fixture
def restored(ran):
    """Puts the store back as it was when the test began."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not here")
    copy = ran.home.with_name("copy")

    def keep() -> None:
        shutil.copytree(ran.home, copy)

    def restore() -> None:
        shutil.rmtree(ran.home)
        shutil.copytree(copy, ran.home)

    return keep, restore


@pytest.mark.timeout(180)
def test_a_killed_rewind_is_done_or_not_done(ran, restored):
    """At any point of it: the run and the journal are both as before, or both as after."""
    keep, restore = restored
    keep()
    outcomes = {True: 0, False: 0}
    for call, nth in CALLS:
        killed_at(ran, call, nth, "rewind", "r", "--to", "pay")
        with opened(ran) as store:
            row, operations = store.run("r"), store.operations()
            assert list(store.verify()) == []
        done = row.generation == 1
        assert (row.status, row.generation, len(operations)) == (
            ("paused", 1, 1) if done else ("completed", 0, 0)
        )
        outcomes[done] += 1
        restore()
    assert all(outcomes.values()), outcomes


@pytest.mark.timeout(180)
def test_a_killed_undo_is_done_or_not_done(ran, restored):
    """The same for the way back; whichever it is, the next undo works."""
    ran("rewind", "r", "--to", "pay")
    keep, restore = restored
    keep()
    outcomes = {True: 0, False: 0}
    for call, nth in CALLS[::2]:
        killed_at(ran, call, nth, "undo")
        with opened(ran) as store:
            row, operations = store.run("r"), store.operations()
            assert list(store.verify()) == []
        done = row.generation == 0
        assert (row.status, len(operations)) == (("completed", 2) if done else ("paused", 1))
        ran("undo")
        assert ran.status("r") == ("paused" if done else "completed")
        outcomes[done] += 1
        restore()
    assert all(outcomes.values()), outcomes


@pytest.mark.timeout(180)
def test_a_killed_archive_loses_no_run(ran, restored):
    """Every run is in the store, or in a file that reads back, or in both; what is left verifies."""
    ran("fork", "r", "--at", "work#1", "--into", "s")
    ran("resume", "s")
    keep, restore = restored
    keep()
    for call, nth in [*CALLS[::3], ("fsync", 1), ("fsync", 2), ("rename", 1), ("write", 2), ("write", 4)]:
        killed_at(ran, call, nth, "archive", "--older-than", "0s")
        files = list((ran.home / "archive").glob("*.gz"))
        kept = {head.stream for file in files for head in archiving.read(file)}
        with opened(ran) as store:
            kept |= {row.id for row in store.runs()}
            assert list(store.verify()) == []
        assert kept == {"r", "s"}, (call, nth)
        ran("archive", "--older-than", "0s")
        restore()


DELETE_CALLS = [
    *(("pwrite64", n) for n in range(1, 71, 6)),
    *(("fdatasync", n) for n in range(1, 7)),
    *((call, n) for call in ("renameat", "unlinkat", "fsync") for n in (1, 2)),
]


@pytest.mark.timeout(300)
def test_a_killed_delete_is_done_or_not_done(ran, restored):
    """At any point of it: the run, its task and the links are all there, or all gone with the operation in
    the journal, and the log holds. Then `undo` brings them back, or the same command deletes them."""
    first, task = (ran("task", "create", name).out.strip() for name in ("dig", "reap"))
    ran("task", "link", first, task)
    ran("run", "--id", "d", "--task", task, "echo kelp")
    keep, restore = restored
    keep()
    words = ("delete", "d", "--with-task", "--yes")
    outcomes = {True: 0, False: 0}
    for call, nth in DELETE_CALLS:
        killed_at(ran, call, nth, *words)
        with opened(ran) as store:
            there = [store.run("d") is not None, store.task(task) is not None, bool(store.all_links())]
            deleted = [one.kind for one in store.operations() if one.kind == "delete"]
            gone = store.deleted("d")
            assert list(store.verify()) == [], (call, nth)
            assert store.run("r") is not None and store.task(first) is not None
        done = bool(deleted)
        assert there == [not done] * 3 and (gone is not None) == done, (call, nth)
        ran("undo") if done else ran(*words)
        left = {one["id"] for one in ran("list", "--json").json()}
        assert left == ({"r", "d"} if done else {"r"}), (call, nth)
        ran("audit", "verify")
        outcomes[done] += 1
        restore()
    assert all(outcomes.values()), outcomes


def test_an_operation_of_a_newer_version_is_listed(ran):
    """`op log`, `show` and `audit verify` work; an undo says that holdfast must be upgraded."""
    begun = NewEvent("OperationBegun", 10, '{"kind":"reassign","run":"r","by":"ann","to":"bob"}')
    with opened(ran) as store:
        store.command("@op/aa1", lambda _: Decision("operation", [begun]))
    assert "r: reassign to bob" in ran("op", "log").out
    assert [one["kind"] for one in ran("op", "log", "r", "--json").json()] == ["reassign"]
    ran("show", "r")
    ran("audit", "verify")
    assert "upgrade holdfast" in ran("undo", "aa1", code=2).err
