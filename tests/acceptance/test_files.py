"""Files of a run: cut-off commands taken back, rewind with files, what a person changed stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.acceptance.conftest import wait_until

from holdfast.engine.processes.tree_lock import tree_is_dead

SLOW = """
trap '' TERM
(setsid sh -c 'trap "" TERM; i=0; while [ $i -lt 1000 ]; do echo $i > trail; i=$((i+1)); sleep 0.01; done' &)
rm -f old; echo changed > kept
i=0
while [ $i -lt 50 ]; do
  echo "run $1" > "out-$i"
  [ "$i" = 20 ] && [ ! -e ../go ] && echo > ../half && sleep 60
  i=$((i+1))
done
echo done > done; rm -f trail
sleep 0.2; kill -9 $(cat ../double 2>/dev/null) 2>/dev/null; true
"""


def tree(directory: Path) -> dict[str, bytes]:
    """Every file but git's and holdfast's own: path → content with mode."""
    return {
        str(path.relative_to(directory)): path.read_bytes() + f"\n{path.stat().st_mode:o}".encode()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not {".git", ".holdfast", "__pycache__"} & set(path.parts)
    }


def kill_half_way(cli, *words):
    """Start a run and kill its owner when its command says that it is half-way. Whatever comes next comes
    after the last process of the command."""
    owner = cli.start(*words)
    wait_until((cli.directory.parent / "half").exists, "half-way")
    owner.kill()
    owner.communicate()
    locks = [path for path in (cli.home / "commands").rglob("*") if path.is_file()]
    assert locks
    wait_until(lambda: all(tree_is_dead(lock) for lock in locks), "the death of the command")


def test_a_command_killed_half_way_is_as_if_it_had_run_once(cli):
    """It ignores SIGTERM, and a child that a double fork hid still writes when its owner is killed."""
    (cli.directory / "slow.sh").write_text(SLOW)
    (cli.directory / "old").write_text("old")
    (cli.directory / "kept").write_text("as it was")
    kill_half_way(cli, "run", "--id", "k", "--", "sh", "slow.sh", "1")
    (cli.directory.parent / "go").touch()
    cli("resume", "k")
    left = {path.name for path in cli.directory.iterdir()} - {"trail", ".holdfast"}
    assert left == {"slow.sh", "kept", "done", *(f"out-{n}" for n in range(50))}
    taken = [one for one in events(cli, "k", "FilesSaved") if one["place"] == "taken_back"]
    assert len(taken) == 1 and taken[0]["changes"] >= 22
    before = next(one for one in events(cli, "k", "FilesSaved") if one["place"] == "before")
    assert taken[0]["snapshot"] == before["snapshot"], "the second attempt began where the first one did"


def test_edits_between_kill_and_resume_stay(cli):
    """A person's edit after the crash is theirs, in whatever file; what it replaced can be brought back."""
    (cli.directory / "slow.sh").write_text(SLOW)
    (cli.directory / "notes").write_text("mine\n")
    kill_half_way(cli, "run", "--id", "k", "--", "sh", "slow.sh", "1")
    time.sleep(1.5)  # longer than the last sign of life can be old
    (cli.directory / "notes").write_text("mine, after the crash\n")
    (cli.directory / "out-3").write_text("edited by a person\n")
    (cli.directory / "fresh").write_text("by a person\n")
    (cli.directory.parent / "go").touch()
    resumed = cli("resume", "k")
    assert "changes of the earlier attempt rolled back" in resumed.err
    assert "fresh" in resumed.err and "notes" in resumed.err and "out-3" in resumed.err
    assert (cli.directory / "notes").read_text() == "mine, after the crash\n"
    assert (cli.directory / "fresh").read_text() == "by a person\n"
    # The command wrote over it once more; the printed command brings it back.
    saved = resumed.err.partition("holdfast workspace restore ")[2].split("`")[0]
    cli("workspace", "restore", saved, "--only", "out-3")
    assert (cli.directory / "out-3").read_text() == "edited by a person\n"


EDITS = """
    @workflow
    def main():
        command(["sh", "-c", "echo run > a; echo run > b; mkdir d; echo run > d/c"], name="first")
        checkpoint("drafted", words=3)
        command(["sh", "-c", "echo BAD > a; rm b; echo new > e; until [ -e ../go ]; do sleep 0.01; done"],
                name="agent")
        return 1
"""


def test_what_a_person_edits_stays_or_comes_back(cli):
    """After the last step; during a step a file that it writes too; during a step another one."""
    cli.script(EDITS)
    for name in ("a", "b", "mine"):
        (cli.directory / name).write_text("original\n")
    run = cli.start("run", "--id", "r", "flow.py:main")
    wait_until((cli.directory / "e").exists, "the agent's edit")
    (cli.directory / "a").write_text("during, the same file\n")
    (cli.directory / "mine").write_text("during, another file\n")
    (cli.directory.parent / "go").touch()
    run.communicate(timeout=30)
    (cli.directory / "late").write_text("after the last step\n")
    before = tree(cli.directory)
    done = cli("rewind", "r", "--to", "drafted")
    assert (cli.directory / "late").read_text() == "after the last step\n"
    assert {name: (cli.directory / name).read_text() for name in ("a", "b")} == {"a": "run\n", "b": "run\n"}
    assert not (cli.directory / "e").exists()
    assert "late" in done.out
    assert "--theirs" not in done.out, "it is for what the run changed as well"
    command = done.out.partition("holdfast undo ")[2].split()[0]
    cli("undo", command)
    assert tree(cli.directory) == before
    (cli.directory / "e").write_text("after the run\n")
    kept = cli("rewind", "r", "--to", "drafted").out
    assert "e  changed by the run and by others since; --theirs restores it, too" in kept
    assert (cli.directory / "e").read_text() == "after the run\n"
    cli("undo")
    cli("rewind", "r", "--to", "drafted", "--theirs")
    assert not (cli.directory / "e").exists()


def test_undo_after_rewind_gives_back_tree_and_state(cli):
    """Byte for byte; edits that a person made between the two are kept and named; `op log` shows it."""
    cli.script(EDITS)
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    before, shown = tree(cli.directory), cli("show", "r", "--json").json()
    cli("rewind", "r", "--to", "drafted")
    assert tree(cli.directory) != before
    (cli.directory / "between").write_text("a person's\n")
    (cli.directory / "a").write_text("over what was put back\n")
    undone = cli("undo", "--json").json()
    kept = {one["path"] for one in undone["files"]["kept"]}
    assert kept == {"a", "between"}
    after = tree(cli.directory)
    assert {name: text for name, text in after.items() if name not in kept} == {
        name: text for name, text in before.items() if name not in kept
    }
    again = cli("show", "r", "--json").json()
    assert {**again, "updated_at": ""} == {**shown, "updated_at": ""}
    kinds = [one["kind"] for one in cli("op", "log", "--json").json()]
    assert kinds == ["undo", "rewind"]
    cli("undo")
    assert (cli.directory / "b").read_text() == "run\n"
    assert cli("audit", "verify").code == 0


def git(cli, *words, check=True):
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=n@localhost", *words],
        cwd=cli.directory, env=cli.env, capture_output=True, text=True, check=check,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def repository(cli):
    git(cli, "init", "-q", "-b", "main")
    for name in ("a", "b", "mine"):
        (cli.directory / name).write_text("original\n")
    git(cli, "add", ".")
    git(cli, "commit", "-qm", "first")
    (cli.directory / "b").write_text("staged\n")
    git(cli, "add", "b")
    git(cli, "stash", "push", "-q")
    (cli.directory / "b").write_text("staged again\n")
    git(cli, "add", "b")
    return cli


def position(cli):
    return [
        git(cli, *words)
        for words in (
            ("rev-parse", "HEAD"), ("symbolic-ref", "HEAD"), ("for-each-ref",), ("stash", "list"),
            ("ls-files", "--stage"),
        )
    ]  # fmt: skip


def test_git_is_left_alone(repository):
    """HEAD, index, stash and refs are the same before and after a rewind, and so is `git status`."""
    cli = repository
    cli.script(EDITS)
    git(cli, "add", "flow.py")
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    at_checkpoint = position(cli)
    cli("rewind", "r", "--to", "drafted")
    assert position(cli) == at_checkpoint
    status = git(cli, "status", "--porcelain")
    cli("undo")
    cli("undo")
    assert (position(cli), git(cli, "status", "--porcelain")) == (at_checkpoint, status)


COMMITS = """
    @workflow
    def main():
        checkpoint("before")
        command(["sh", "-c", "echo agent > a; git add a; git -c user.name=n -c user.email=n commit -qm agent"
                 ";git checkout -qb side; git tag made; echo more > c; git add c"], name="agent")
        return 1
"""


def test_commits_are_taken_back_if_asked(repository):
    """With `--git`: branch, tag, HEAD and index go back, old tips stay reachable, `undo` brings all back."""
    cli = repository
    cli.script(COMMITS)
    start = position(cli)
    cli("run", "--id", "r", "flow.py:main")
    made, tip = position(cli), git(cli, "rev-parse", "main").strip()
    assert made != start
    done = cli("rewind", "r", "--to", "before", "--git")
    assert "refs/heads/side" in done.out
    operation = done.out.partition("holdfast undo ")[2].split()[0]
    after = position(cli)
    kept = git(cli, "for-each-ref", "refs/holdfast")
    assert tip in kept and operation in kept
    assert [after[n] for n in (0, 1, 3, 4)] == [start[n] for n in (0, 1, 3, 4)]
    assert (cli.directory / "a").read_text() == "original\n" and not (cli.directory / "c").exists()
    cli("undo")
    again = position(cli)
    assert [again[n] for n in (0, 1, 3, 4)] == [made[n] for n in (0, 1, 3, 4)]
    assert git(cli, "rev-parse", "main").strip() == tip
    assert (cli.directory / "a").read_text() == "agent\n"


def test_pushed_commits_are_refused(repository):
    """Nothing is done, neither to the files nor to the run; the way to revert them is offered."""
    cli = repository
    cli.script(COMMITS)
    git(cli, "init", "-q", "--bare", "../remote")
    git(cli, "remote", "add", "origin", "../remote")
    cli("run", "--id", "r", "flow.py:main")
    git(cli, "push", "-q", "origin", "main")
    before = (position(cli), tree(cli.directory))
    refused = cli("rewind", "r", "--to", "before", "--git", code=2)
    assert "git revert" in refused.err and "agent" in refused.err
    assert (position(cli), tree(cli.directory)) == before
    assert cli.status("r") == "completed"
    cli("rewind", "r", "--to", "before")
    assert position(cli) == before[0]


VANDAL = """
    @workflow
    def main():
        checkpoint("before")
        command(["sh", "-c", "git clean -fdxq; rm -rf .holdfast .env .git/refs/heads; mkdir .git/refs/heads"],
                name="agent")
        return 1
"""


def test_an_agent_that_cleans_everything_away(repository):
    """`git clean -fdx`, `.holdfast/` and `.env` gone, refs emptied: each is restored, or listed."""
    cli = repository
    cli.script(VANDAL)
    (cli.directory / ".env").write_text("TOKEN=1\n")
    (cli.directory / "untracked").write_text("work\n")
    (cli.directory / ".gitignore").write_text(".env\n")
    cli("run", "--id", "r", "flow.py:main")
    assert not (cli.directory / ".env").exists()
    cli("rewind", "r", "--to", "before", "--git")
    assert (cli.directory / ".env").read_text() == "TOKEN=1\n"
    assert (cli.directory / "untracked").read_text() == "work\n"
    assert git(cli, "log", "--format=%s", "main") == "first\n", "the refs are back"
    assert ".git" in cli("workspace", "status").out, "what is not covered is listed"


def test_isolated_commands_run_beside_each_other(cli):
    """Two at once in copies; both changes come back; a third that changes the same file fails."""
    cli.script(
        """
    @workflow
    def main():
        return len(parallel(one, ["a", "b"]))
    @step(effect="workspace", isolate="copy")
    def one(name):
        (workspace_path() / name).write_text("by " + name)
        deadline = time.monotonic() + 10
        Path("..", "met-" + name).touch()
        while not all(Path("..", "met-" + n).exists() for n in "ab"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    """
    )
    assert cli("run", "flow.py:main").json() == 2
    assert (cli.directory / "a").read_text() == "by a" and (cli.directory / "b").read_text() == "by b"
    script = "echo copy > a; until [ -e ../../go ]; do sleep 0.01; done"
    started = cli.start("run", "--id", "c", "--isolate", "--", "sh", "-c", script)
    copies = cli.home / "copies"
    wait_until(lambda: any(path.read_text() == "copy\n" for path in copies.glob("*/a")), "the copy's change")
    (cli.directory / "a").write_text("a person's")
    (cli.home / "go").touch()
    _, err = started.communicate(timeout=20)
    assert started.returncode == 1 and "others changed the same files" in err
    assert (cli.directory / "a").read_text() == "a person's"


def test_writes_tells_the_step_from_the_person(cli):
    """With `--writes`, what else changed during the step is a person's and stays."""
    cli.script(
        """
    @workflow
    def main():
        checkpoint("start")
        command(["sh", "-c", "echo run > out.txt; touch ../half; until [ -e ../go ]; do sleep 0.01; done"],
                writes=["out.*"])
    """
    )
    (cli.directory / "out.txt").write_text("original\n")
    run = cli.start("run", "--id", "w", "flow.py:main")
    wait_until((cli.directory.parent / "half").exists, "half-way")
    (cli.directory / "mine").write_text("a person's\n")
    (cli.directory.parent / "go").touch()
    run.communicate(timeout=20)
    cli("rewind", "w", "--to", "start")
    assert (cli.directory / "out.txt").read_text() == "original\n"
    assert (cli.directory / "mine").read_text() == "a person's\n"


def test_selective_rewind(cli):
    """`--only` takes some files back and leaves the run where it is."""
    cli.script(EDITS)
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    done = cli("rewind", "r", "--to", "drafted", "--only", "b", "--json").json()
    assert done["files"]["changes"] == [{"path": "b", "change": "added"}]
    assert (cli.directory / "a").read_text() == "BAD\n"
    assert cli.status("r") == "completed"
    assert "leads out of the workspace" in cli("rewind", "r", "--to", "drafted", "--only", "../x", code=2).err
    cli("undo")
    assert not (cli.directory / "b").exists()


def test_fork_into_a_directory(cli):
    """The fork works in a directory of its own, on the files of the point; the other is not touched."""
    cli.script(EDITS)
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    before = tree(cli.directory)
    there = cli.directory.parent / "forked"
    made = cli("fork", "r", "--at", "drafted", "--into", "f", "--directory", there, "--json").json()
    assert made["files"]["directory"] == str(there)
    assert (there / "a").read_text() == "run\n"
    cli("resume", "f")
    assert (there / "a").read_text() == "BAD\n" and not (there / "b").exists()
    assert tree(cli.directory) == before
    assert "not empty" in cli("fork", "r", "--at", "drafted", "--directory", there, code=2).err


def test_diff_between_moments(cli):
    """Checkpoint, step, before a step, disk: unified diffs, and `--json`."""
    cli.script(EDITS)
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    (cli.directory / "a").write_text("a person's\n")
    assert cli("diff", "r", "first", "drafted").out == ""
    text = cli("diff", "r", "before:agent", "agent").out
    assert "-run" in text and "+BAD" in text and "removed b" in text and "added e" in text
    found = cli("diff", "r", "agent", "--json").json()
    assert [(one["path"], one["change"]) for one in found] == [("a", "modified")]
    assert "nearest" in cli("diff", "r", "agnt", code=3).err


def test_a_diff_names_the_moments_that_were_asked_for(cli):
    """The start, a checkpoint, a step, the moment before it; also where the snapshot is that of another."""
    cli.script(
        """
        @step(effect="workspace")
        def write(): Path("made").touch()
        @workflow
        def main(): write(); checkpoint("cp"); write()
        """
    )
    cli("run", "--id", "r", "flow.py:main")
    for asked, said in (
        ("start", "the start"), ("cp", "at cp#1"), ("write#2", "after write#2"),
        ("before:write#2", "before write#2"), ("before:cp", "before:cp#1"),
    ):  # fmt: skip
        told = cli("diff", "r", asked).err.splitlines()[-1]
        assert f": {said}" in told and told.endswith(", the files on the disk"), (asked, told)


def test_a_diff_can_be_applied(cli):
    """Files that come and go, tabs, form feeds, ends without a line feed: git takes them back."""
    (cli.directory / "gone").write_text("all:\n\tcc\x0c x\n")
    (cli.directory / "open").write_text("no end\u2028here")
    before = tree(cli.directory)
    cli("run", "--id", "r", "--", "sh", "-c", "rm gone; printf x >> open; echo new > 'a name'")
    patch = cli("diff", "r", "before:sh", "sh").out
    assert "+++ /dev/null\n" in patch and "--- /dev/null\n" in patch
    subprocess.run(
        ["git", "apply", "-R", "--unsafe-paths"], input=patch.encode(), cwd=cli.directory, check=True
    )
    assert tree(cli.directory) == before


def test_du_gc_verify(cli):
    """What nothing needs goes, what a snapshot needs stays; damage is told with exit code 8."""
    cli.script(EDITS)
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    assert cli("du", "--json").json()["snapshots"] >= 3
    cli("gc")
    cli("rewind", "r", "--to", "drafted")
    assert "are whole" in cli("workspace", "verify").out
    forgotten = cli("gc", "--quota", "0.000001", "--json").json()["forgotten"]
    assert forgotten == [], "a run that has not ended keeps its snapshots"
    pack = max((cli.home / "workspace" / "packs").glob("*.pack"), key=lambda path: path.stat().st_size)
    data = bytearray(pack.read_bytes())
    data[len(data) // 3] ^= 0xFF
    pack.write_bytes(data)
    assert cli("workspace", "verify", code=8).out


def test_a_damaged_content_deletes_nothing(cli):
    """A rewind that cannot have all its files changes none, and says which; `--partial` does the rest."""
    cli.script(EDITS)
    (cli.directory / "a").write_bytes(os.urandom(2_000_000))
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    for path in (cli.home / "workspace" / "large").rglob("*"):
        if path.is_file():
            path.unlink()
    before = tree(cli.directory)
    first = cli("rewind", "r", "--to", "first", "--dry-run", code=None)
    assert tree(cli.directory) == before and first.code in (0, 8)
    cli("diff", "r", "before:first", "first", code=None)
    refused = cli("workspace", "restore", events(cli, "r", "FilesSaved")[0]["snapshot"], code=8)
    assert "a" in refused.err and tree(cli.directory) == before
    cli("workspace", "restore", events(cli, "r", "FilesSaved")[0]["snapshot"], "--partial")
    assert (cli.directory / "a").read_text() == "BAD\n"


def test_bad_workspaces(cli):
    """`/`, the home directory and a file are no workspaces: commands are `once` there, and say so."""
    told = cli("workspace", "status", code=2, HOLDFAST_WORKSPACE="/").err
    assert "too much for a workspace" in told
    told = cli("workspace", "status", code=2, HOLDFAST_WORKSPACE=cli.env["HOME"]).err
    assert "too much for a workspace" in told
    assert "is not there" in cli("workspace", "status", code=2, HOLDFAST_WORKSPACE="nowhere").err
    ran = cli("run", "--id", "o", "true", HOLDFAST_WORKSPACE="/")
    assert "`once`" in ran.err
    assert [one.get("effect") for one in events(cli, "o", "StepStarted")] == ["once"]
    assert "writes and isolate" in cli("run", "--effect", "once", "--isolate", "true", code=2).err


def test_a_workspace_that_moved(cli):
    """The directory was renamed: the run's files are found in the project as it is now."""
    cli.script(EDITS)
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    moved = cli.directory.parent / "renamed"
    cli.directory.rename(moved)
    cli.directory = moved
    cli("rewind", "r", "--to", "drafted")
    assert (moved / "a").read_text() == "run\n"


@pytest.mark.parametrize("moment", ["before the files", "after the files", "before the end"])
def test_a_rewind_that_is_killed_is_finished(cli, moment):
    """Killed at any moment, the next process that opens the store finishes it: state and files agree."""
    cli.script(EDITS)
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    old = tree(cli.directory)
    (cli.directory.parent / "killer.py").write_text(KILLER)
    words = [cli.python, str(cli.directory.parent / "killer.py"), moment, "rewind", "r", "--to", "drafted"]
    done = subprocess.run(words, cwd=cli.directory, env=cli.env, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert cli.status("r") == "completed", "who only looks finishes nothing"
    cli("gc")  # opens the store to change it
    status = cli.status("r")
    assert status == "paused"
    assert (cli.directory / "a").read_text() == "run\n" and not (cli.directory / "e").exists()
    assert [one["status"] for one in cli("op", "log", "--json").json()] == ["done"]
    cli("undo")
    assert tree(cli.directory) == old and cli.status("r") == "completed"
    assert cli("audit", "verify").code == 0


KILLER = """
import os, signal, sys
from holdfast.operations import performing
from holdfast.workspace.workspace import Workspace
from holdfast.cli import main

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moment, words = sys.argv[1], sys.argv[2:]
apply = Workspace.apply
if moment == "before the files":
    Workspace.apply = die
elif moment == "after the files":
    Workspace.apply = lambda *args, **named: (apply(*args, **named), die())
else:
    performing.complete = die
sys.argv = ["holdfast", *words]
main()
"""


def test_a_resumed_attempt_of_a_failed_command_begins_anew(cli):
    """What a failed attempt did to the files is taken back before the next; the failure itself leaves it."""
    (cli.directory / "log").write_text("")
    script = "echo x >> log; [ -e ../go ]"
    cli("run", "--id", "f", "--", "sh", "-c", script, code=1)
    assert (cli.directory / "log").read_text() == "x\n"
    (cli.directory.parent / "go").touch()
    cli("resume", "f")
    assert (cli.directory / "log").read_text() == "x\n"


def events(cli, run_id, kind):
    found = cli("show", run_id, "--json", "--events").json()["events"]
    return [one["data"] for one in found if one["type"] == kind]


def test_store_inside_the_workspace_is_left_out(cli):
    """By choice; it is excluded by what it is, whatever its name."""
    home = cli.directory / "inner"
    cli.env["HOLDFAST_HOME"] = str(home)
    cli.script(EDITS)
    (cli.directory.parent / "go").touch()
    cli("run", "--id", "r", "flow.py:main")
    uncovered = cli("workspace", "status", "--json").json()["uncovered"]
    assert {"path": "inner", "why": "holdfast's own"} in uncovered
    cli("rewind", "r", "--to", "drafted")
    assert cli.status("r") == "paused"
