"""`holdfast deliver` with the installed program and a scripted agent: at a terminal, parked, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GOAL = "Let greet() in greet.py say hello"
CHECK = f"{sys.executable} check.py"
SCRIPT = """
plan:
  rounds:
    - do: [{run: {argv: [sh, ../pass.sh, plan], effect: idempotent}}]
      answer: "1. In greet.py, return Hello."
  on_rejection:
    answer: "1. In greet.py, return Hello, as asked: ${reason}"
implement:
  - do:
      - write: {path: greet.py, text: "GREETING = 'Hello'\\n"}
      - run: {argv: [sh, ../pass.sh, implement]}
      - write: {path: notes.md, text: "greets\\n"}
    answer: greet.py greets.
review:
  - do: [{run: {argv: [sh, ../pass.sh, review], effect: idempotent}}]
    answer: "Fine.\\nVERDICT: APPROVED"
"""
PASS = """
# Says that it was called, and waits as long as there is a file that holds it.
cd "$(dirname "$0")"
echo "$1" >> passed.txt
[ "$1" = implement ] && echo half > project/half.txt
while [ -e "hold-$1" ]; do sleep 0.02; done
rm -f project/half.txt
"""
CHECK_PY = """
import subprocess
subprocess.run(["sh", "../pass.sh", "check"], check=True)
import greet
assert greet.GREETING == "Hello"
"""


@pytest.fixture
def repo(cli):
    """A project with a git repository, a scripted agent, and a check."""
    (cli.directory / "greet.py").write_text("GREETING = ''\n")
    (cli.directory / "check.py").write_text(CHECK_PY)
    (cli.directory / "holdfast.toml").write_text(
        '[agent.script]\nbackend = "script"\nfile = "../script.yaml"\n'
    )
    (cli.directory / ".gitignore").write_text("__pycache__/\n")
    (cli.directory.parent / "script.yaml").write_text(SCRIPT)
    (cli.directory.parent / "pass.sh").write_text(PASS)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        subprocess.run(["git", *who, *words], cwd=cli.directory, check=True)
    cli.env["HOLDFAST_TRUST"] = str(cli.directory)
    return cli


def passed(cli) -> list[str]:
    path = cli.directory.parent / "passed.txt"
    return path.read_text().split() if path.exists() else []


def tree(cli) -> dict[str, str]:
    found = {}
    for path in sorted(cli.directory.rglob("*")):
        if path.is_file() and not {".git", ".holdfast", "__pycache__"} & set(path.parts):
            found[str(path.relative_to(cli.directory))] = path.read_text()
    return found


def record(cli, run_id: str = "d") -> dict[str, Any]:
    found: dict[str, Any] = cli("show", run_id, "--json").json()["deliver"]
    return found


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    """The record without what no two runs have in common."""
    plain = json.loads(json.dumps(found))
    plain["task"] = None
    plain["log"] = [one["stage"] for one in plain["log"]]
    for one in plain["approvals"]:
        one["at"] = None
    for one in plain["verification"]["checks"]:
        one["duration_s"] = 0
    return plain


DONE = {"greet.py": "GREETING = 'Hello'\n", "notes.md": "greets\n"}


# At a terminal, and without one


def test_at_a_terminal(repo):
    """Both approvals are asked there; a rejection asks for the reason, and the plan comes back with it."""
    terminal = repo.at_a_terminal("deliver", GOAL, "--id", "d", "--check", CHECK)
    terminal.expect("1. In greet.py, return Hello.")
    terminal.expect("approve (a)")
    terminal.type("r\n")
    terminal.expect("why")
    terminal.type("in capitals\n")
    terminal.expect("as asked: in capitals")
    terminal.expect("approve (a)")
    terminal.type("a\n")
    terminal.expect("+GREETING = 'Hello'")
    terminal.expect("approve (a)")
    terminal.type("a\n")
    code, text = terminal.end()
    assert code == 0, text
    assert tree(repo).items() >= DONE.items()
    assert record(repo)["retries"]["plan"] == 1


def test_without_a_terminal_it_waits(repo):
    """It exits with 5 and prints how to approve and reject; other processes decide, and `resume` goes on."""
    parked = repo("deliver", GOAL, "--id", "d", "--check", CHECK, code=5)
    assert "holdfast approve d 'plan#1@" in parked.err and "holdfast reject d 'plan#1@" in parked.err
    repo("reject", "d", "plan", "--comment", "in capitals", "--by", "ann")
    again = repo("resume", "d", code=5)
    assert "in stage plan_awaiting_approval" in again.err
    assert "the last checkpoint is after_planning#1" in again.err
    assert "as asked: in capitals" in again.err
    repo("approve", "d", "plan", "--by", "ann")
    shown = repo("resume", "d", code=5)
    assert "+GREETING = 'Hello'" in shown.err
    done = repo("approve", "d", "implementation", "--by", "bob", "--comment", "good", "--resume")
    assert json.loads(done.out)["verified"] is True
    found = record(repo)
    said = [(one["gate"], one["outcome"], one["by"], one["reason"]) for one in found["approvals"]]
    assert said == [
        ("plan#1", "rejected", "ann", "in capitals"),
        ("plan#2", "approved", "ann", None),
        ("implementation#1", "approved", "bob", "good"),
    ]


def test_show_and_list(repo):
    """`show` has the record, `list` the goal and the stage."""
    repo("deliver", GOAL, "--id", "d", "--check", CHECK, code=5)
    listed = repo("list").out
    assert GOAL in listed and "plan_awaiting_approval" in listed
    repo("approve", "d")
    repo("resume", "d", code=5)
    repo("approve", "d", "--resume")
    shown = repo("show", "d").out
    for line in (
        f"request   {GOAL}",
        "plan      round 1, greet.py",
        "review    approved",
        "verified  passed",
    ):
        assert line in shown
    assert "completed" in repo("resume", "d").out


def test_json(repo):
    """`--json` prints the run at the end, also one that waits."""
    waits = repo("deliver", GOAL, "--id", "d", "--check", CHECK, "--json", code=5).json()
    assert (waits["status"], waits["stage"], waits["title"]) == ("waiting", "plan_awaiting_approval", GOAL)
    done = repo("deliver", GOAL, "--id", "e", "--check", CHECK, "--yes", "--json").json()
    assert done["deliver"]["verification"]["passed"] is True


def test_a_goal_that_run_is_given(repo):
    """`run` names the command that is meant."""
    assert "holdfast deliver 'Add auth'" in repo("run", "Add auth", code=3).err


def test_no_agent(repo):
    """Without an agent nothing is started, and the error has the ways to get one."""
    (repo.directory / "holdfast.toml").unlink()
    refused = repo("deliver", GOAL, code=3)
    assert "[agent.claude]" in refused.err and "script" in refused.err
    assert repo("list", "--json").json() == []


@pytest.mark.parametrize("key", ["checks = ['true']", "plan = 'x.yaml'", "policy.all = {}"])
def test_settings_that_came_with_the_project(repo, key):
    """Commands, a plan and approvals of a file that the user does not trust are refused before anything
    starts."""
    del repo.env["HOLDFAST_TRUST"]
    (repo.directory / "holdfast.toml").write_text(f"[agent.claude]\n[deliver]\n{key}\n")
    refused = repo("deliver", GOAL, code=9)
    assert "may come from another person" in refused.err and "holdfast trust" in refused.err


def test_settings(repo):
    """Checks and policies of the settings are used; a wrong one is named with its line."""
    settings = repo.directory / "holdfast.toml"
    agent = settings.read_text()
    settings.write_text(f"{agent}[deliver]\nchecks = ['true']\n[deliver.policy.all]\nfiles = 3\n")
    printed = repo("deliver", GOAL, "--id", "d").err
    assert "plan#1 approved by policy:all" in printed
    assert "waits for" not in printed  # no person has to decide
    found = record(repo)
    assert [one["command"] for one in found["verification"]["checks"]] == ["true"]
    assert [one["by"] for one in found["approvals"]] == ["policy:all", "policy:all"]
    settings.write_text(f"{agent}[deliver]\nchecks = 3\nround = 1\n[deliver.policy.a]\nfile = 1\n")
    wrong = repo("deliver", GOAL, code=2).err
    assert "holdfast.toml:5: deliver.checks must be" in wrong
    assert "did you mean rounds?" in wrong
    assert "deliver.policy.a" in wrong


def test_a_limit_in_dollars(repo):
    """`--max-usd` gives the run a budget of its own."""
    repo("deliver", GOAL, "--id", "d", "--max-usd", "2.50", "--yes", "--check", "true")
    with_budget = repo("deliver", GOAL, "--max-usd", "x", code=2)
    assert "is no amount of money" in with_budget.err


# kill -9

DRIVER = """
import os, signal, sys
from holdfast import Holdfast
stage, goal, check = sys.argv[1:]
def kill(event):
    if event.type == "StageEntered" and event.data["name"] == stage:
        os.kill(os.getpid(), signal.SIGKILL)
hf = Holdfast(on_event=kill)
hf.deliver(goal, run_id="d", yes=True, checks=[check]).result()
"""


STAGES = [
    "pending", "planning", "plan_awaiting_approval", "plan_approved", "implementing",
    "implementation_awaiting_approval", "reviewing", "verifying", "completed",
]  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
def test_killed_in_a_stage(repo, stage):
    """Killed when a stage is in the log, it resumes there; the files, the record and the stages are those of
    a run that nothing stopped."""
    killed = subprocess.run(
        [repo.python, "-c", DRIVER, stage, GOAL, CHECK], cwd=repo.directory, env=repo.env, check=False,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = [one["stage"] for one in record(repo)["log"]]
    assert before[-1] == stage and before == STAGES[: len(before)]
    resumed = repo("resume", "d", code=None)
    assert resumed.code == 0, resumed
    after, files = timeless(record(repo)), tree(repo)
    repo("rewind", "d", "--to", "start")
    assert tree(repo)["greet.py"] == "GREETING = ''\n"
    repo("deliver", GOAL, "--id", "whole", "--yes", "--check", CHECK)
    assert after == timeless(record(repo, "whole"))
    assert files == tree(repo)
    assert after["log"] == STAGES


@pytest.mark.parametrize("where", ["plan", "implement", "review", "check"])
def test_killed_while_something_works(repo, where, wait_until):
    """What a cut-off job did to the files is rolled back, the job runs again, and no job before it does."""
    hold = repo.directory.parent / f"hold-{where}"
    hold.touch()
    process = repo.start("deliver", GOAL, "--id", "d", "--yes", "--check", CHECK)
    wait_until(lambda: where in passed(repo), f"{where} to begin")
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = passed(repo)
    hold.unlink()
    repo("resume", "d")
    assert passed(repo) == [*before, *["plan", "implement", "review", "check"][len(before) - 1 :]]
    assert tree(repo).items() >= DONE.items() and "half.txt" not in tree(repo)
    assert [one["stage"] for one in record(repo)["log"]] == STAGES


def test_killed_while_it_asks(repo):
    """Killed at the terminal with the question open, the run still waits; another process decides."""
    terminal = repo.at_a_terminal("deliver", GOAL, "--id", "d", "--check", CHECK)
    terminal.expect("approve (a)")
    os.killpg(terminal.process.pid, signal.SIGKILL)
    terminal.process.wait()
    waits = repo("show", "d").out
    assert "plan_awaiting_approval" in waits and "1. In greet.py, return Hello." in waits
    repo("approve", "d", "plan")
    repo("resume", "d", code=5)
    repo("approve", "d", "implementation", "--resume")
    assert tree(repo).items() >= DONE.items()


def test_edited_between_the_approval_and_the_resume(repo):
    """A file that the plan names and that changed after the approval: the plan is asked for again, with the
    difference."""
    repo("deliver", GOAL, "--id", "d", "--check", CHECK, code=5)
    repo("approve", "d", "plan")
    Path(repo.directory / "greet.py").write_text("GREETING = 'theirs'\n")
    again = repo("resume", "d", code=5)
    assert "plan#2" in again.err and "+GREETING = 'theirs'" in again.err
    assert "implement" not in passed(repo)


DIES_AFTER_APPROVAL = """
import os, signal, sys
from holdfast import Holdfast
from holdfast.agents.deliver import delivery
async def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
delivery.note = die
Holdfast().deliver(sys.argv[1], run_id="d", yes=True, checks=["true"]).result()
"""


def test_drift_before_implementing(repo):
    """Killed after the approval was compared with the files, and edited before it is resumed: the plan is
    asked for again, of a person, and nothing was implemented."""
    killed = subprocess.run(
        [repo.python, "-c", DIES_AFTER_APPROVAL, GOAL], cwd=repo.directory, env=repo.env, check=False,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (repo.directory / "other.txt").write_text("of no plan\n")
    (repo.directory / "greet.py").write_text("GREETING = 'theirs'\n")
    again = repo("resume", "d", code=5)
    assert "plan#2" in again.err and "+GREETING = 'theirs'" in again.err
    assert "It is asked again" in again.err and "other.txt" not in again.err
    assert "implement" not in passed(repo)
