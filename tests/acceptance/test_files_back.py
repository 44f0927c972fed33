"""Going back with files, and back again: an undo is the inverse, and nothing else is touched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.acceptance.test_files import KILLER, kill_half_way, tree

from holdfast import Holdfast, RunExists, checkpoint, step, workflow, workspace_path
from holdfast.errors import WorkspaceError
from holdfast.operations import forking

TURNS = """
    @workflow
    def main():
        checkpoint("cp")
        command(["sh", "-c", "for x in f g h k; do echo agent1 > $x; done; mkdir made; echo agent1 > made/m"],
                name="first")
        approval("ok")
        command(["sh", "-c", "echo agent2 >> f; rm h; chmod 600 k; rm -r made; echo agent2 > t"],
                name="second")
"""


def test_an_undo_is_the_inverse_of_a_rewind(cli):
    """The agent writes, a person edits the same files at the gate, the agent continues; what the rewind took
    back to the person's edit, the undo gives back, byte and mode; and so on, back and forth."""
    cli.script(TURNS)
    for name in ("f", "g", "h", "k"):
        (cli.directory / name).write_text("original\n")
    cli("run", "--id", "r", "flow.py:main", code=5)
    for name in ("f", "h", "t"):
        with (cli.directory / name).open("a") as file:
            file.write("person\n")
    (cli.directory / "made" / "mine").write_text("person\n")
    (cli.directory / "k").chmod(0o755)
    cli("approve", "r")
    cli("resume", "r")
    (cli.directory / "late").write_text("person\n")
    ran = tree(cli.directory)
    cli("rewind", "r", "--to", "cp")
    assert (cli.directory / "f").read_text() == "agent1\nperson\n"
    rewound = tree(cli.directory)
    assert rewound != ran
    for expected in (ran, rewound, ran):
        assert "kept" not in cli("undo").out
        assert tree(cli.directory) == expected
    assert cli.status("r") == "completed"


def test_an_undo_keeps_what_somebody_did_after_the_rewind(cli):
    """Their files stay; all others are as before the rewind, also where a person had edited at the gate."""
    cli.script(TURNS)
    for name in ("f", "g", "h", "k"):
        (cli.directory / name).write_text("original\n")
    cli("run", "--id", "r", "flow.py:main", code=5)
    (cli.directory / "f").write_text("person, at the gate\n")
    cli("approve", "r")
    cli("resume", "r")
    ran = tree(cli.directory)
    done = cli("rewind", "r", "--to", "cp", "--json").json()
    (cli.directory / "g").write_text("person, after the rewind\n")
    (cli.directory / "fresh").write_text("person, after the rewind\n")
    after = {name: tree(cli.directory)[name] for name in ("g", "fresh")}
    cli("undo", done["operation"])
    assert tree(cli.directory) == ran | after


def test_the_command_that_is_printed_for_a_cut_off_attempt_takes_nothing_else(cli):
    """Pasted after a day of work: what the attempt had done comes, all else stays."""
    (cli.directory / "notes").write_text("v1\n")
    (cli.directory / "gone").write_text("removed by the agent\n")
    script = (
        "echo half > agent; mkdir d; echo half > d/x; rm -f gone; touch ../half; [ -e ../go ] || sleep 60"
    )
    kill_half_way(cli, "run", "--id", "k", "--", "sh", "-c", f"{script}; echo whole > agent")
    (cli.directory.parent / "go").touch()
    printed = cli("resume", "k").err.partition("holdfast workspace restore ")[2].split("`")[0]
    (cli.directory / "notes").write_text("v2\n")
    (cli.directory / "new").write_text("a day of work\n")
    (cli.directory / "d" / "mine").write_text("a day of work\n")
    (cli.directory / "d" / "x").unlink()
    before = tree(cli.directory)
    cli("workspace", "restore", printed)
    now = tree(cli.directory)
    assert {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)} == {
        "agent",
        "d/x",
    }
    assert (cli.directory / "agent").read_text() == "half\n"
    cli("undo")
    assert tree(cli.directory) == before


RESCUE = """
import os
import sys
from holdfast.cli import main
from holdfast.workspace.restoring.restore import Restore

apply = Restore.apply

def written_meanwhile(self):
    if not os.path.samestat(os.fstat(self._root), os.stat(".")):
        return apply(self)  # of a copy
    with open("a", "r+") as editor:  # it has the file open, and saves when another is in its place
        apply(self)
        editor.write("the last save\\n")

Restore.apply = written_meanwhile
main()
"""


def with_an_editor(cli, *words):
    """A command during which somebody saves the file `a`."""
    script = cli.directory.parent / "rescue.py"
    script.write_text(RESCUE)
    return subprocess.run(
        [cli.python, str(script), *words],
        cwd=cli.directory,
        env=cli.env,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("isolated", [False, True], ids=["taken-back", "brought-back"])
def test_what_somebody_saves_while_a_step_has_its_files_is_named(cli, isolated):
    """When a cut-off attempt is taken back, and when the files of an isolated one are brought."""
    (cli.directory / "a").write_text("mine\n")
    body = "echo agent > a; " + ("" if isolated else "[ -e ../go ] || { touch ../half; sleep 60; }")
    if isolated:
        done = with_an_editor(cli, "run", "--id", "r", "--isolate", "--", "sh", "-c", body)
    else:
        kill_half_way(cli, "run", "--id", "r", "--", "sh", "-c", body)
        (cli.directory.parent / "go").touch()
        done = with_an_editor(cli, "resume", "r")
    assert (cli.directory / "a").read_text() == "agent\n"
    told = done.stderr.partition("while they were restored; `holdfast workspace restore ")[2]
    cli("gc")
    cli("workspace", "restore", told.split("`")[0])
    assert (cli.directory / "a").read_text().startswith("the last save\n")


def test_what_was_rescued_is_put_there_alone(cli):
    """An editor writes into the file that a rewind replaces: the command that is printed brings that, names
    it, and leaves the project alone; also where a directory is in its place by now."""
    cli.script('@workflow\ndef main():\n    checkpoint("cp")\n    command(["sh", "-c", "echo agent > a"])\n')
    for name in ("a", "thesis"):
        (cli.directory / name).write_text("mine\n")
    cli("run", "--id", "r", "flow.py:main")
    done = with_an_editor(cli, "rewind", "r", "--to", "cp")
    assert "rescued    a: " in done.stdout
    printed = done.stdout.partition("holdfast workspace restore ")[2].split("`")[0]
    before = tree(cli.directory)
    cli("workspace", "restore", printed)
    assert (cli.directory / "a").read_text().startswith("the last save\n")
    now = tree(cli.directory)
    assert {name: now[name] for name in now if name != "a"} == {
        name: before[name] for name in before if name != "a"
    }
    (cli.directory / "a").unlink()
    (cli.directory / "a").mkdir()
    (cli.directory / "a" / "mine").write_text("mine\n")
    before = tree(cli.directory)
    assert "others are in its place now" in cli("workspace", "restore", printed).out
    assert tree(cli.directory) == before


def test_a_fork_that_cannot_be_made_leaves_no_files(cli):
    """Neither where the id is taken, which is looked at first, nor where its directory is no workspace."""
    cli.script('@workflow\ndef main():\n    checkpoint("cp")\n    command(["sh", "-c", "echo agent > a"])\n')
    cli("run", "--id", "r", "flow.py:main")
    aside = cli.directory.parent / "aside"
    told = cli("fork", "r", "--at", "cp", "--into", "r", "--directory", aside / "deep", code=2).err
    assert "exists" in told and not aside.exists()
    inside = cli.home / "fork" / "deep"
    cli("fork", "r", "--at", "cp", "--into", "r2", "--directory", inside, code=2)
    assert not (cli.home / "fork").exists()
    cli("fork", "r", "--at", "cp", "--into", "r2", "--directory", aside / "deep")
    assert (aside / "deep" / "flow.py").exists()


def test_a_fork_whose_run_cannot_be_written_leaves_no_files(tmp_path: Path, monkeypatch):
    """The id is taken at the last moment: what was put into the directory goes again."""
    root = tmp_path / "root"
    root.mkdir()
    with Holdfast(tmp_path / "home", workspace=root) as hf:
        hf.with_id("r").run(write_once)
        monkeypatch.setattr(forking, "_refuse_taken", lambda *_: None)
        with pytest.raises(RunExists):
            hf.fork("r", at="cp", into="r", directory=tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()


@step(effect="workspace")
def write() -> None:
    (workspace_path() / "a").write_text("agent\n")


@workflow
def write_once() -> None:
    write()
    checkpoint("cp")


def test_patterns_that_match_nothing_are_refused(cli):
    """And nothing is recorded; one that matches what is as it should be is no mistake."""
    cli.script('@workflow\ndef main():\n    checkpoint("cp")\n    command(["sh", "-c", "echo agent > a"])\n')
    (cli.directory / "b").write_text("mine\n")
    cli("run", "--id", "r", "flow.py:main")
    assert "'srcc/**'" in cli("rewind", "r", "--to", "cp", "--only", "srcc/**", code=2).err
    snapshot = cli("rewind", "r", "--to", "cp", "--dry-run", "--json").json()["files"]["snapshot"]
    assert "'srcc/**'" in cli("workspace", "restore", snapshot, "--only", "srcc/**", code=2).err
    assert cli("op", "log", "--json").json() == []
    assert "nothing to change" in cli("rewind", "r", "--to", "cp", "--only", "b").out
    cli("rewind", "r", "--to", "cp", "--only", "a", "--only", "srcc/**")
    assert not (cli.directory / "a").exists()


def move(cli, name: str) -> None:
    cli.directory = cli.directory.rename(cli.directory.with_name(name))


AGENT = '@workflow\ndef main():\n    checkpoint("cp")\n    command(["sh", "-c", "echo agent > a"])\n'


def test_a_project_that_moved_can_be_gone_back_in(cli):
    """Rewind, move, undo; and all else that looks at files. Another directory in the old place is let be."""
    cli.script(AGENT)
    (cli.directory / "a").write_text("mine\n")
    cli("run", "--id", "r", "flow.py:main")
    cli("rewind", "r", "--to", "cp")
    old = cli.directory
    move(cli, "moved")
    old.mkdir()
    (old / "a").write_text("another project\n")
    cli("undo")
    assert (cli.directory / "a").read_text() == "agent\n"
    assert "modified a" in cli("diff", "r", "cp").out
    done = cli("rewind", "r", "--to", "cp", "--json").json()
    assert (cli.directory / "a").read_text() == "mine\n"
    cli("workspace", "restore", done["files"]["before"], "--only", "a")
    assert (cli.directory / "a").read_text() == "agent\n"
    move(cli, "again")
    cli("undo")
    assert (cli.directory / "a").read_text() == "mine\n"
    assert (old / "a").read_text() == "another project\n"


def test_a_rewind_that_was_cut_off_is_finished_where_the_project_is_now(cli):
    """Killed between files and record, then moved: state and files agree, and it can be undone."""
    cli.script(AGENT)
    (cli.directory / "a").write_text("mine\n")
    cli("run", "--id", "r", "flow.py:main")
    (cli.directory.parent / "killer.py").write_text(KILLER)
    killer = str(cli.directory.parent / "killer.py")
    words = [cli.python, killer, "after the files", "rewind", "r", "--to", "cp"]
    subprocess.run(words, cwd=cli.directory, env=cli.env, capture_output=True, check=False)
    move(cli, "moved")
    cli("gc")  # opens the store to change it
    assert [one["status"] for one in cli("op", "log", "--json").json()] == ["done"]
    assert cli.status("r") == "paused" and (cli.directory / "a").read_text() == "mine\n"
    cli("undo")
    assert cli.status("r") == "completed" and (cli.directory / "a").read_text() == "agent\n"


def test_a_workspace_that_vanishes_under_an_open_store_is_told(tmp_path: Path):
    """In one sentence, not as a fault of the program."""
    root = tmp_path / "root"
    root.mkdir()
    with Holdfast(tmp_path / "home", workspace=root) as hf:
        hf.with_id("r").run(write_once)
        root.rename(tmp_path / "elsewhere")
        with pytest.raises(WorkspaceError, match="root"):
            hf.rewind("r", to="cp")
