"""Whose change a change was: what a dead run did goes back, what a person did stays."""

import time

import pytest
from tests.acceptance.conftest import wait_until
from tests.acceptance.test_files import kill_half_way

HALF = """
SCRIPT = '''
echo half > agent.txt; echo mess > orig.txt; touch ../half
[ -e ../fast ] || sleep 60
echo whole > agent.txt
'''

@workflow
def main(*writes: str) -> None:
    checkpoint("begun")
    command(["sh", "-c", SCRIPT], writes=writes)


@workflow
def gated() -> None:
    checkpoint("begun")
    command(["sh", "-c", "echo agent > f"])
    approval("go")
    command(["sh", "-c", "echo again >> f"])
"""


@pytest.fixture
def halved(cli):
    cli.script(HALF)
    (cli.directory / "orig.txt").write_text("original\n")
    return cli


@pytest.mark.parametrize("how", ["pause", "cancel"])
def test_a_dead_owner_is_not_forgotten_by_a_pause(halved, how):
    """What it left half done goes back with a rewind, and what a person did since stays."""
    cli = halved
    kill_half_way(cli, "run", "--id", "r", "flow.py:main")
    time.sleep(1.1)  # longer than between two signs of life
    (cli.directory / "mine.txt").write_text("an evening's work\n")
    cli(how, "r")
    cli("rewind", "r", "--to", "begun")
    assert (cli.directory / "orig.txt").read_text() == "original\n"
    assert not (cli.directory / "agent.txt").exists()
    assert (cli.directory / "mine.txt").read_text() == "an evening's work\n"


@pytest.mark.parametrize("how", ["pause", "cancel"])
def test_a_resume_after_a_pause_takes_back_only_what_the_run_did(halved, how):
    cli = halved
    kill_half_way(cli, "run", "--id", "r", "flow.py:main")
    time.sleep(1.1)
    (cli.directory / "mine.txt").write_text("an evening's work\n")
    cli(how, "r")
    (cli.directory.parent / "fast").touch()
    cli("resume", "r")
    assert (cli.directory / "agent.txt").read_text() == "whole\n"
    assert (cli.directory / "mine.txt").read_text() == "an evening's work\n"


def test_a_cut_off_attempt_is_taken_back_only_where_it_writes(halved):
    """A person's edit beside it was never the step's, whenever it was made."""
    cli = halved
    (cli.directory / "notes.txt").write_text("first\n")
    owner = cli.start("run", "--id", "r", "flow.py:main", "agent.txt", "orig.txt")
    wait_until((cli.directory.parent / "half").exists, "half-way")
    (cli.directory / "notes.txt").write_text("second, while it ran\n")
    owner.kill()
    owner.communicate()
    (cli.directory.parent / "fast").touch()
    cli("resume", "r")
    assert (cli.directory / "notes.txt").read_text() == "second, while it ran\n"
    assert (cli.directory / "agent.txt").read_text() == "whole\n"


def test_a_deletion_at_a_gate_is_the_person_s(cli):
    """The run waited, and has done nothing meanwhile: a rewind does not bring it back."""
    cli.script(HALF)
    (cli.directory / "old.key").write_text("secret\n")
    cli("run", "--id", "r", "flow.py:gated", code=5)
    (cli.directory / "old.key").unlink()
    cli("approve", "r")
    cli("resume", "r")
    cli("rewind", "r", "--to", "begun")
    assert not (cli.directory / "old.key").exists()
    assert not (cli.directory / "f").exists()
