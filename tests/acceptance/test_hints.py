"""Commands that are named to be copied: they work as they stand."""

from __future__ import annotations

import shlex

from tests.acceptance.conftest import wait_until


def named(text: str, beginning: str) -> list[str]:
    """The words of the command in backticks that begins so, without the program's own."""
    assert f"`{beginning}" in text, text
    return shlex.split(beginning + text.partition(f"`{beginning}")[2].partition("`")[0])[1:]


def test_names_are_quoted(cli):
    """A checkpoint whose name means something to a shell."""
    cli.script('@workflow\ndef main():\n    checkpoint("two;words-$HOME")\n')
    cli("run", "--id", "r", "flow.py:main")
    back = named(cli("checkpoints", "r").err, "holdfast rewind")
    assert "was rewound to two;words-$HOME#1" in cli(*back).out


def test_the_home_of_the_command_line_is_repeated(cli):
    """Wherever a command is named: at a gate, by show, after an operation, in an error; if it was said."""
    cli.script('@workflow\ndef main():\n    checkpoint("cp")\n    approval("ok")\n')
    home = ("--home", cli.directory.parent / "other store")
    spelled = f"holdfast --home '{home[1]}' "
    assert f"{spelled}approve r" in cli(*home, "run", "--id", "r", "flow.py:main", code=5).err
    assert f"{spelled}approve r" in cli(*home, "show", "r").out
    assert named(cli(*home, "approve", "r").out, f"{spelled}resume") == [*map(str, home), "resume", "r"]
    assert f"{spelled}resume r" in cli(*home, "pause", "r").out
    rewound = cli(*home, "rewind", "r", "--to", "cp").out
    assert f"{spelled}resume r" in rewound and f"{spelled}undo " in rewound
    assert f"{spelled}op log" in cli(*home, "undo", "ffff", code=3).err
    assert "--home" not in cli("op", "log", code=None).err
    cli("run", "--id", "r", "flow.py:main", code=5)
    assert "--home" not in cli("show", "r").out


def test_a_run_is_not_looked_for_where_no_project_is(cli):
    """A command that names a run does not advise to make a project; one that names none does."""
    del cli.env["HOLDFAST_HOME"]
    elsewhere = (
        "yet; change to the directory of the project that has the run, or name its store with --home\n"
    )
    for words in ("approve r", "show r", "resume r", "signal r paid 1", "logs r", "op log r", "undo 01"):
        assert cli(*words.split(), code=3).err.endswith(elsewhere)
    for words, code in (("resume", 3), ("list", 0), ("prime", 0), ("recall", 0), ("stats", 3)):
        told = cli(words, code=code).err
        assert "yet; `holdfast run` or `holdfast task create` makes one" in told, words
        assert "`holdfast plan new`" in told and "`holdfast demo`" in told
    missing = cli("--home", cli.home, "show", "r", code=3).err
    assert missing.endswith("yet; name the store that has the run with --home\n")


def test_a_shell_line_keeps_its_options(cli):
    """The line to copy is the user's own, with all of its options: without --isolate it would do harm."""
    line = "echo 1 > made; cat made"
    options = ["--id", "r", "--isolate", "--writes", "made", "--timeout", "9.5"]
    told = cli("run", *options, line, code=2).err
    copied = named(told, "holdfast run")
    assert copied == ["run", *options, "--", "sh", "-c", line]
    assert "to pass these characters to the program as they are" in told
    cli(*copied)
    assert (cli.directory / "made").read_text() == "1\n"


def test_a_run_that_is_held_names_pause(cli):
    """What stops it in good order, so that it can be rewound then."""
    cli.script(
        """
        @step
        def slow():
            note("slow")
            while not Path("../go").exists():
                time.sleep(0.01)

        @workflow
        def main():
            checkpoint("cp")
            slow()
            checkpoint("never")
        """
    )
    run = cli.start("run", "--id", "r", "flow.py:main")
    cli.wait_for_note("slow")
    told = cli("rewind", "r", "--to", "cp", code=4).err
    assert "--take-over" not in told
    pausing = cli.start(*named(told, "holdfast pause"))
    wait_until(lambda: "PauseRequested" in cli("show", "r", "--events").out, "the request")
    (cli.directory.parent / "go").touch()
    assert pausing.wait(30) == 0
    run.communicate(timeout=30)
    cli("rewind", "r", "--to", "cp")
