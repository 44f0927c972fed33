"""Going back with files, and back again: an undo is the inverse, and nothing else is touched."""

from __future__ import annotations

from tests.acceptance.test_files import tree

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
    """The agent writes, a person edits the same files at the gate, the agent goes on; what the rewind took
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
