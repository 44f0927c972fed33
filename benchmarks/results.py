"""Everything that one run of the benchmark found, and the files it goes to: `results.json` has it all, and
`results.md`, the charts and the README's section are made of it (`pages`)."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import apsw
import msgspec

from failures.outcomes import Outcome
from peers.comparison import Comparison
from row import Row

FILE = Path(__file__).with_name("results.json")


class Results(msgspec.Struct, frozen=True):
    """The figures; beside the peers, if they were measured; and the failures, if they were played."""

    date: str
    machine: str
    rounds: int
    rows: list[Row]
    comparison: Comparison | None = None
    failures: list[Outcome] = []
    files: list[Row] = []
    """Saved files, beside git."""

    @property
    def where(self) -> str:
        """The run in one line."""
        return f"{self.date}: {self.machine}, {self.rounds} rounds"

    def save(self, file: Path = FILE) -> None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load(file: Path = FILE) -> Results:
    return msgspec.json.decode(file.read_bytes(), type=Results)


def today() -> str:
    return time.strftime("%Y-%m-%d")


def machine() -> str:
    """What the figures depend on, in words."""
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    )
