"""What each target of the Makefile installs: the program alone, or the developers' tools too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Clone:
    """A clone before the first `make`, and what make would do in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, directory)

    def dry(self, *targets: str) -> str:
        return subprocess.run(
            ["make", "-n", *targets], cwd=self.directory, capture_output=True, text=True, check=True
        ).stdout

    def has(self, *marks: str) -> None:
        (self.directory / ".venv").mkdir(exist_ok=True)
        for mark in marks:
            (self.directory / ".venv" / mark).touch()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_demo_installs_the_program_only(clone: Clone) -> None:
    """No group of tools, no newer pip: only what the program imports."""
    told = clone.dry("demo")
    assert "--editable ." in told and "holdfast demo" in told
    assert "--group" not in told and "pip>=" not in told


@pytest.mark.parametrize("target", ["test", "check"])
def test_the_rest_is_installed_for_tests_and_checks(clone: Clone, target: str) -> None:
    """In a fresh clone, and after `make demo`, which is then not done again."""
    fresh = clone.dry(target)
    assert "--editable ." in fresh and "--group dev" in fresh
    clone.has(".installed")
    after_demo = clone.dry(target)
    assert "--editable ." not in after_demo and "--group dev" in after_demo


def test_demo_after_test_installs_nothing(clone: Clone) -> None:
    """What tests need has all that the demo needs."""
    clone.has(".installed", ".ready")
    assert "pip install" not in clone.dry("demo", "test")


def test_new_dependencies_are_installed(clone: Clone) -> None:
    """Both marks are older than a `pyproject.toml` that was changed."""
    clone.has(".installed", ".ready")
    later = (clone.directory / ".venv" / ".ready").stat().st_mtime + 5
    os.utime(clone.directory / "pyproject.toml", (later, later))
    told = clone.dry("test")
    assert "--editable ." in told and "--group dev" in told


def test_versions_have_no_addresses() -> None:
    """`constraints.txt` pins names and versions, nothing else."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line
