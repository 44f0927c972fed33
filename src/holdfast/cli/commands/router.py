"""`holdfast router`: what was learned about models and agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.terminal import Line, clean, pad, print_list
from holdfast.errors import NotFound

if TYPE_CHECKING:
    from holdfast.views.learning import CandidateStats


@click.group("router", cls=Family)
def router_command() -> None:
    """Show how work ended with each model or agent, and how often each would be chosen now."""


@router_command.command("list")
@options.json_list
def list_candidates(as_json: bool) -> None:
    """List the candidates of every kind of work."""
    _print(access.read_list("nothing yet", lambda hf: hf.router.stats()), as_json)


@router_command.command("show")
@click.argument("kind")
@options.json_list
def show(kind: str, as_json: bool) -> None:
    """Show the candidates for KIND, a kind of work."""
    with access.open_to_read() as hf:
        found = hf.router.stats(kind)
        known = sorted({one.kind for one in hf.router.stats()}) if not found else []
    if not found:
        names = f"; there are {', '.join(map(clean, known))}" if known else ""
        raise NotFound(f"no outcome is known for the kind of work {kind!r}{names}")
    _print(found, as_json)


def _print(found: Sequence[CandidateStats], as_json: bool) -> None:
    print_list(found, as_json, _lines(found), "no outcome was reported yet")


def _lines(found: Sequence[CandidateStats]) -> Iterator[Line]:
    """A heading for each kind; below it the candidates, the one that would be chosen most often first."""
    width = max(len(clean(one.candidate)) for one in found)
    for kind, group in groupby(found, key=lambda one: one.kind):
        yield [(clean(kind), "bold")]
        for one in sorted(group, key=lambda one: (-one.share, one.candidate)):
            notes = [f"{one.good} good", f"{one.bad} bad"]
            notes += [f"{one.failed} failed"] if one.failed else []
            notes += [f"${one.usd:f}"] if one.usd is not None else []
            notes += [f"rests until {moments.utc(one.rests_until)}"] if one.rests_until else []
            yield [
                f"  {pad(clean(one.candidate), width)}  {one.share:4.0%}",
                (f"  {', '.join(notes)}", "dim"),
            ]
