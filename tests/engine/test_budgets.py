"""The governor: what is reserved before a step, settled with it, and refused."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from holdfast import Amounts, BudgetReached, measure, step

CENT = Decimal("0.01")


def spend(cents: int = 2) -> None:
    measure(model="small", input_tokens=10, output_tokens=5, usd=cents * CENT)


@step(reserve=Amounts(usd="0.05", tokens=100))
def ask(question: str = "?") -> str:
    spend()
    return question.upper()


@step(reserve=Amounts(usd="0.05", tokens=100))
async def aask(question: str = "?") -> str:
    spend()
    await asyncio.sleep(0)
    return question.upper()


def spent(hf: Any, name: str = "default") -> tuple[Any, Any, Any]:
    """Money, tokens and steps that are spent, where nothing is reserved any more."""
    found = hf.budgets.get(name)
    assert found.reservations == ()
    return found.spent.usd, found.spent.tokens, found.spent.steps


@pytest.mark.parametrize("colour", ["def", "async", "aio"])
def test_a_step_settles_what_it_measured(hf: Any, act: Any, colour: str) -> None:
    """One reservation before the intent, one settlement in the commit of the result."""

    def plot() -> str:
        return ask("kelp")

    async def aplot() -> str:
        return await (aask("kelp") if colour == "async" else ask.aio("kelp"))

    assert hf.run(act(plot if colour == "def" else aplot)) == "KELP"
    assert spent(hf) == (2 * CENT, 15, 1)


@pytest.mark.parametrize("colour", ["def", "async"])
def test_at_the_limit_the_run_is_paused(hf: Any, act: Any, ran: list[Any], colour: str) -> None:
    """The step that does not fit does not begin; after a raise, `resume` tries it and repeats nothing."""
    hf.budgets.set("team", usd="0.08")

    @step(reserve=Amounts(usd="0.05"))
    def note(n: int) -> int:
        ran.append(n)
        spend()
        return n

    def plot() -> list[int]:
        return [note(n) for n in range(3)]

    async def aplot() -> list[int]:
        return [await note.aio(n) for n in range(3)]

    chosen = act(plot if colour == "def" else aplot)
    with pytest.raises(BudgetReached) as refused:
        hf.with_budget("team").with_id("x").run(chosen)
    error = refused.value
    assert (error.budget, error.unit, error.limit, error.spent, error.reserved, error.needed) == (
        "team", "usd", "0.08", "0.04", "0", "0.05",
    )  # fmt: skip
    assert str(error) == (
        "run x is paused: budget team is reached: note#3 needs 0.05 usd, and of 0.08 are 0.04 spent and 0 "
        "reserved; `holdfast budget raise team --usd 0.01` raises it; `holdfast resume x` continues"
    )
    assert (hf.get("x").status, ran) == ("paused", [0, 1])
    hf.budgets.raise_("team", usd="0.01")
    assert hf.resume("x").result() == [0, 1, 2]
    assert ran == [0, 1, 2]
    assert spent(hf, "team")[0] == 6 * CENT
