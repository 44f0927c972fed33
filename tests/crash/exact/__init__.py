"""Programs as users write them whose resumed runs must be the same execution.

    python -m tests.crash.exact [--case NAME ...] [--seed S] [--most-kills N]

Each case runs undisturbed, is killed after each of its commits, and is resumed in a new process in which
everything takes another time. The oracle (`tests.crash.oracle`) has the machinery: its lives, its cuts of the
write-ahead log and its comparison. `cases` registers a program there, `trials` kills and compares it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def try_case(name: str, *options: str) -> list[dict[str, Any]]:
    """Try a case in a process of its own, which has no threads when it forks. One row per event loop."""
    command = [sys.executable, "-m", "tests.crash.exact", "--json", "--case", name, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(f"case {name} reported nothing: {done.stderr[-2000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows
