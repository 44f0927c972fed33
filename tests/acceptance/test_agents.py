"""Agents on the command line: plans with agent steps, checklists, plans that agents write, and settings."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

WHO = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip
SCRIPT = """
work:
  rounds:
    - do: [{write: {path: NOTES.md, text: "${prompt}"}}]
      answer: Wrote NOTES.md
    - do: [{write: {path: more.txt, text: more}}]
      answer: Wrote more.txt
"""
PLAN = """
name: release
description: Publish the version
input: {version: "1.0"}
steps:
  - id: notes
    agent: Notes for ${input.version}
    writes: ["*.md"]
  - id: shown
    run: [cat, NOTES.md]
  - id: said
    needs: [shown]
    run: [echo, "${notes.text}"]
"""
PLAN = PLAN.replace("    run: [cat", "    needs: [notes]\n    run: [cat")


@pytest.fixture
def project(cli):
    """A project with a script agent that the user trusts."""
    (cli.directory / "script.yaml").write_text(SCRIPT)
    (cli.directory / "holdfast.toml").write_text(
        '[agent.rehearsal]\nbackend = "script"\nfile = "script.yaml"\n'
    )
    cli("trust")
    return cli


def test_a_plan_with_an_agent(project):
    """The prompt has the values of the input, the result its answer; `plan check` finds nothing wrong."""
    (project.directory / "release.yaml").write_text(PLAN)
    assert "ok" in project("plan", "check", "release.yaml").err
    done = project("run", "release.yaml", "--id", "r", "--input", "version=2.0", "--json").json()
    assert done["result"]["notes"]["text"] == "Wrote NOTES.md"
    assert done["result"]["notes"]["changes"]
    assert done["result"]["shown"]["stdout"] == "Notes for 2.0"
    assert done["result"]["said"]["stdout"] == "Wrote NOTES.md\n"
    assert "notes" in project("plan", "show", "r").out


def test_a_plan_whose_agent_is_not_there(cli):
    """`plan check` and `run` say all ways, with the place; nothing runs."""
    (cli.directory / "p.yaml").write_text(
        "name: p\nsteps:\n  - {id: a, agent: Go}\n  - {id: b, agent: Go, by: clade}\n"
    )
    told = cli("plan", "check", "p.yaml", code=2).out
    assert "p.yaml:3:13: no agent is configured; put one into holdfast.toml: `[agent.claude]`" in told
    assert 'backend = "llm"' in told and 'backend = "script"' in told
    assert "p.yaml:4:28: there is no agent 'clade'; did you mean claude?" in told
    assert "nothing was run" in cli("run", "p.yaml", code=2).err


def test_a_command_that_came_with_the_project(cli):
    """A plan and a table of somebody else start nothing before `holdfast trust`; `list` works meanwhile."""
    (cli.directory / "holdfast.toml").write_text('[agent.x]\nargv = ["touch", "owned"]\n')
    (cli.directory / "p.yaml").write_text("name: p\nsteps:\n  - {id: a, agent: Go, by: x}\n")
    assert "the agent x is not trusted" in cli("plan", "check", "p.yaml", code=2).out
    cli("run", "p.yaml", code=2)
    cli("list")
    shown = cli("config", "show")
    assert "agent.x" in shown.out and "command: touch owned" in shown.out
    assert "not trusted: holdfast.toml:1 has the agent x (command: touch owned)" in shown.err
    assert not (cli.directory / "owned").exists()
    assert "agent.x" in cli("trust").out
    cli("run", "p.yaml")
    assert (cli.directory / "owned").exists()


def git(directory: Path, *words: str) -> str:
    env = WHO | {"PATH": os.environ["PATH"]}
    return subprocess.run(
        ["git", *words], cwd=directory, env=env, check=True, capture_output=True, text=True
    ).stdout


def test_a_checklist_for_an_agent(project):
    """Items without a command are its work, one after another, with a commit after each; ticked ones are left
    out."""
    git(project.directory, "init", "-q")
    git(project.directory, "add", "-A")
    git(project.directory, "commit", "-qm", "begin")
    (project.directory / "list.md").write_text(
        "---\ncommit: true\nagent: rehearsal\n---\n- [x] Done before\n- [ ] Write the notes\n"
        "- [ ] Write more\n- [ ] Look: `ls`\n"
    )
    project("run", "list.md", "--id", "r", **WHO)
    assert (project.directory / "more.txt").read_text() == "more"
    log = git(project.directory, "log", "--format=%s", "--name-only").split()
    assert git(project.directory, "log", "--format=%s").splitlines() == [
        "Write more",
        "Write the notes",
        "begin",
    ]
    assert "NOTES.md" in log and "more.txt" in log


WRITER = """
plan:
  - answer: |
      Here it is:
      ```yaml
      name: twice
      steps:
        - {id: weigh, run: [no-such-program-x]}
        - {id: weigh, run: [echo, twice]}
      ```
  - answer: |
      ```yaml
      name: twice
      steps:
        - {id: weigh, run: [echo, twice]}
      ```
"""


def test_a_plan_that_an_agent_writes(project):
    """What `plan check` finds wrong goes back to the agent once, with the lines; the file is what it
    accepts."""
    (project.directory / "script.yaml").write_text(WRITER)
    project("trust")
    told = project("plan", "new", "Weigh twice", "--agent", "rehearsal", "-o", "twice.yaml")
    assert "rehearsal writes the plan" in told.err
    plan = (project.directory / "twice.yaml").read_text()
    assert plan == "name: twice\nsteps:\n  - {id: weigh, run: [echo, twice]}\n"
    project("plan", "check", "twice.yaml")
    run = project("list", "--json").json()[0]
    assert run["status"] == "completed"
    events = project("show", run["id"], "--events", "--json").out
    assert "no-such-program-x" in events and "is taken by the step in line 3" in events


def test_a_plan_that_an_agent_cannot_write(project):
    """Two answers with faults end the run with the faults; no file is written."""
    (project.directory / "script.yaml").write_text("plan: {answer: 'I would rather not.'}\n")
    project("trust")
    told = project("plan", "new", "Weigh twice", "--agent", "rehearsal", "-o", "twice.yaml", code=2)
    assert "the plan of the agent has a fault" in told.err
    assert not (project.directory / "twice.yaml").exists()


AGENT = """
import os, sys, json, subprocess
sys.stdin.read()
print(json.dumps({"type": "system", "session_id": "s-1"}), flush=True)
before = open("NOTES.md").read()
open("NOTES.md", "w").write("half")
if os.path.exists("../hang"):
    child = subprocess.Popen(["sleep", "600"])
    open("../pids", "w").write(f"{os.getpid()} {child.pid}.")
    child.wait()
open("NOTES.md", "w").write(f"{before}, whole")
print(json.dumps({"type": "result", "result": "Wrote it", "session_id": "s-1", "total_cost_usd": 0.25}))
"""


def test_a_kill_in_the_middle_of_an_edit(cli, wait_until):
    """`kill -9` of holdfast: the agent's tree is dead, its half edit is rolled back by `resume`, which ends
    well with cost and session."""
    tree, outside = cli.directory, cli.directory.parent
    (outside / "agent.py").write_text(AGENT)
    (outside / "hang").touch()
    (tree / "holdfast.toml").write_text(
        f'[agent.mine]\nargv = ["{cli.python}", "{outside}/agent.py"]\nparse = "claude"\n'
    )
    (tree / "p.yaml").write_text("name: p\nsteps:\n  - {id: notes, agent: Write the notes}\n")
    (tree / "NOTES.md").write_text("before")
    cli("trust")
    process = cli.start("run", "p.yaml", "--id", "r")
    pids = outside / "pids"
    wait_until(lambda: pids.exists() and pids.read_text().endswith("."), "the agent")
    alive = [Path("/proc") / pid for pid in pids.read_text().strip(".").split()]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(one.exists() for one in alive), "the end of its tree")
    assert (tree / "NOTES.md").read_text() == "half"
    (outside / "hang").unlink()
    cli("resume", "r")
    assert (tree / "NOTES.md").read_text() == "before, whole"
    shown = cli("show", "r", "--json").json()
    assert shown["result"]["notes"]["session"] == "s-1"
    assert shown["measured"][0]["usd"] == "0.25"
