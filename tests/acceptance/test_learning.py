"""Router, skills, budget and evidence together, with the installed program: the example, kills, a model
that is down, and a router of the project's own."""

from __future__ import annotations

import shutil
import signal
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/learning"
HEADLINES = [
    "Kelp grows half a metre a",
    "Otters eat urchins, and where otters",
    "Holdfasts keep kelp on the rock",
]
DIGEST = "".join(f"- {line}\n" for line in HEADLINES)

DRILL = """
import itertools, os, signal, sys
from holdfast import Holdfast
from holdfast.store.sqlite.store import SqliteStore
from holdfast.clock import SystemClock
from digest import digest

SystemClock.random = lambda self: 0.5  # rarely, a skill is left out by chance
last = int(sys.argv[1])
writes = itertools.count(1)

def killed_after(name):
    write = getattr(SqliteStore, name)
    def counted(self, *args, **kwargs):
        result = write(self, *args, **kwargs)
        if next(writes) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(SqliteStore, name, counted)

for name in ("append", "append_soon", "command", "command_all"):
    killed_after(name)
with Holdfast(sys.argv[2], workspace=".", durability="process") as hf:
    print(hf.with_id("d").run(digest))
"""
"""Executes the workflow, and kills its process after the write of that number; 0 for never."""


@pytest.fixture
def example(cli) -> Path:
    shutil.copytree(EXAMPLE, cli.directory, dirs_exist_ok=True)
    return cli.directory


def test_the_example_runs(cli, example):
    """Budget, router, skill and milestone in one workflow; what was learned and what it cost is shown."""
    done = cli("run", "digest.py:digest", "--id", "d", "--json").json()
    assert done["result"] == HEADLINES and (example / "digest.md").read_text() == DIGEST
    (large, *small) = cli("router", "show", "headline", "--json").json()
    assert large["candidate"] == "large" and large["good"] >= 1 and large["bad"] == 0
    assert all(one["failed"] == one["bad"] for one in small)
    (stats,) = cli("skills", "stats", "--json").json()
    assert (stats["skill"], stats["kind"], stats["bad"], stats["current"]) == (
        "headline",
        "headline",
        0,
        True,
    )
    good = stats["good"]  # rarely, a skill is left out by chance
    assert 1 <= good <= 3
    assert "headline" in cli("skills", "list").out and f"{good} good" in cli("skills", "list").out
    assert "at most 6 words" in cli("skills", "show", "headline").out
    (evidence,) = cli("evidence", "list", "--json").json()
    assert (evidence["milestone"], evidence["level"]) == ("digest-written", "observed")


def test_killed_after_every_write(tmp_path, cli):
    """The workflow ends in the same way wherever it is killed: the same result and files, each skill and each
    answer reported once, one document, no cost beyond what was reserved, and nothing left reserved."""
    number, was_killed = 0, True
    while was_killed:
        number += 1
        directory = tmp_path / f"life{number}"
        shutil.copytree(EXAMPLE, directory)
        (directory / "drill.py").write_text(DRILL)
        lives = [
            subprocess.run(
                [cli.python, "drill.py", last, "../home" + str(number)],
                cwd=directory,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            for last in (str(number), "0")
        ]
        was_killed = lives[0].returncode == -signal.SIGKILL
        assert was_killed or lives[0].returncode == 0, lives[0].stderr
        assert (lives[1].returncode, lives[1].stdout) == (0, f"{HEADLINES}\n"), lives[1].stderr
        assert (directory / "digest.md").read_text() == DIGEST
        _check_store(tmp_path / f"home{number}")
    assert number > 15


def _check_store(home: Path) -> None:
    from holdfast import Holdfast

    with Holdfast(home, read_only=True) as hf:
        assert hf.get("d").status == "completed"
        router = hf.router.stats()
        assert sum(one.good for one in router) == 3
        (skill,) = hf._store.outcome_sums("skills")
        assert (skill.good, skill.bad) == (3, 0)
        assert [one.milestone for one in hf.evidence.list("d")] == ["digest-written"]
        paid = hf.budgets.get("digest")
        reported = sum((one.usd for one in router if one.usd is not None), Decimal(0))
        assert reported <= paid.spent.usd <= Decimal("0.50")
        assert not paid.reserved.usd
        assert list(hf._store.verify()) == []


FLOW = """
from pathlib import Path
from holdfast import step, workflow
from holdfast.agents import router

@step
def ask(model: str) -> str:
    if Path("down").exists():
        raise ConnectionError(f"{model} is down")
    return model

@workflow
def answer() -> str:
    return router.failover("answer", ["small", "large"], ask)
"""


def test_all_models_down_is_exit_7_and_resume_continues(cli):
    """The run is paused with a sentence that names each model; `resume` tries again, and completes the
    run."""
    (cli.directory / "flow.py").write_text(FLOW)
    (cli.directory / "down").touch()
    paused = cli("run", "flow.py:answer", "--id", "a", code=7)
    for said in ("all candidates for 'answer' failed", "small is down", "large is down", "holdfast resume a"):
        assert said in paused.err
    assert cli("show", "a", "--json").json()["status"] == "paused"
    cli("resume", "a", code=7)
    shown = cli("router", "show", "answer", "--json").json()
    assert [(one["candidate"], one["failed"]) for one in shown] == [("large", 2), ("small", 2)]
    (cli.directory / "down").unlink()
    assert cli("resume", "a", "--json").json()["result"] in ("small", "large")


ROUTING = """
class LargeFirst:
    def __init__(self, engine, settings):
        self.engine = engine

    def rank(self, kind, candidates):
        return sorted(candidates)
"""


def test_a_resumed_run_has_the_router_of_its_project(cli):
    """A setting names it, once it is trusted: every process that executes the run uses it."""
    (cli.directory / "flow.py").write_text(FLOW)
    (cli.directory / "routing.py").write_text(ROUTING)
    (cli.directory / "holdfast.toml").write_text('handlers = {router = "routing.py:LargeFirst"}\n')
    (cli.directory / "down").touch()
    refused = cli("run", "flow.py:answer", "--id", "a", code=9)
    assert "sets handlers" in refused.err and "holdfast trust" in refused.err
    cli("trust")
    cli("run", "flow.py:answer", "--id", "a", code=7)
    (cli.directory / "down").unlink()
    assert cli("resume", "a", "--json").json()["result"] == "large"


def test_skills_without_a_store(cli):
    """They are listed, shown and checked before anything has run; a fault is named with its line, exit 2."""
    assert cli("skills", "list", "--json").json() == []
    assert "a folder with a SKILL.md" in cli("skills", "list").err
    good, bad = cli.directory / "skills/good", cli.directory / "skills/bad"
    for folder in (good, bad):
        folder.mkdir(parents=True)
    (good / "SKILL.md").write_text("---\nname: good\ndescription: Does good.\nkinds: [work]\n---\nText.\n")
    cli("skills", "check")
    (bad / "SKILL.md").write_text("---\nname: bad\n---\n")
    assert [one["name"] for one in cli("skills", "list", "--json").json()] == ["good"]
    assert "left out: skills/bad/SKILL.md:1: `description` is missing" in cli("skills", "list").err
    assert cli("skills", "show", "good", "--json").json()["text"] == "Text."
    assert "Does good." in cli("skills", "show", "good").out
    assert "is left out" in cli("skills", "show", "bad", code=3).err
    assert "nearest: good" in cli("skills", "show", "goo", code=3).err
    assert cli("skills", "check", code=2).out == "skills/bad/SKILL.md:1: `description` is missing\n"
    assert cli("skills", "check", "--json", code=2).json()[0]["line"] == 1
    assert cli("router", "list", "--json").json() == cli("skills", "stats", "--json").json() == []
    cli("router", "show", "work", code=3)
