"""A workload whose steps reserve in a budget with a parent, whose limit it reaches.

Each attempt that a fault cuts off is charged in full, so that a life may reach the limit sooner than the one
before it. Whoever runs it raises the limit then, and resumes the run.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.crash.lives import RunPlan
from tests.crash.side import body, here, told
from tests.crash.steered import Attend

from holdfast import Amounts, BudgetReached, Holdfast, Retry, measure, parallel, step, workflow

RUN = "metered"
_CENT = Decimal("0.01")
_ITEMS = tuple(range(1, 6))


@step(reserve=Amounts(usd="0.05", tokens=100))
def ask(n: int) -> int:
    """Uses as much as it reserved, or less; one of them measures nothing."""
    with body():
        if n % 3:
            measure(model="small", input_tokens=10 * n, usd=n * _CENT)
        return n


@step(reserve=lambda n: Amounts(usd=n * _CENT), retry=Retry(attempts=9, initial=0.001, jitter=0))
def flaky(n: int) -> int:
    """Fails at first, after it has used something."""
    with body() as calls:
        measure(model="small", usd=_CENT)
        if calls <= 1:
            raise ConnectionError("refused")
        return n


@workflow
def metered() -> int:
    """Steps that reserve: one after the other, side by side, and one that fails at first."""
    total = sum(told(RUN, f"ask#{n}", ask(n)) for n in (1, 2))
    found = parallel(ask, _ITEMS, limit=3)
    for place, one in enumerate(found, 3):
        told(RUN, f"ask#{place}", one)
    return total + sum(found) + told(RUN, "flaky#1", flaky(3)) + told(RUN, "ask#8", ask(4))


PLAN = {
    RUN: RunPlan(
        (*(f"ask#{n}" for n in range(1, 9)), "flaky#1"),
        str(3 + sum(_ITEMS) + 3 + 4),
        failures={"flaky#1": range(2)},
    )
}


def begin(home: Path) -> None:
    """The budgets, which a person has set: a life without faults reaches the limit in its fan-out."""
    with Holdfast(home) as hf:
        hf.budgets.set("team", usd="0.15", tokens=10_000)
        hf.budgets.set("ann", steps=1_000, parent="team")


def spend(hf: Holdfast, _: Attend) -> Any:
    """Bring the run to its end, and raise the limit whenever it is reached."""
    while True:
        try:
            if hf.has(RUN) and hf.get(RUN).status == "paused":
                return hf.resume(RUN).result()
            return hf.with_budget("ann").with_id(RUN).run(metered)
        except BudgetReached:
            here().say("stopped-at", RUN, "paused")
            hf.budgets.raise_("team", usd="0.10")
