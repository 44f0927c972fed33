"""Budgets under kills: a sample, and proof that the checker can say no."""

from __future__ import annotations

import pytest
from tests.crash import budgets

from holdfast import Holdfast
from holdfast.kernel import budget as b
from holdfast.kernel.amounts import Amounts
from holdfast.store.port import Decision, new_event

SEED = 7


def test_limits_hold_under_kills(tmp_path):
    """Four processes, killed in their steps: no limit is passed at any moment, and all is charged once."""
    found = budgets.work_under_kills(tmp_path / "home", rounds=3, kills=3, seed=SEED)
    assert found["kills"] == 3, f"seed {SEED}"
    assert found["steps"] > 0


def settled(id: str, usd: str) -> b.BudgetSettled:
    return b.BudgetSettled(id, Amounts(usd))


def reserved(id: str, usd: str) -> b.BudgetReserved:
    return b.BudgetReserved(id, "r", "ask#1", 1, Amounts(usd))


@pytest.mark.parametrize(
    ("in_all", "in_team", "why"),
    [
        ([reserved("1", "2")], [], "all: 2 of 1 usd"),
        ([reserved("1", "1")], [], "are open in the end"),
        ([settled("1", "1")], [], "was not reserved"),
        ([reserved("1", "1"), settled("1", "0.5"), settled("1", "0.5")], [], "charged twice"),
        ([], [reserved("1", "1"), settled("1", "1")], "charged in team, and not the same in all"),
    ],
)
def test_a_wrong_account_is_found(tmp_path, in_all, in_team, why):
    """Limits that were passed, charges without a reservation, twice, or in a child alone."""
    with Holdfast(tmp_path / "home", durability="process") as hf:
        for name, events in (("ann", []), ("team", in_team), ("all", in_all)):
            news = [new_event(event, 1) for event in (b.BudgetSet(Amounts(1)), *events)]
            hf._store.command(b.stream_of(name), lambda _, news=news: Decision(b.KIND, news))
        with pytest.raises(AssertionError, match=why):
            budgets.check(hf)
