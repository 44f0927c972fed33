"""Tests leave nothing in the data directory of whoever runs them, and do not read it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT_STORE = "tests/acceptance/test_backup.py::test_a_project_of_its_own_without_a_store"
SMALL = """
import os, subprocess, sys
from pathlib import Path

PROGRAM = '''
from holdfast import Holdfast, workflow
@workflow
def main(): return 1
with Holdfast() as hf: print(hf.run(main), hf.home)
'''

def test_small(tmp_path):
    (tmp_path / "flow.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "flow.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    value, home = done.stdout.split()
    assert value == "1"
    assert Path(home).is_relative_to(Path.home())
"""


@pytest.mark.parametrize("program", ["small", "project store"])
def test_nothing_lies_in_the_outer_data_home(tmp_path, program):
    """Whatever the variables of the shell say in which the tests run."""
    outer = tmp_path / "outer"
    variables = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOLDFAST_HOME", "HOLDFAST_WORKSPACE")
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    for name in variables:
        (outer / name).mkdir(parents=True)
        env[name] = str(outer / name)
    small = tmp_path / "test_small.py"
    small.write_text(SMALL)
    what = ["-p", "tests.conftest", str(small)] if program == "small" else [PROJECT_STORE]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "-c", "pyproject.toml", "--basetemp", str(tmp_path / "base"), *what],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in outer.rglob("*")) == sorted(variables)
