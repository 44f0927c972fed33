"""Options that several commands share, each written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

F = Callable[..., Any]


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; `--help` lists them in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class WholeNumber(click.IntRange):
    """A whole number between bounds, whose error is a sentence."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is no {self.name}{_bounds(self)}", param, ctx)


class Number(click.FloatRange):
    """The same for a number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is no {self.name}{_bounds(self)}", param, ctx)


def limit(default: int) -> Callable[[F], F]:
    """How many lines a list has."""
    return click.option(
        "--limit",
        metavar="N",
        default=default,
        show_default=True,
        type=WholeNumber(0),
        help="How many; 0 is all.",
    )


def _bounds(of: click.IntRange | click.FloatRange) -> str:
    if of.min is None:
        return ""
    if of.max is not None:
        return f" from {of.min} to {of.max}"
    return f" above {of.min}" if of.min_open else f" of at least {of.min}"


json_object = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
json_list = click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Show neither steps nor what commands print, only the outcome."
)
no_files = click.option("--no-files", is_flag=True, help="Leave the files as they are.")
partial = click.option(
    "--partial", is_flag=True, help="Continue without files whose saved content is damaged."
)
previewed = together(
    click.option("--dry-run", is_flag=True, help="Only show what would be done."),
    click.option("--plan", metavar="DIGEST", help="Do what --dry-run showed with this plan, or nothing."),
)
