"""Where each microsecond of a step goes: `python benchmarks/profile.py`, saved as `docs/hot-path.md`.

Functions on the way of a sequential step are wrapped with a clock; a part's own time is its time less
that of the parts inside it. The wait for the disk is what a commit takes more with `durability="full"`
than with `"process"`. Medians over all steps; the clock itself costs about 0.2 µs per part.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import Holdfast
from holdfast.engine.execution import perform, thread_driver
from holdfast.engine.execution.execution import Execution
from holdfast.engine.primitives import step
from holdfast.store.sqlite.commit import Committer
from holdfast.store.sqlite.group import GroupCommit
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.sqlite.write_lock import WriteLock
from raw import Raw
from workflows import sequential

PAGE = Path(__file__).parents[1] / "docs" / "hot-path.md"
STEPS = 2_000

PARTS: list[tuple[Any, str, str]] = [
    (step.Step, "__call__", "find the scope, look in the history (`step.py`)"),
    (step.StepBase, "call", "fix the identity, digest the arguments (`step.py`, `arguments.py`)"),
    (thread_driver, "drive", "run the body in its scope (`thread_driver.py`)"),
    (perform, "completion", "encode the result (`perform.py`, `codec.py`)"),
    (Execution, "record", "decide, evolve, encode the event (`execution.py`, `kernel`)"),
    (SqliteStore, "append", "queue and lead the commit (`group.py`)"),
    (GroupCommit, "_pass_on", "hand the lead on (`group.py`)"),
    (SqliteStore, "_write", "the commit's own checks (`store.py`)"),
    (WriteLock, "__enter__", "take the write lock (flock)"),
    (WriteLock, "__exit__", "leave the write lock (flock)"),
    (SqliteStore, "_check_file", "is the database still there (stat)"),
    (Committer, "write", "sort the batch, chain the hash (`commit.py`)"),
    (Committer, "_insert", "SQLite: one INSERT, its trigger, three pages to the WAL"),
]


class Clock:
    """Own time of each part, per step."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    def wrap(self, fn: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            self._inside.append(0.0)
            try:
                return fn(*args, **kwargs)
            finally:
                whole = time.perf_counter() - began
                self.spent[part] += whole - self._inside.pop()
                if self._inside:
                    self._inside[-1] += whole

        return timed


def measure(directory: Path, durability: str) -> dict[str, float]:
    """Median own time of each part in microseconds."""
    clock = Clock()
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in PARTS]
    rows: list[dict[str, float]] = []
    with Holdfast(directory / durability, durability=durability) as hf:
        hf.run(sequential, 500)
        for (owner, name, original), (_, _, part) in zip(originals, PARTS, strict=True):
            setattr(owner, name, clock.wrap(original, part))
        step.drive = thread_driver.drive  # type: ignore[attr-defined]
        thread_driver.completion = perform.completion  # type: ignore[attr-defined]
        whole = step.Step.__call__

        def one(self: Any, *args: Any, **kwargs: Any) -> Any:
            clock.spent.clear()
            result = whole(self, *args, **kwargs)
            rows.append(dict(clock.spent))
            return result

        step.Step.__call__ = one  # type: ignore[method-assign]
        try:
            hf.run(sequential, STEPS)
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)
            step.drive = thread_driver.drive  # type: ignore[attr-defined]
            thread_driver.completion = perform.completion  # type: ignore[attr-defined]
    return {part: statistics.median(row.get(part, 0.0) for row in rows) * 1e6 for _, _, part in PARTS}


def table(directory: Path) -> str:
    raw = Raw(directory / "raw")
    raw.rate(1_000)
    commits = 1e6 / raw.rate(1_000)
    process, full = measure(directory, "process"), measure(directory, "full")
    insert = PARTS[-1][2]
    disk = full[insert] - process[insert]
    full[insert] = process[insert]
    total = sum(full.values()) + disk
    lines = [
        "# Where each microsecond of a step goes",
        "",
        f"`python benchmarks/profile.py`, {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}. A sequential sync "
        f"step, median of {STEPS:,}; a raw commit took {commits:.0f} µs in the same minute.",
        "",
        "| part | µs | share |",
        "|---|---:|---:|",
    ]
    lines += [f"| {part} | {full[part]:.1f} | {full[part] / total:.0%} |" for _, _, part in PARTS]
    lines += [
        f"| wait for the disk (fdatasync) | {disk:.1f} | {disk / total:.0%} |",
        f"| **the step** | **{total:.0f}** | |",
        "",
        'Python that runs after a wait for the disk runs cold: with `durability="process"`, where nothing waits, the '
        f"same parts take {sum(process.values()):.0f} µs instead of {total - disk:.0f}. The files are those of "
        "[one step from call to disk](architecture.md#one-step-from-call-to-disk-in-six-files).",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-save", action="store_true", help="print the table, write nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-profile-") as directory:
        text = table(Path(directory))
    print(text)
    if not options.no_save:
        PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
