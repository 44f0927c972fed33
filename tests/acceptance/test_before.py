"""Going back to before a step, and to before all: what a run without checkpoints is taken back to."""

from __future__ import annotations

import subprocess

from tests.acceptance.test_files import KILLER, tree

TWO = """
    @step
    def ask(n):
        note(f"ask {n}")
        return n

    @workflow
    def main():
        ask(1)
        checkpoint("cp")
        command(["sh", "-c", "echo one >> f"], name="one")
        ask(2)
        command(["sh", "-c", "echo two >> f"], name="two")
        ask(3)
"""


def test_a_command_is_taken_back_and_run_again(cli):
    """`show` says how; after a resume it has done its work once more, and an undo gives that back."""
    (cli.directory / "notes").write_text("mine\n")
    cli("run", "--id", "r", "--", "sh", "-c", "mv notes gone")
    old = tree(cli.directory)
    assert "holdfast rewind r --to start" in cli("show", "r").out
    assert "--to start" in cli("checkpoints", "r").err
    for point in ("start", "before:sh"):
        cli("rewind", "r", "--to", point)
        assert (cli.directory / "notes").read_text() == "mine\n" and not (cli.directory / "gone").exists()
        cli("resume", "r")
        assert tree(cli.directory) == old
    cli("undo")
    assert cli.status("r") == "completed"
    assert cli("audit", "verify").code == 0


def test_the_moment_before_a_step(cli):
    """What came before is kept, the step runs again, its files are as it found them; of a checkpoint too."""
    cli.script(TWO)
    cli("run", "--id", "r", "flow.py:main")
    ran = cli.notes()
    done = cli("rewind", "r", "--to", "before:two", "--json").json()
    assert (done["to"], done["again"]) == ("before:two#1", ["two#1", "ask#3"])
    assert (cli.directory / "f").read_text() == "one\n"
    assert "before:two#1" in cli("op", "log").out
    cli("resume", "r")
    assert (cli.directory / "f").read_text() == "one\ntwo\n"
    assert cli.notes() == ran == {"ask 1": 1, "ask 2": 1, "ask 3": 1}, "the notes went back with the files"
    assert cli("rewind", "r", "--to", "before:cp", "--dry-run", "--json").json()["again"][0] == "cp#1"
    assert cli("rewind", "r", "--to", "start", "--dry-run", "--json").json()["again"][0] == "ask#1"
    assert cli("diff", "r", "start", "one").out.startswith("added f")
    assert "nearest: two" in cli("rewind", "r", "--to", "before:tow", code=3).err


def test_a_step_that_has_not_ended_is_no_point_but_the_moment_before_it_is(cli):
    """A step that is in doubt: the way back is named, and asks for a word about what was done once."""
    cli.script(
        """
        @step(effect="once")
        def pay():
            note("paid")
            os.kill(os.getpid(), 9)

        @workflow
        def main():
            checkpoint("cp")
            pay()
        """
    )
    cli("run", "--id", "r", "flow.py:main", code=-9)
    assert "before:pay#1" in cli("rewind", "r", "--to", "pay", "--rerun-once", code=2).err
    assert "--rerun-once" in cli("rewind", "r", "--to", "before:pay", code=2).err
    done = cli("rewind", "r", "--to", "before:pay", "--rerun-once", "--json").json()
    assert done["again"] == ["pay#1"]


def test_a_step_that_is_called_start_comes_first(cli):
    """Names that are taken keep their meaning."""
    cli.script(
        """
        @workflow
        def main():
            checkpoint("first")
            checkpoint("start")
            checkpoint("before:first")
        """
    )
    cli("run", "--id", "r", "flow.py:main")
    for name in ("start", "before:first"):
        assert cli("rewind", "r", "--to", name, "--dry-run", "--json").json()["to"] == f"{name}#1"


def test_a_fork_from_before(cli):
    """A checkpoint that is forked before is not kept; from the start nothing is; with files."""
    cli.script(TWO)
    cli("run", "--id", "r", "flow.py:main")
    assert cli("fork", "r", "--at", "start", "--dry-run", "--json").json()["kept"] == []
    assert cli("fork", "r", "--at", "before:cp", "--dry-run", "--json").json()["kept"] == ["ask#1"]
    into = cli.directory.parent / "fork"
    made = cli("fork", "r", "--at", "before:two", "--into", "s", "--directory", into, "--json").json()
    assert (made["at"], made["kept"]) == ("before:two#1", ["ask#1", "cp#1", "one#1", "ask#2"])
    assert (into / "f").read_text() == "one\n"
    cli("resume", "s")
    assert (into / "f").read_text() == "one\ntwo\n"
    assert cli("audit", "verify").code == 0


def test_a_rewind_to_before_that_is_killed_is_finished(cli):
    """It goes to the same moment."""
    cli.script(TWO)
    cli("run", "--id", "r", "flow.py:main")
    (cli.directory.parent / "killer.py").write_text(KILLER)
    killer = str(cli.directory.parent / "killer.py")
    words = [cli.python, killer, "after the files", "rewind", "r", "--to", "before:two"]
    subprocess.run(words, cwd=cli.directory, env=cli.env, capture_output=True, check=False)
    cli("gc")  # opens the store to change it
    assert [one["status"] for one in cli("op", "log", "--json").json()] == ["done"]
    assert (cli.directory / "f").read_text() == "one\n"
    assert [one["key"] for one in cli("show", "r", "--json").json()["steps"]] == [
        "ask#1",
        "cp#1",
        "one#1",
        "ask#2",
    ]
