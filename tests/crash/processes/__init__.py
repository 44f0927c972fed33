"""Real processes around one store, of the engine and the CLI: stopped, killed, forked, robbed of the store.

    python -m tests.crash.processes [--seed N] [--scale X] [KIND ...]

The programs are `program.py`, `flow.py`, `forker.py` and the command `limb.py`; they say what they do in a
side file, and `ledger.py` compares that with the log.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.crash.processes.clocks import run_clocks
from tests.crash.processes.crowd import run_crowd
from tests.crash.processes.forking import run_forking
from tests.crash.processes.full import run_full, run_limited
from tests.crash.processes.takeover import run_takeover
from tests.crash.processes.terminals import run_terminals
from tests.crash.processes.trees import run_trees
from tests.crash.processes.vanishing import run_vanishing
from tests.crash.score import Budget, Score

__all__ = [
    "KINDS",
    "run",
    "run_clocks",
    "run_crowd",
    "run_forking",
    "run_full",
    "run_limited",
    "run_takeover",
    "run_terminals",
    "run_trees",
    "run_vanishing",
]

KINDS: dict[str, Callable[[Budget], Score]] = {
    "takeover": run_takeover,
    "crowd": run_crowd,
    "terminals": run_terminals,
    "clocks": run_clocks,
    "fork": run_forking,
    "vanishing": run_vanishing,
    "full": run_full,
    "limited": run_limited,
    "trees": run_trees,
}
"""Those that take longest first."""


def run(budget: Budget) -> list[Score]:
    """All kinds, two at a time: most of the time of each is spent waiting."""
    with ThreadPoolExecutor(2, "crash-processes") as pool:
        return list(pool.map(lambda kind: kind(budget), KINDS.values()))
