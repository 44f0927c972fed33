"""Kills: at every append of a run there is exactly one document for each milestone, and always the same."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.agents.evidence.normalising import Normaliser
from holdfast.testing import CrashLab
from holdfast.testing.crash import after_append, before_append

SCRIPT = """
import os
from holdfast import Holdfast, command, milestone, workflow

@workflow
def work():
    command(["sh", "-c", "echo one > one.txt; echo made"])
    milestone("one", statement="the first")
    command(["sh", "-c", "echo bad >&2; exit 3"], check=False)
    milestone("two")

with Holdfast(workspace=os.environ["TREE"]) as hf:
    hf.with_id("r").start(work).result()
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tree").mkdir()
    monkeypatch.setenv("TREE", str(tmp_path / "tree"))
    monkeypatch.chdir(tmp_path / "tree")
    return tmp_path / "tree"


def lab_in(directory: Path, tree: Path) -> CrashLab:
    directory.mkdir()
    script = directory / "script.py"
    script.write_text(SCRIPT)
    (tree / "one.txt").unlink(missing_ok=True)
    return CrashLab(script, directory / "store")


def documents(home: Path) -> list[tuple[str, str, str, str]]:
    """What the evidence of the run is, without what differs from one life to the next: times, and how often
    a command that was cut off was tried."""
    normalise = Normaliser()
    with Holdfast(home, read_only=True) as hf:
        found = [hf.evidence.get("r", one.key) for one in hf.evidence.list("r")]
        return [
            (one.key, one.level, one.snapshot, re.sub(r", attempt \d+", "", normalise(one.document)))
            for one in found
        ]


def written(home: Path) -> int:
    with sqlite3.connect(home / "holdfast.db") as db:
        return int(db.execute("SELECT count(*) FROM events WHERE type = 'EvidenceWritten'").fetchone()[0])


@pytest.mark.parametrize("kill", [before_append, after_append], ids=["before", "after"])
def test_one_document_for_each_milestone_at_every_kill(tmp_path: Path, tree: Path, kill: object) -> None:
    """The process dies at its first append, at its second, and so on, until it comes to its end."""
    whole = lab_in(tmp_path / "whole", tree)
    assert whole.run().exit_code == 0
    expected = documents(whole.home)
    assert [one[:2] for one in expected] == [("one#1", "observed"), ("two#1", "observed")]
    for nth in range(1, 60):
        lab = lab_in(tmp_path / f"life-{nth}", tree)
        ended = lab.run(kill=kill(nth))  # type: ignore[operator]
        if not ended.killed:
            break
        assert lab.run().exit_code == 0
        assert documents(lab.home) == expected, nth
        assert written(lab.home) == 2, nth
    else:
        pytest.fail("it never came to its end")
    assert nth > 8
