"""Budgets under kills: processes that share budgets are killed in the middle of requests.

What is spent and reserved never passes a limit, of a budget or of its parents, after any event of the log;
every body that began was charged once; and in the end nothing is reserved.

python -m tests.crash.budgets [--seed N] [--scale S]
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

from tests.crash.score import Budget, Score

from holdfast import Holdfast
from holdfast.kernel import budget as b
from holdfast.kernel.amounts import UNITS
from holdfast.kernel.events import StepStarted

WORKER = Path(__file__).with_name("budget_worker.py")
PAYING = ("ann", "ann", "team", "all")
"""The budget of each process: `ann` is a part of `team`, and that of `all`."""
NAMES = ("ann", "team", "all")
ROUNDS, KILLS = 40, 40
_WHAT = f"{len(PAYING)} processes share budgets with parents, and are killed in their steps"
_MOST_RAISES = 1000


def run(budget: Budget) -> list[Score]:
    score = Score("budgets", _WHAT, points=budget.of(KILLS))
    with tempfile.TemporaryDirectory(prefix="crash-") as directory:
        try:
            home = Path(directory) / "home"
            score.notes = work_under_kills(home, budget.of(ROUNDS), budget.of(KILLS), budget.seed)
        except AssertionError as violation:
            score.violations.append(f"seed {budget.seed}: {violation}")
    return [score]


def work_under_kills(home: Path, rounds: int, kills: int, seed: int) -> dict[str, int]:
    """Let the processes work to their ends, killed so often, and check. Returns what happened."""
    with Holdfast(home, durability="process") as hf:
        hf.budgets.set("all", usd="0.50", steps=20)
        hf.budgets.set("team", usd="0.30", parent="all")
        hf.budgets.set("ann", parent="team")
        bodies, killed, raised = _work(hf, home, rounds, kills, random.Random(seed))
        settled = check(hf)
        runs = [f"w{n}" for n in range(len(PAYING))]
        assert {hf.get(one).status for one in runs} == {"completed"}
        started = {
            f"{one}:{event.generation}:{event.key}:{event.attempt}"
            for one in runs
            for event, *_ in hf._store.history(one)
            if isinstance(event, StepStarted)
        }
        assert settled == started, ("charged, and never begun, or the reverse", settled ^ started)
        assert set(bodies) <= settled, ("began and was not charged", set(bodies) - settled)
        assert len(bodies) == len(set(bodies)), "an attempt ran twice"
        completed = [step.key for one in runs for step in hf.steps(one)]
        assert len(completed) == len(settled) - _repeated(started)
        assert list(hf._store.verify()) == []
    return {"kills": killed, "raises": raised, "steps": len(settled)}


def _repeated(started: set[str]) -> int:
    """How many attempts were not the first."""
    return sum(not one.endswith(":1") for one in started)


def _work(
    hf: Holdfast, home: Path, rounds: int, kills: int, chance: random.Random
) -> tuple[list[str], int, int]:
    """(each body that began, how many were killed, how often the limits were raised)."""
    bodies: list[str] = []
    killed = raised = 0
    working = {n: _start(home, n, rounds) for n in range(len(PAYING))}
    paused: set[int] = set()
    try:
        while working or paused:
            if not working:
                raised += 1
                assert raised <= _MOST_RAISES, "the limits were raised without an end"
                hf.budgets.raise_("all", usd="1.20", steps=45)
                hf.budgets.raise_("team", usd="0.90")
                working, paused = {n: _start(home, n, rounds) for n in paused}, set()
            outputs = {one.stdout: n for n, one in working.items()}
            for output in select.select(list(outputs), [], [])[0]:
                n = outputs[output]
                printed = os.read(output.fileno(), 1 << 16).decode().split()
                bodies += printed
                _check_now(hf)
                if printed and (killed >= kills or chance.random() > 0.2):
                    continue
                if printed:
                    working[n].send_signal(signal.SIGKILL)
                bodies += working[n].communicate()[0].decode().split()
                code = working.pop(n).returncode
                assert code in (0, 7, -signal.SIGKILL), f"worker {n} ended with {code}"
                killed += code == -signal.SIGKILL
                if code == -signal.SIGKILL:
                    working[n] = _start(home, n, rounds)
                elif code == 7:
                    paused.add(n)
    finally:
        for one in working.values():
            one.kill()
            one.communicate()
    return bodies, killed, raised


def _start(home: Path, n: int, rounds: int) -> subprocess.Popen[bytes]:
    argv = [sys.executable, str(WORKER), str(home), f"w{n}", PAYING[n], str(n), str(rounds)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


def _check_now(hf: Holdfast) -> None:
    """The tables, while the processes work."""
    for one in hf.budgets.list():
        _within(one.name, one.limits, one.spent.plus(one.reserved))


def _within(name: str, limits: object, used: object) -> None:
    for unit in UNITS:
        limit, amount = limits.of(unit), used.of(unit)  # type: ignore[attr-defined]
        assert limit is None or amount <= limit, f"{name}: {amount} of {limit} {unit}"


def check(hf: Holdfast) -> set[str]:
    """Fold each budget event by event: limits hold after each, and nothing is left open. Returns the names of
    all that was charged; each was charged once, in the budget that paid and in all its parents."""
    charged: dict[str, dict[str, Decimal | None]] = {}
    for name in NAMES:
        state = b.EMPTY
        mine = charged.setdefault(name, {})
        for recorded in hf._store.load(b.stream_of(name)):
            event = recorded.event
            if isinstance(event, b.BudgetSettled):
                assert event.id not in mine, f"{name}: {event.id} is charged twice"
                assert event.id in state.open, f"{name}: {event.id} was not reserved"
                mine[event.id] = event.amounts.usd
            state = b.evolve(state, recorded)
            _within(name, state.limits, state.spent.plus(state.reserved))
        assert state.open == {}, f"{name}: {sorted(state.open)} are open in the end"
        assert state.spent.usd == sum(filter(None, mine.values()), Decimal(0))
    for name, parent in pairwise(NAMES):
        wrong = {id for id, usd in charged[name].items() if charged[parent].get(id) != usd}
        assert not wrong, f"{wrong} are charged in {name}, and not the same in {parent}"
    return set(charged["all"])


def main() -> int:
    parser = argparse.ArgumentParser(description="The kind `budgets` of `make crash` alone.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    scores = run(Budget(options.seed, options.scale))
    for score in scores:
        print(score, flush=True)
    return int(any(score.violations or score.lost for score in scores))


if __name__ == "__main__":
    sys.exit(main())
