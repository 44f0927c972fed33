"""`holdfast evidence` as a person uses it: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.acceptance.conftest import Cli

FLOW = """
    from holdfast import command, milestone
    @workflow
    def ship():
        command(["sh", "-c", "echo made"])
        command(["cat", "answer.txt"], effect="idempotent")
        milestone("made", statement="it is made")
    @workflow
    def pay():
        command(["true"], effect="once")
        milestone("paid")
"""


@pytest.fixture
def shipped(cli: Cli) -> Cli:
    cli.script(FLOW)
    (cli.directory / "answer.txt").write_text("42\n")
    cli("run", "flow.py:ship", "--id", "r")
    return cli


def test_list_and_show(shipped: Cli) -> None:
    """Rows for people, JSON for programs, the document as Markdown; a run is named by its beginning."""
    assert shipped("evidence", "list").out.startswith("r  made#1  observed")
    (one,) = shipped("evidence", "list", "r", "--json").json()
    assert (one["run"], one["milestone"], one["level"], one["commands"]) == ("r", "made", "observed", 2)
    shown = shipped("evidence", "show", "r").out
    assert shown.startswith("# Evidence: `made`\n") and "```text\nit is made\n```" in shown
    found = shipped("evidence", "show", "r", "made", "--json").json()
    assert found["document"] == shown and found["digest"] == one["digest"]


def test_names_that_are_not_there(cli: Cli) -> None:
    """A project without a store has no evidence, and that is no mistake; a name that is wrong is one."""
    assert cli("evidence", "list", "--json").json() == []
    cli.script(FLOW)
    cli("run", "flow.py:pay", "--id", "p")
    assert "it has: paid" in cli("evidence", "show", "p", "made", code=3).err
    assert "no run has the id 'q'" in cli("evidence", "verify", "q", code=3).err


def test_verify_ends_with_1_if_a_command_differs(shipped: Cli) -> None:
    """And names it, with a diff; otherwise with 0."""
    assert "made#1  equal  reproduced" in shipped("evidence", "verify", "r").out
    (shipped.directory / "answer.txt").write_text("41\n")
    printed = shipped("evidence", "verify", "r", code=1).out
    assert "! different  cat#1  cat answer.txt\n      stdout differs\n" in printed
    assert "      -42\n      +41\n" in printed
    (one,) = shipped("evidence", "verify", "r", "made", "--json", code=1).json()
    assert [check["outcome"] for check in one["checks"]] == ["equal", "different"]
    assert shipped("evidence", "verify", "r", "--at", "milestone").code == 0


def test_verify_ends_with_1_if_nothing_could_be_run(cli: Cli) -> None:
    """A check that has not looked at anything does not pass."""
    cli.script(FLOW)
    cli("run", "flow.py:pay", "--id", "p")
    done = cli("evidence", "verify", "p", code=1)
    assert "- skipped  true#1  true\n      it has the effect `once`, and is not repeated" in done.out
    assert "nothing was verified" in done.err


def test_export(shipped: Cli, tmp_path: Path) -> None:
    """The paths of the files; a directory that cannot be made is named."""
    out = tmp_path / "proof" / "r"
    assert shipped("evidence", "export", "r", out).out.split() == [f"{out}/made-1.md", f"{out}/index.json"]
    assert json.loads((out / "index.json").read_text())[0]["file"] == "made-1.md"
    (tmp_path / "file").write_text("")
    assert "cannot be written" in shipped("evidence", "export", "r", tmp_path / "file" / "x", code=2).err
