"""`holdfast demo`: it proves what it says, and would say so if it did not hold."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def test_demo_proves_it(cli):
    """The demo kills a real process, resumes, and exits 0 within 15 seconds; it leaves nothing behind."""
    began = time.monotonic()
    shown = cli("demo", TMPDIR=str(cli.directory))
    assert time.monotonic() - began < 15
    assert "kill -9" in shown.out
    assert "$ holdfast run --id demo demo_workflow.py:story side.txt\n" in shown.out
    assert "$ holdfast run --id agent ../demo_workflow.py:revise\n" in shown.out
    assert "none ran again" in shown.out
    assert "✗" not in shown.out
    assert "\x1b" not in shown.out
    assert list(cli.directory.glob("holdfast-demo-*")) == []
    named = [line for line in shown.out.splitlines() if "holdfast --home" in line or " undo " in line]
    assert named == [], "a command whose store is gone"
    assert shown.out.endswith("holdfast demo --keep  keeps the script and the store\n")
    assert not cli.home.exists()


def test_demo_keeps_its_directory(cli):
    """`--keep` leaves script and store to be looked at, and prints how."""
    shown = cli("demo", "--keep", TMPDIR=str(cli.directory))
    (kept,) = cli.directory.glob("holdfast-demo-*")
    assert f"holdfast --home {kept}/home show demo" in shown.out
    assert cli("--home", kept / "home", "show", "demo", "--json").json()["status"] == "completed"
    assert (kept / "demo_workflow.py").exists()


def test_demo_on_a_terminal(cli):
    """It fits 60 columns."""
    code, screen = cli.on_a_terminal("demo", columns=60, NO_COLOR="1")
    assert code == 0
    assert all(len(line) <= 60 for line in screen.splitlines())


def test_demo_fails_when_a_step_runs_twice(cli):
    """If a recorded step's body ran again, the demo would say so and exit 1: here a copy cheats."""
    cheat = (
        "import sys\n"
        "from collections import Counter\n"
        "from holdfast.cli.commands import demo\n"
        "from holdfast.cli.app import run_program\n"
        "honest = demo.Demo._resume\n"
        "def resume(self):\n"
        "    done = honest(self)\n"
        "    with self._side.open('a') as file: file.write('collect kelp\\n')\n"
        "    return done\n"
        "demo.Demo._resume = resume\n"
        "sys.exit(run_program(['demo']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", cheat],
        env=cli.env,
        cwd=cli.directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "✗" in done.stdout
    assert "the proof does not hold" in done.stderr
    assert Path(cli.directory).exists()
