"""`holdfast replay`: do the histories match today's code?"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast import wiring
from holdfast.cli import access, options
from holdfast.cli.code_options import code_options, print_note
from holdfast.cli.drawing.terminal import Line, clean, err, out, say, show_warnings
from holdfast.counts import counted
from holdfast.errors import NeedsAttention

if TYPE_CHECKING:
    from holdfast import Replay

_STYLES = {"matches": "green", "diverges": "red", "unloadable": "red"}


@click.command("replay")
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="All runs that can still be resumed.")
@code_options
@options.json_list
def replay_command(
    run: str | None, everything: bool, python: str | None, root: Path | None, as_json: bool
) -> int:
    """Check the history of RUN against the code as it is now, without running a step.

    The workflow's function is executed with the recorded results, up to the first call that has none;
    what it does between its steps, it does. Nothing is written. A store that you did not make here names code
    that may be another's: `holdfast trust DIR` allows it.

    Exits with 0 if all match and with 6 if one does not: for CI, before new code goes out.
    """
    if (run is None) is not everything:
        raise click.UsageError("name one RUN, or say --all")
    gc.enable()
    show_warnings()
    place = access.find_place()
    wiring.refuse_foreign_code(place.home)
    with access.open_to_read(place) as hf:
        chosen = None if run is None else hf.find(run)
        found = hf.replay(
            chosen, python=python, root=root, on_note=print_note, on_progress=_draw if err.is_live else None
        )
    if as_json:
        out.json([one.to_json() for one in found])
    else:
        out.lines(_lines(found))
    wrong = sum(one.verdict != "matches" for one in found)
    if everything:
        not_all = f"{wrong:,} {'does' if wrong == 1 else 'do'} not match"
        say([f"{counted(len(found), 'run')}: ", (not_all, "red") if wrong else ("all match", "green")])
    return NeedsAttention.exit_code if wrong else 0


def _draw(number: int, total: int, run_id: str) -> None:
    err.draw(f"replaying {number:,} of {total:,}: {run_id}")


def _lines(found: Sequence[Replay]) -> Iterator[Line]:
    width = max((len(one.run_id) for one in found), default=0)
    for one in found:
        calls = counted(one.calls, "call")
        if one.verdict != "matches":
            note = one.why
        elif one.reached:
            note = f"{calls}, up to {one.reached}"
        else:
            note = f"{calls}, to its end" + (f" with {one.why}" if one.why else "")
        yield [
            (one.run_id.ljust(width), "bold"),
            "  ",
            (one.verdict.ljust(10), _STYLES[one.verdict]),
            f"  {clean(note)}",
        ]
