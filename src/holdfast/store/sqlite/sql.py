"""The SQL files beside this module, read once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_MIGRATIONS: Final = _HERE / "migrations"
_QUERIES: Final = ("queries.sql", "tracker_queries.sql", "budget_queries.sql")


@cache
def script(name: str) -> str:
    """A whole file, such as `runs.sql`."""
    return (_HERE / name).read_text("utf-8")


def digest(name: str) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(script(name).encode()).hexdigest()


@cache
def _queries() -> dict[str, str]:
    named: dict[str, str] = {}
    for block in "".join(map(script, _QUERIES)).split("-- name: ")[1:]:
        name, _, text = block.partition("\n")
        if named.setdefault(name.strip(), text.strip().removesuffix(";")) != text.strip().removesuffix(";"):
            raise ValueError(f"two queries are called {name.strip()}")
    stray = named.pop("is_stray")  # a condition, and no statement
    return {name: text.replace("(is_stray)", f"({stray})") for name, text in named.items()}


def query(name: str) -> str:
    """One statement of the files of queries."""
    return _queries()[name]


def listed(types: Sequence[str]) -> str:
    """Types of events as the queries want them: names between spaces."""
    return f" {' '.join(types)} " if types else ""


@cache
def schema_version() -> int:
    """The number of the newest migration."""
    return max(int(file.name.partition("_")[0]) for file in _MIGRATIONS.glob("*.sql"))


@cache
def migrations() -> tuple[tuple[int, str, str], ...]:
    """(number, name, text) of every migration, in order."""
    found = []
    for file in _MIGRATIONS.iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        if file.name.endswith(".sql"):
            found.append((int(number), name, file.read_text("utf-8")))
    return tuple(sorted(found))
