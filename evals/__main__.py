"""`make eval`: coding tasks delivered by agents, each undisturbed and killed at random.

    python -m evals [--short] [--seed N] [--kills N] [--tasks NAME ...] [--no-save]

Prints a line for each delivery. Fails if a task is not solved, if an effect was repeated, if the files or the
cost of a killed delivery differ from the undisturbed one, or if a task whose first edits are wrong was not
sent back by its check. Without `--short` and `--tasks` it writes `docs/evaluation.md`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evals.agents import BACKENDS, Backend
from evals.delivering import Delivery, deliver
from evals.report import page
from evals.tasks import TASKS, CodingTask

SHORT: tuple[tuple[str, Backend], ...] = (("version", "script"), ("dates", "llm"))
"""What `.ci/run` evaluates: a task that is solved at once, and one that is repaired first."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m evals", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="two pairs of task and agent, as in CI")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the kills (random)")
    parser.add_argument("--kills", type=int, default=4, help="at most so many in each killed delivery (4)")
    parser.add_argument("--tasks", nargs="+", choices=[one.name for one in TASKS], help="only these")
    parser.add_argument("--no-save", action="store_true", help="write no page")
    given = parser.parse_args(words)
    pairs = _pairs(given.short, given.tasks)
    print(f"seed {given.seed}", flush=True)
    done: list[tuple[Delivery, Delivery]] = []
    faults = 0
    for number, (task, backend) in enumerate(pairs):
        with tempfile.TemporaryDirectory(prefix="eval-") as directory:
            calm = deliver(task, backend, Path(directory, "calm"), 0, 0)
            killed = deliver(task, backend, Path(directory, "killed"), given.kills, given.seed + number)
        done.append((calm, killed))
        for fault in _show(task, calm, killed):
            faults += 1
            print(f"    {fault}", flush=True)
    if not (given.short or given.tasks or given.no_save):
        Path("docs/evaluation.md").write_text(page(done, given.seed, faults))
    kills = sum(killed.kills for _, killed in done)
    print(f"{len(done)} tasks, {2 * len(done)} deliveries, {kills} kills: {faults} faults")
    return 1 if faults else 0


def _pairs(short: bool, names: Sequence[str] | None) -> list[tuple[CodingTask, Backend]]:
    by_name = {task.name: task for task in TASKS}
    if short:
        return [(by_name[name], backend) for name, backend in SHORT]
    return [(by_name[name], backend) for name in names or by_name for backend in BACKENDS]


def _show(task: CodingTask, calm: Delivery, killed: Delivery) -> list[str]:
    """Print how the two ended, and return what is not as it should be."""
    print(
        f"  {task.name:8} {calm.backend:6} {calm.seconds:5.1f} s, with {killed.kills} kills "
        f"{killed.seconds:5.1f} s; sent back {calm.sent_back}; {calm.requests} requests, "
        f"{killed.requests} with kills; ${calm.usd}",
        flush=True,
    )
    found = []
    for name, one in (("undisturbed", calm), ("killed", killed)):
        if not one.solved:
            found.append(f"{name}: not solved: {one.why or 'the check fails'}")
        if one.repeated:
            found.append(f"{name}: {one.repeated} effects ran more often than the log says")
        if one.sent_back != bool(task.wrong):
            found.append(f"{name}: the check sent the work back {one.sent_back} times")
    if calm.files != killed.files:
        differ = sorted(path for path in {*calm.files, *killed.files} if _differ(calm, killed, path))
        found.append(f"the files differ: {', '.join(differ)}")
    if calm.usd != killed.usd:
        found.append(f"the cost differs: ${calm.usd} undisturbed, ${killed.usd} killed")
    return found


def _differ(calm: Delivery, killed: Delivery, path: str) -> bool:
    return calm.files.get(path) != killed.files.get(path)


if __name__ == "__main__":
    sys.exit(main())
