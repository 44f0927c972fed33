"""`holdfast budget`: limits in money, tokens, seconds and steps, and what is spent of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.drawing.figures import Table
from holdfast.cli.drawing.rows import row
from holdfast.cli.drawing.terminal import Line, clean, out, print_list
from holdfast.counts import unit_for

if TYPE_CHECKING:
    from holdfast import Amounts
    from holdfast.views.budget import Budget

_SHOWN = 10
"""How many open reservations are listed."""
_UNITS = ("usd", "tokens", "seconds", "steps")


def _limits(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name amounts."""
    for unit, what in (
        ("steps", "Attempts of steps."),
        ("seconds", "Seconds that steps take."),
        ("tokens", "Tokens of models, input and output together."),
        ("usd", "Money, in US dollars."),
    ):
        command = click.option(f"--{unit}", metavar="AMOUNT", help=what)(command)
    return command


@click.group("budget", cls=Family)
def budget_command() -> None:
    """Set limits to what runs spend, and see what they spent.

    A step that costs reserves before it begins, in its budget and in all parents of that. At a limit the run
    is paused: `budget raise`, then `resume`. `holdfast run --budget NAME` names the budget of a run; without
    it, `default` pays, which has no limit until one is set.
    """


@budget_command.command("set")
@click.argument("name")
@_limits
@click.option("--parent", metavar="NAME", help="The budget that it is a part of.")
@options.json_object
def set_limits(
    name: str,
    usd: str | None,
    tokens: str | None,
    seconds: str | None,
    steps: str | None,
    parent: str | None,
    as_json: bool,
) -> None:
    """Make a budget, or change the limits that are given; `none` removes a limit, or the parent."""
    with access.open_to_track() as hf:
        _print(
            hf.budgets.set(name, usd=usd, tokens=tokens, seconds=seconds, steps=steps, parent=parent), as_json
        )


@budget_command.command("raise")
@click.argument("name")
@_limits
@options.json_object
def raise_limits(
    name: str, usd: str | None, tokens: str | None, seconds: str | None, steps: str | None, as_json: bool
) -> None:
    """Add to the limits of a budget. `holdfast resume RUN` continues a run that it had stopped."""
    with access.open_to_keep() as hf:
        _print(hf.budgets.raise_(name, usd=usd, tokens=tokens, seconds=seconds, steps=steps), as_json)


@budget_command.command("show")
@click.argument("name")
@options.json_object
def show(name: str, as_json: bool) -> None:
    """Show a budget: its limits, what is spent, reserved and left, and the steps that reserved."""
    with access.open_to_read() as hf:
        _print(hf.budgets.get(name), as_json)


@budget_command.command("list")
@options.json_list
def list_budgets(as_json: bool) -> None:
    """List all budgets, by name."""
    found = access.read_list("no budgets yet", lambda hf: hf.budgets.list())
    print_list(found, as_json, _table(found), "no budgets; `holdfast budget set NAME --usd 5` makes one")


def _print(budget: Budget, as_json: bool) -> None:
    if as_json:
        out.json(budget.to_json())
    else:
        out.lines(_lines(budget))


def _lines(budget: Budget) -> Iterator[Line]:
    yield row("budget", [(clean(budget.name), "bold")])
    if budget.parent:
        yield row("part of", [clean(budget.parent)])
    table = Table(["", "limit", "spent", "reserved", "left"])
    for unit in _UNITS:
        parts = (budget.limits, budget.spent, budget.reserved, budget.left)
        table.add(unit, *(text(part, unit) for part in parts))
    yield from table.lines(())
    if budget.unknown:
        times = "once" if budget.unknown == 1 else f"{budget.unknown:,} times"
        yield [(f"a price was unknown {times}: more than this was spent", "yellow")]
    for one in budget.reservations[:_SHOWN]:
        what = ", ".join(
            f"{(figure := text(one.amounts, unit))} {unit_for(figure, unit)}"
            for unit in _UNITS
            if one.amounts.of(unit)
        )
        yield row("reserved", [f"{clean(one.run_id)} {clean(one.step)}", (f"  {what}", "dim")])
    if len(budget.reservations) > _SHOWN:
        yield row("", [(f"and {len(budget.reservations) - _SHOWN:,} more", "dim")])


def _table(found: list[Budget]) -> Iterator[Line]:
    table = Table(["budget", "part of", "spent usd", "of", "tokens", "of", "steps", "of"])
    for one in found:
        figures = [f(part, unit) for unit in ("usd", "tokens", "steps") for f, part in _pair(one)]
        table.add(one.name, clean(one.parent) or "-", *figures)
    lines = table.lines(())
    next(lines)  # an empty one
    yield from lines


def _pair(one: Budget) -> tuple[tuple[Callable[[Amounts, str], str], Amounts], ...]:
    return (text, one.spent), (text, one.limits)


def text(amounts: Amounts, unit: str) -> str:
    """An amount for people: money with at least two digits after the point."""
    amount = amounts.of(unit)
    if amount is None:
        return "-"
    if isinstance(amount, int):
        return f"{amount:,}"
    if unit == "seconds":
        return f"{amount:,.1f}"
    short = amount.quantize(Decimal("0.01"))
    return f"{short if short == amount else amount.normalize():,f}"
