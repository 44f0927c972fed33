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
