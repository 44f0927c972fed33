"""`make bench`: the figures of holdfast beside raw SQLite, git and its peers, and five failures tried on each.

Everything in one run and in turns, so that a noisy machine moves all of them (`turns`, `peers.contest`). A run that leaves nothing out
writes `results.json`, `results.md`, the charts and the README's section; any other only prints.

    python benchmarks/bench.py [--rounds 10] [--no-figures] [--no-files] [--no-peers] [--no-failures] [--only WORD] [--no-save]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import files
import pages
from failures import outcomes
from figures import Figures
from peers.comparison import Comparison
from peers.contest import compare
from peers.roster import survey
from plan_steps import PlanSteps
from raw import Raw
from results import Results, machine, today
from row import Row, Spread, number
from searching import Searching
from steering import Steering
from tracking import Tracking
from turns import RawTurns, Turn, nobody

Rate = Callable[[Turn], float]
PARTS = {
    "figures": "holdfast beside raw SQLite and by itself",
    "files": "saved files beside git",
    "peers": "holdfast beside its peers",
    "failures": "five failures, tried on holdfast and its peers",
}


def ratio(
    what: str,
    rate: Rate,
    raw: Raw,
    rounds: int,
    reach: float | None = None,
    aim: float | None = None,
    commits: int = 30,
) -> Row:
    """`rate` against raw commits, `rounds` times, after a time that does not count.

    In a round the two alternate, `commits` raw commits between any two slices of `rate`, and each is counted over
    its own seconds: whatever the disk does in a round meets both (`turns` says why, and why it favours neither).
    """
    rate(nobody)
    ratios, rates, raws = [], [], []
    for _ in range(rounds):
        turns = RawTurns(raw, commits)
        rates.append(rate(turns))
        raws.append(turns.rate)
        ratios.append(rates[-1] / raws[-1])
    beside = f"{number(Spread.of(rates).median)}/s; raw {number(Spread.of(raws).median)}/s"
    return Row(what, Spread.of(ratios), "× raw", reach, aim, beside=beside)


def value(
    what: str, measure: Callable[[], float], rounds: int, limit: float, unit: str, *, at_least: bool = False
) -> Row:
    """A figure of its own, `rounds` times."""
    return Row(what, Spread.of([measure() for _ in range(rounds)]), unit, limit, at_most=not at_least)


def figures(
    make: Figures,
    steer: Steering,
    look: Searching,
    track: Tracking,
    planned: PlanSteps,
    raw: Raw,
    rounds: int,
    only: str,
) -> list[Row]:
    """holdfast beside raw SQLite and by itself: every figure whose name holds `only`."""
    few, many = max(1, rounds // 3), rounds * 2
    table: list[tuple[str, Callable[[str], Row]]] = [
        ("sequential sync steps", lambda w: ratio(w, make.sequential, raw, many, 0.65, 0.85)),
        ("sequential async steps, caller's loop", lambda w: ratio(w, make.sequential_async, raw, many, 0.45, 0.6)),
        ("50 sync runs × 20 steps at once, in 50 threads", lambda w: ratio(w, make.many, raw, rounds, 1.7, 3, commits=300)),
        ("the same, started one by one from one thread", lambda w: ratio(w, make.many_started, raw, rounds, commits=300)),
        ("50 async runs × 20 steps at once", lambda w: ratio(w, make.many_async, raw, rounds, 1.7, 3, commits=300)),
        ("1-step runs", lambda w: ratio(w, make.one_step_runs, raw, many, 0.25)),
        ("replay of a 10,000-step run, load included", lambda w: value(w, make.replay, rounds, 50_000, "steps/s", at_least=True)),
        ("replay of a 10,000-step async run, load included", lambda w: value(w, make.replay_async, rounds, 50_000, "steps/s", at_least=True)),
        ("replay of a fan-out: time per branch of 10,000 / of 1,000", lambda w: value(w, make.replay_growth, rounds, 1.5, "×")),
        ("time per step at step 50,000 / at step 100", lambda w: value(w, make.growth, 1, 1.2, "×")),
        ("disk per step, 200 B result", lambda w: value(w, make.disk_per_step, few, 1.2, "KB")),
        ("four processes: worst wait for a commit", lambda w: value(w, make.worst_wait, few, 100, "ms")),
        ("four processes: largest share / smallest", lambda w: value(w, make.share, few, 1.2, "×")),
        ("`holdfast list` on 10,000 runs, cold process", lambda w: value(w, make.list_command, rounds, 100, "ms")),
        ("kill → the next process runs the step again", lambda w: value(w, make.kill_to_rerun, rounds, 200, "ms")),
        ("loop lag, fsync delayed by 50 ms, 1,000 async steps", lambda w: value(w, make.loop_lag, few, 10, "ms")),
        ("approve in one process → the next step in a follower", lambda w: value(w, steer.approve_to_step, rounds, 100, "ms")),
        ("signal to one of 10,000 parked runs → its next step", lambda w: value(w, steer.signal_among_parked, rounds, 100, "ms")),
        ("memory of a follower of 10,000 parked runs", lambda w: value(w, steer.follower_memory, few, 100, "MB")),
        ("`holdfast show` of a 10,000-step run, cold process", lambda w: value(w, steer.show_command, rounds, 300, "ms")),
        ("a Python step of a plan / one of `gather`", lambda w: value(w, planned.python_step, rounds, 1.5, "×")),
        ("a command of a plan / one of `parallel`", lambda w: value(w, planned.command_step, rounds, 1.1, "×")),
        ("`holdfast list --resumable` on 100,000 runs, cold", lambda w: value(w, steer.list_resumable, rounds, 150, "ms")),
        ("100,000 tasks, 200,000 links: `hf.tasks.ready`", lambda w: value(w, track.ready, few, 50, "ms")),
        ("100,000 tasks: `hf.tasks.create` with a link, on the disk", lambda w: value(w, track.create, few, 5, "ms")),
        ("100,000 tasks: `hf.tasks.claim` without an id", lambda w: value(w, track.claim_next, few, 50, "ms")),
        ("100,000 tasks: `hf.tasks.link`", lambda w: value(w, track.link, few, 50, "ms")),
        ("100,000 tasks: `hf.search`, the slowest of four queries", lambda w: value(w, track.search, few, 50, "ms")),
        ("100,000 tasks: memory of the largest of ten commands", lambda w: value(w, track.memory, 1, 150, "MB")),
        ("completion of a task that 10,000 others need", lambda w: value(w, track.complete, few, 200, "ms")),
        ("`holdfast list` with 1,000,000 events / with 10,000, cold", lambda w: value(w, track.list_growth, few, 2, "×")),
        ("`holdfast show` with 1,000,000 events / with 10,000, cold", lambda w: value(w, track.show_growth, few, 2, "×")),
        ("`hf.search` with 1,000,000 events / with 10,000", lambda w: value(w, look.growth, few, 2, "×")),
        ("1,000 tasks in a burst: replaced files of the mirror", lambda w: value(w, track.burst, few, 20, "files")),
        ("a step with the mirror / without", lambda w: value(w, track.mirror_cost, few, 1.05, "×")),
    ]  # fmt: skip
    found = []
    for what, measure in table:
        if only.lower() in what.lower():
            print(f"  {what} ...", file=sys.stderr, flush=True)
            found.append(measure(what))
            print(f"    {found[-1].markdown()}", file=sys.stderr, flush=True)
    return found


def beside_peers(directory: Path, make: Figures, raw: Raw, rounds: int, only: str) -> Comparison | None:
    """holdfast beside every peer whose name holds `only`; None if there is no such peer."""
    with survey(directory, only) as found:
        if not found.peers and not found.absent:
            return None
        return compare(make, found.peers, raw, rounds, found.absent)


def run(options: argparse.Namespace, directory: Path) -> Results:
    """Everything that is not left out."""
    make, raw, planned = Figures(directory), Raw(directory / "raw"), PlanSteps(directory)
    rows: list[Row] = []
    comparison = None
    try:
        if options.figures:
            steer, look, track = Steering(directory), Searching(directory), Tracking(directory)
            rows = figures(make, steer, look, track, planned, raw, options.rounds, options.only)
        if options.peers:
            rounds = max(1, options.rounds // 2)
            comparison = beside_peers(directory, make, raw, rounds, options.only)
    finally:
        planned.close()
        make.close()
        raw.close()
    saved = files.measure(directory, max(1, options.rounds // 3), options.only) if options.files else []
    played = outcomes.play(options.tries, options.only) if options.failures else []
    return Results(today(), machine(), options.rounds, rows, comparison, played, saved)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=10, help="rounds per figure (10); half as many with the peers"
    )
    parser.add_argument("--tries", type=int, default=1, help="how often each failure is tried (1)")
    for part, what in PARTS.items():
        parser.add_argument(f"--no-{part}", dest=part, action="store_false", help=f"leave out {what}")
    parser.add_argument("--only", default="", help="only figures, peers and failures whose name holds this")
    parser.add_argument("--no-save", dest="save", action="store_false", help="print the pages, write nothing")
    parser.add_argument("--dir", type=Path, default=None, help="where to work (a temporary directory)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    directory = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=options.dir))
    try:
        found = run(options, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(pages.page(found))
    if options.save and not options.only and all(getattr(options, part) for part in PARTS):
        found.save()
        pages.write(found)
    return int(any(one.product == "holdfast" and one.outcome != "ok" for one in found.failures))


if __name__ == "__main__":
    sys.exit(main())
