"""`make bench`: the figures, holdfast beside raw SQLite, interleaved in one run.

Every ratio is taken against the raw commits measured just before and just after it, so that a noisy
machine moves both; the table has the median of all rounds and the spread (the lowest and highest).
Writes `benchmarks/results.md` and `benchmarks/results.json`.

    python benchmarks/bench.py [--rounds 10] [--only WORD] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw

import figures
from raw import Raw

HERE = Path(__file__).parent


@dataclass
class Row:
    """One line of the table."""

    what: str
    measured: str
    reach: str
    aim: str
    met: bool
    spread: str = ""


def ratio(
    what: str, rate: Callable[[], float], raw: Raw, rounds: int, reach: float = 0, aim: float | None = None
) -> Row:
    """`rate()` against raw commits, `rounds` times; without `reach` it is told and not judged."""
    rate()
    ratios, rates, raws = [], [], []
    for _ in range(rounds):
        before = raw.rate()
        rates.append(rate())
        after = raw.rate()
        raws.append((before + after) / 2)
        ratios.append(rates[-1] / raws[-1])
    middle = statistics.median(ratios)
    return Row(
        what,
        f"{middle:.2f} × raw ({statistics.median(rates):,.0f}/s; raw {statistics.median(raws):,.0f}/s)",
        f"≥ {reach} × raw" if reach else "",
        f"{aim}" if aim else "",
        middle >= reach,
        f"{min(ratios):.2f} to {max(ratios):.2f}",
    )


def value(
    what: str, measure: Callable[[], float], rounds: int, limit: float, unit: str, *, at_least: bool = False
) -> Row:
    """A figure of its own, `rounds` times."""
    values = [measure() for _ in range(rounds)]
    middle = statistics.median(values)
    met = middle >= limit if at_least else middle <= limit
    return Row(
        what,
        f"{middle:,.3g} {unit}" if middle < 1000 else f"{middle:,.0f} {unit}",
        f"{'≥' if at_least else '≤'} {limit:,g} {unit}",
        "",
        met,
        f"{min(values):,.3g} to {max(values):,.3g}"
        if max(values) < 1000
        else f"{min(values):,.0f} to {max(values):,.0f}",
    )


def rows(directory: Path, rounds: int, only: str) -> list[Row]:
    raw = Raw(directory / "raw")
    raw.rate()
    make = figures.Figures(directory)
    few, many = max(3, rounds // 3), rounds * 2
    table: list[tuple[str, Callable[[str], Row]]] = [
        ("sequential sync steps, 200 B", lambda w: ratio(w, make.sequential, raw, many, 0.6, 0.8)),
        ("sequential async steps, caller's loop", lambda w: ratio(w, make.sequential_async, raw, many, 0.45, 0.6)),
        ("50 sync runs × 20 steps at once, in 50 threads", lambda w: ratio(w, make.many, raw, many, 1.5, 3)),
        ("the same, started one by one from one thread", lambda w: ratio(w, make.many_started, raw, many)),
        ("50 async runs × 20 steps at once", lambda w: ratio(w, make.many_async, raw, many, 1.5, 3)),
        ("1-step runs", lambda w: ratio(w, make.one_step_runs, raw, many, 0.25)),
        ("replay of a 10,000-step run, load included", lambda w: value(w, make.replay, rounds, 50_000, "steps/s", at_least=True)),
        ("time per step at step 50,000 / at step 100", lambda w: value(w, make.growth, 1, 1.2, "×")),
        ("disk per step, 200 B result", lambda w: value(w, make.disk_per_step, few, 1.2, "KB")),
        ("four processes: worst wait for a commit", lambda w: value(w, make.worst_wait, few, 100, "ms")),
        ("four processes: largest share / smallest", lambda w: value(w, make.share, few, 1.2, "×")),
        ("`holdfast list` on 10,000 runs, cold process", lambda w: value(w, make.list_command, rounds, 120, "ms")),
        ("kill → the next process runs the step again", lambda w: value(w, make.kill_to_rerun, rounds, 200, "ms")),
        ("loop lag, fsync delayed by 50 ms, 1,000 async steps", lambda w: value(w, make.loop_lag, few, 10, "ms")),
    ]  # fmt: skip
    found = []
    for what, measure in table:
        if only and only not in what:
            continue
        print(f"  {what} ...", file=sys.stderr, flush=True)
        found.append(measure(what))
        print(f"    {found[-1].measured}   [{found[-1].spread}]", file=sys.stderr, flush=True)
    make.close()
    return found


def markdown(found: list[Row], rounds: int) -> str:
    lines = [
        "# Benchmark",
        "",
        f"`make bench`, {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, {rounds} rounds, durability full.",
        "",
        "Raw is apsw in WAL mode with `synchronous=FULL`, one row of 200 bytes per commit. A step is an event "
        "with its arguments and result, its hash and the stream's head. Runs are counted with their starts "
        "and ends. Ratios are medians of rounds that are interleaved with raw; the spread is the lowest and "
        "the highest round.",
        "",
        "| what | measured | reach | aim | spread | |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.what} | {row.measured} | {row.reach} | {row.aim} | {row.spread} | {'✓' if row.met else 'missed'} |"
        for row in found
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10, help="rounds per figure (10)")
    parser.add_argument("--only", default="", help="only figures whose name holds this")
    parser.add_argument("--no-save", action="store_true", help="print the table, write nothing")
    parser.add_argument("--dir", type=Path, default=None, help="where to work (a temporary directory)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    directory = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=options.dir))
    try:
        found = rows(directory, options.rounds, options.only)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = markdown(found, options.rounds)
    print(text)
    if not options.no_save and not options.only:
        (HERE / "results.md").write_text(text)
        (HERE / "results.json").write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
