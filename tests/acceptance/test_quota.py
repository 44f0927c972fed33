"""The quota of saved files: who gives up snapshots, which, and what is said of it afterwards."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from holdfast import Holdfast, step, workflow, workspace_path

TIGHT = {"HOLDFAST_WORKSPACE_QUOTA_MB": "1"}
BIG = 1_500_000


def remove(cli, run_id: str, **env: str) -> None:
    """A run that removes a file of which its snapshot is the only copy."""
    (cli.directory / "dataset").write_bytes(os.urandom(BIG))
    cli("run", "--id", run_id, "rm dataset", **env)


def saved(cli) -> int:
    size: int = cli("du", "--json").json()["files"]
    return size


@pytest.mark.parametrize(
    "words",
    [
        ("du",),
        ("gc", "--dry-run"),
        ("diff", "r2", "rm"),
        ("rewind", "r1", "--to", "rm", "--dry-run"),
        ("workspace", "status"),
    ],
)
def test_who_only_looks_gives_nothing_up(cli, words):
    """A store that is over its quota is as it was after any command that executes no run."""
    remove(cli, "r1")
    remove(cli, "r2")
    before = saved(cli)
    cli(*words, **TIGHT)
    assert saved(cli) == before > 2 * BIG


def test_the_newest_run_keeps_the_only_copy(cli):
    """Runs that end give up the files of older ones; the last one can be undone however little room is."""
    remove(cli, "r1", **TIGHT)
    assert "removed dataset" in cli("diff", "r1", "before:rm", **TIGHT).out
    told = cli("gc", "--dry-run", **TIGHT).out
    assert "over" in told and "r1" not in told
    remove(cli, "r2", **TIGHT)
    assert "removed dataset" in cli("diff", "r2", "before:rm", **TIGHT).out
    assert saved(cli) < 2 * BIG, "of the older run nothing is kept"


def test_a_dry_run_says_what_the_quota_would_take(cli):
    """The runs, the oldest first, and how much it is over; asked for without it, they go."""
    for name in ("r1", "r2", "r3"):
        remove(cli, name)
    planned = cli("gc", "--dry-run", "--quota", "2", "--json").json()
    assert planned["forgotten"] == ["r1", "r2"] and planned["over"] > BIG
    assert cli("gc", "--quota", "2", "--json").json()["forgotten"] == ["r1", "r2"]


def test_what_an_undo_needs_is_kept(cli):
    """The run of somebody's last operation keeps its files, though a newer one has ended."""
    remove(cli, "r1")
    cli.script('@workflow\ndef main():\n    checkpoint("cp")\n    command(["sh", "-c", "rm dataset"])\n')
    (cli.directory / "dataset").write_bytes(os.urandom(BIG))
    cli("run", "--id", "r2", "flow.py:main")
    cli("rewind", "r2", "--to", "cp")
    cli("resume", "r2")
    remove(cli, "r3")
    assert cli("gc", "--quota", "1", "--json").json()["forgotten"] == ["r1"]
    assert "was undone" in cli("undo").out


def test_what_was_given_up_is_said(cli):
    """By rewind, diff and undo, each with the way to do without; a rewind without files goes."""
    cli.script('@workflow\ndef main():\n    checkpoint("cp")\n    command(["sh", "-c", "rm -f dataset"])\n')
    (cli.directory / "dataset").write_bytes(os.urandom(BIG))
    cli("run", "--id", "r1", "flow.py:main")
    cli("rewind", "r1", "--to", "cp")
    cli("resume", "r1")
    rewound = cli("op", "log", "--json").json()[0]["id"]
    remove(cli, "r2")
    cli("rewind", "r2", "--to", "rm", "--no-files")  # now r1's is nobody's last operation
    cli("resume", "r2")
    assert cli("gc", "--quota", "1", "--json").json()["forgotten"] == ["r1"]
    for words in (("rewind", "r1", "--to", "cp"), ("undo", rewound)):
        told = cli(*words, code=2).err
        assert "`workspace_quota_mb`" in told and "--no-files" in told
    assert "`workspace_quota_mb`" in cli("diff", "r1", "cp", code=2).err
    assert "completed again" in cli("undo", rewound, "--no-files").out
    assert "was rewound" in cli("rewind", "r1", "--to", "cp", "--no-files").out


@step(effect="workspace")
def remove_it() -> None:
    (workspace_path() / "dataset").unlink()


@workflow
def drop() -> None:
    remove_it()


def test_a_program_keeps_to_the_quota_when_it_closes(tmp_path: Path, monkeypatch, caplog):
    """And logs what went."""
    monkeypatch.setenv("HOLDFAST_WORKSPACE_QUOTA_MB", "1")
    root = tmp_path / "root"
    root.mkdir()
    caplog.set_level(logging.INFO, "holdfast")
    with Holdfast(tmp_path / "home", workspace=root) as hf:
        for name in ("r1", "r2"):
            (root / "dataset").write_bytes(os.urandom(BIG))
            hf.with_id(name).run(drop)
        assert not any("quota" in one.message for one in caplog.records)
    assert next(one.message for one in caplog.records if "quota" in one.message).endswith(": r1")


def test_a_run_that_was_rewound_leaves_nothing_when_it_is_archived(cli):
    """What its operations name goes with it; a run of today keeps its own."""
    cli.script('@workflow\ndef main():\n    checkpoint("cp")\n    command(["sh", "-c", "rm -f dataset"])\n')
    (cli.directory / "dataset").write_bytes(os.urandom(BIG))
    cli("run", "--id", "r", "flow.py:main")
    cli("rewind", "r", "--to", "cp")
    cli("resume", "r")
    cli("archive", "--older-than", "0s")
    assert cli("gc", "--json").json()["freed"] > BIG
    assert saved(cli) == 0
    assert "archived" in cli("undo", code=None).err
    remove(cli, "r2")
    cli("gc")
    assert "removed dataset" in cli("diff", "r2", "before:rm").out
