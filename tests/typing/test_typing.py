"""The public API as two type checkers see it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def mypy(file: Path) -> set[int]:
    """The lines on which mypy reports an error."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-incremental",
            "--config-file=",
            "--no-error-summary",
            file,
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return {int(found) for found in re.findall(rf"{file.name}:(\d+): error", done.stdout)} | _outside(
        done, file
    )


def basedpyright(file: Path) -> set[int]:
    """The lines on which basedpyright reports an error."""
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error", file],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return {item["range"]["start"]["line"] + 1 for item in json.loads(done.stdout)["generalDiagnostics"]}


def _outside(done: subprocess.CompletedProcess[str], file: Path) -> set[int]:
    """A crash of the checker, or an error in another file, must not read as success."""
    others = [line for line in done.stdout.splitlines() if ": error" in line and file.name not in line]
    return {-1} if done.returncode > 1 or others or done.stderr.strip() else set()


@pytest.mark.parametrize("checker", [mypy, basedpyright])
def test_the_api_has_the_types_it_promises(checker) -> None:
    """`hf.run(wf, 1)` has the workflow's result type, steps keep their signatures, in both checkers."""
    assert checker(HERE / "accepted.py") == set()


@pytest.mark.parametrize("checker", [mypy, basedpyright])
def test_wrong_calls_are_refused(checker) -> None:
    """Wrong arguments and wrong result types are errors on exactly the marked lines."""
    file = HERE / "refused.py"
    lines = file.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert checker(file) == marked
