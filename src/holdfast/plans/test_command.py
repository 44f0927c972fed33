"""The command that tests a project, recognised by its files."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from holdfast.errors import BadInput
from holdfast.json_input import read_json
from holdfast.workspace.fs.lock_safe_open import beginning

_MOST = 256 << 10
_BY_FILE = (
    ("Cargo.toml", ("cargo", "test")),
    ("go.mod", ("go", "test", "./...")),
    ("pom.xml", ("mvn", "-q", "test")),
    ("gradlew", ("./gradlew", "test")),
    ("mix.exs", ("mix", "test")),
    ("Gemfile", ("bundle", "exec", "rake", "test")),
    ("tox.ini", ("tox",)),
    ("noxfile.py", ("nox",)),
)


def test_command(root: Path) -> tuple[str, ...]:
    """The program and its arguments; empty if nothing was recognised. A target `test` of a Makefile comes
    first: it
    is what the project's own people call."""
    for name in ("Makefile", "makefile", "GNUmakefile"):
        if re.search(r"^test\s*:(?!=)", _text(root / name), re.MULTILINE):
            return ("make", "test")
    if _has_npm_test(root / "package.json"):
        return ("npm", "test")
    python = _text(root / "pyproject.toml") + _text(root / "setup.cfg") + _text(root / "pytest.ini")
    if "pytest" in python or (root / "conftest.py").is_file() or (root / "pytest.ini").is_file():
        return ("python", "-m", "pytest", "-q")
    for name, command in _BY_FILE:
        if (root / name).is_file():
            return command
    if any((root / "tests").glob("test_*.py")):
        return (
            ("python", "-m", "pytest", "-q")
            if "import pytest" in _tests(root)
            else ("python", "-m", "unittest")
        )
    return ()


test_command.__test__ = False  # type: ignore[attr-defined]  # pytest collects functions of this name


def _tests(root: Path) -> str:
    return "".join(_text(path) for path in sorted((root / "tests").glob("test_*.py"))[:5])


def _has_npm_test(path: Path) -> bool:
    try:
        script = read_json(_text(path) or "{}")["scripts"]["test"]
    except (BadInput, msgspec.DecodeError, KeyError, TypeError):
        return False
    return isinstance(script, str) and "no test specified" not in script


def _text(path: Path) -> str:
    data = beginning(str(path).encode(), _MOST)
    return "" if data is None else data.decode("utf-8", "replace")
