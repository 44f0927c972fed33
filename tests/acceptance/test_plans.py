"""Plans on the command line, and the examples, each run as its README says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
WHO = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip


@pytest.fixture
def example(cli):
    """The directory of an example, copied into the project."""

    def copy(name: str) -> Path:
        shutil.copytree(EXAMPLES / name, cli.directory, dirs_exist_ok=True)
        return cli.directory

    return copy


def git(directory, *words):
    env = WHO | {"PATH": "/usr/bin:/bin"}
    argv = ["git", *words]
    return subprocess.run(argv, cwd=directory, env=env, check=True, capture_output=True, text=True).stdout


def test_release(cli, example):
    """It waits for the approval; then the sub-plan publishes. A dry run skips what needs the approval."""
    directory = example("release")
    told = cli("run", "release.yaml", "--id", "r", "--input", "version=1.10", code=5)
    assert "Version 1.10: 2 files" in told.err
    done = cli("approve", "r", "--resume")
    assert "completed" in done.err and (directory / "release-1.10.tar").exists()
    assert (directory / "ANNOUNCEMENT").read_text().startswith("Version 1.10: 2 files changed")
    assert "released" in cli("plan", "show", "r").out
    shown = cli("show", "r").out
    assert "holdfast plan show r" in shown and '{"version":' in shown and "PlanStep" not in shown
    dry = cli("plan", "run", "release.yaml", "--input", "version=2", "--input", "dry=true", "--json").json()
    assert set(dry["result"]) == {"files", "lint", "notes"}


def test_research(cli, example):
    """One answer for each source, and a report of all; `show` fits it into the columns of a terminal."""
    example("research")
    found = cli("run", "research.yaml", "--id", "r", "--json").json()["result"]
    _, told = cli.on_a_terminal("show", "r", columns=60, NO_COLOR="1")
    assert max(map(len, told.partition("result ")[2].splitlines())) <= 60
    assert found["report"] == (
        "# kelp: 2 findings\n- Urchins eat kelp. (animals.txt)\n"
        "- Kelp grows up to half a metre a day. (plants.txt)"
    )


def test_migration(cli, example):
    """Two approvals; what is rejected leaves the old table where it is."""
    example("migration")
    subprocess.run([cli.python, "migration_tools.py"], cwd=cli.directory, check=True)
    assert "Migrate 5 customers?" in cli("run", "migration.yaml", "--id", "m", code=5).err
    assert "5 of 5 moved" in cli("approve", "m", "--resume", code=5).err
    assert "asks again" in cli("reject", "m", "--resume", code=1).err
    assert "✗" in cli("plan", "show", "m").out
    cli("rewind", "m", "--to", "batches")
    cli("resume", "m", code=5)
    cli("approve", "m", "--resume")


def test_nightly(cli, example):
    """The slow part is skipped on demand; when a step fails, the alarm is written; a resume repairs it."""
    directory = example("nightly")
    quick = cli("run", "nightly.yaml", "--input", "quick=true", "--json").json()["result"]
    assert "slow" not in quick and "alarm" not in quick
    assert cli("run", "nightly.yaml", "--json").json()["result"]["report"] == "4 rows in 2 files"
    code = (directory / "nightly_tools.py").read_text()
    (directory / "nightly_tools.py").write_text(code.replace("len(rows)", "len(row)"))
    cli("run", "nightly.yaml", "--id", "bad", code=1)
    assert (directory / "alarms.log").read_text() == "the nightly report failed\n"
    (directory / "nightly_tools.py").write_text(code)
    assert cli("resume", "bad", "--json").json()["result"]["report"] == "4 rows in 2 files"
    assert "checkpoint[1]/after-2-steps#1" in cli("checkpoints", "bad").out


def test_checklist(cli, example):
    """Item by item, a commit after each that changed something."""
    directory = example("checklist")
    (directory / ".gitignore").write_text(".holdfast/\n")
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "begin")
    cli.env |= {**WHO, "HOLDFAST_MIRROR_DIR": str(directory / ".holdfast")}
    cli("run", "checklist.md", "--id", "c", code=5)
    mirrored = directory / ".holdfast/runs/c.md"
    boxes = [line[:5] for line in mirrored.read_text().splitlines() if line.startswith("- [")]
    assert boxes == ["- [x]"] * 4 + ["- [ ]"] * 2
    cli("approve", "c", "--resume")
    text = (directory / "checklist.md").read_text()
    assert mirrored.read_text().startswith(text.replace("[ ]", "[x]")) and "[ ]" in text
    assert git(directory, "log", "--format=%s").splitlines() == ["Add the licence", "Add a module", "begin"]


def test_faults_are_printed_and_nothing_runs(cli):
    """On the command line: a line for each with its place, exit code 2, and no run."""
    (cli.directory / "p.yaml").write_text(
        "name: p\ninput: {v: null}\nsteps:\n- {id: a, rnu: x}\n- {id: a, run: 'true'}\n"
    )
    told = cli("run", "p.yaml", code=2).err.splitlines()
    assert [line.split(": ")[0] for line in told] == [
        "p.yaml:4:3", "p.yaml:4:11", "p.yaml:5:8", "holdfast",
    ]  # fmt: skip
    found = cli("plan", "check", "p.yaml", "--json", code=2).json()
    assert found["ok"] is False and [one["line"] for one in found["faults"]] == [4, 4, 5]
    cli("plan", "show", "p.yaml", code=2)
    (cli.directory / "p.yaml").write_text("name: p\ninput: {v: null}\nsteps:\n- {id: a, run: 'true'}\n")
    assert "p.yaml:2:9: the input `v` is missing" in cli("run", "p.yaml", code=2).err
    assert cli("list", "--json").json() == []
    assert cli("run", "gone.yaml", code=3).err.startswith("holdfast: there is no file gone.yaml")
    (cli.directory / "in.yaml").write_text("v: [1]\n")
    assert cli("run", "p.yaml", "--input-file", "in.yaml", "--json").json()["input"]["args"][1] == {"v": [1]}
    assert "--arg" in cli("run", "p.yaml", "--arg", "v=1", code=2).err
    assert "for plans" in cli("run", "true", "--input", "v=1", code=2).err


def test_a_changed_file_is_told_and_a_fork_takes_it(cli):
    """`resume` names what differs and uses the stored plan; `fork --plan-file` takes the new one."""
    file = cli.directory / "p.yaml"
    text = "name: p\nsteps:\n- {id: a, run: echo 1}\n- {id: b, needs: [a], run: cat ready}\n"
    file.write_text(text)
    cli("run", "p.yaml", "--id", "p", code=1)
    (cli.directory / "ready").write_text("yes")
    file.write_text(text.replace("cat ready", "echo other"))
    cli("fork", "p", code=2)
    cli("fork", "p", "--plan-file", "p.yaml", "--into", "q")
    told = cli("resume", "p")
    assert "step `b` changed: run" in told.err and "with the plan it was started with" in told.err
    forked = cli("resume", "q", "--json").json()
    assert forked["result"]["b"]["stdout"] == "other\n"


# plan show --follow

GROW = """
name: grow
steps:
  - {id: dig, run: [sh, -c, "echo > at-dig; read x < go-dig"]}
  - {id: never, needs: [dig], when: "1 > 2", run: "true"}
  - {id: sow, needs: [dig], run: [sh, -c, "echo > at-sow; read x < go-sow"]}
  - {id: ok, needs: [sow], approve: "Reap?"}
  - {id: reap, needs: [ok], run: "true", milestone: reaped}
"""


@pytest.fixture
def growing(cli):
    """A run whose first step is under way."""
    (cli.directory / "grow.yaml").write_text(GROW)
    for name in ("at-dig", "go-dig", "at-sow", "go-sow"):
        os.mkfifo(cli.directory / name)
    cli.start("plan", "run", "grow.yaml", "--id", "g")
    (cli.directory / "at-dig").read_text()
    return cli


def rows(text):
    """The marks of the last graph in what a terminal got, by step."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")
    found = [re.match(r"  [ │├╰─]*(\S)[ │├╰╯┴─]*  (dig|never|sow|ok|reap) ", line) for line in lines]
    return {one[2]: one[1] for one in found if one}


def test_the_graph_is_drawn_again_as_the_run_works(growing):
    """At a terminal: in its place, with a moving mark at the step that runs, until the run waits; then it
    stays, with the commands that move the run on. A second look finds what was skipped."""
    terminal = growing.at_a_terminal("plan", "show", "g", "--follow", NO_COLOR="1")
    terminal.expect("reaped")
    before = rows(terminal.text)
    assert before["dig"] in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" and before["sow"] == before["reap"] == "○"
    (growing.directory / "go-dig").write_text("go\n")
    (growing.directory / "at-sow").read_text()
    terminal.expect("✓")
    (growing.directory / "go-sow").write_text("go\n")
    code, text = terminal.end()
    assert code == 5 and "\x1b[1A" in text, "it is drawn over"
    assert rows(text) == {"dig": "✓", "never": "○", "sow": "✓", "ok": "?", "reap": "○"}
    assert "holdfast approve g" in text and "Traceback" not in text
    growing("approve", "g", "--resume")
    code, text = growing.on_a_terminal("plan", "show", "g", "--follow", NO_COLOR="1")
    assert (code, rows(text)) == (0, {"dig": "✓", "never": "-", "sow": "✓", "ok": "✓", "reap": "✓"})


def test_a_line_for_each_change_of_a_step(growing):
    """In a pipe: first what is known, then each change as it comes, on standard output; `--json` the same."""
    lines, data = (growing.start("plan", "show", "g", "-f", *words) for words in ((), ("--json",)))
    assert lines.stdout is not None and data.stdout is not None
    assert lines.stdout.readline() == "dig running\n"
    assert '"status":"running"' in data.stdout.readline()
    (growing.directory / "go-dig").write_text("go\n")
    assert lines.stdout.readline().startswith("dig completed in ")
    assert lines.stdout.readline() == "sow running\n"
    known = [json.loads(data.stdout.readline()) for _ in range(2)]
    (growing.directory / "at-sow").read_text()
    (growing.directory / "go-sow").write_text("go\n")
    out, err = lines.communicate(timeout=20)
    words = [line.split(" in ")[0] for line in out.splitlines()]
    assert (lines.returncode, words) == (5, ["sow completed", "ok waiting"])
    assert "run g waits for a decision: Reap?" in err
    changes = known + [json.loads(line) for line in data.communicate(timeout=20)[0].splitlines()]
    assert [(one["step"], one["status"]) for one in changes] == [
        ("dig", "completed"), ("sow", "running"), ("sow", "completed"), ("ok", "waiting"),
    ]  # fmt: skip
    assert all(one["at"].startswith("20") for one in changes)


def test_only_a_run_can_be_followed(growing):
    """A file has no status; Ctrl-C ends the watching, not the run."""
    assert "--follow is for a run" in growing("plan", "show", "grow.yaml", "--follow", code=2).err
    terminal = growing.at_a_terminal("plan", "show", "g", "--follow", NO_COLOR="1")
    terminal.expect("reaped")
    terminal.type("\x03")
    code, text = terminal.end()
    assert code == 130 and text.endswith("stopped watching; run g continues\r\n")
