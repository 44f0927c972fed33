"""`holdfast replay`: do the histories match today's code?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast import wiring
from holdfast.cli import access
from holdfast.cli.code_options import code_options
from holdfast.cli.counts import counted
from holdfast.cli.terminal import Line, clean, err, out, say
from holdfast.errors import HoldfastError, NeedsAttention, StoreError

if TYPE_CHECKING:
    from holdfast.cli.workers import Workers
    from holdfast.kernel.events import Code
    from holdfast.operations.replaying import Replay

_STYLES = {"matches": "green", "diverges": "red", "unloadable": "red"}


@click.command("replay")
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="All runs that can still be resumed.")
@code_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
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
    from holdfast.cli.interpreter import Interpreters
    from holdfast.cli.workers import Workers
    from holdfast.operations.holding import load
    from holdfast.operations.replaying import IN_FLIGHT

    place = access.find_place()
    wiring.refuse_foreign_code(place.home)
    with access.open_to_execute(place, to_look=True, root=root, only_missing=everything) as (opened, engine):
        if run is not None:
            ids = [opened.reading.find(run)]
        else:
            rows = opened.store.runs(status=IN_FLIGHT)
            there = {row.id for row in rows}
            ids = [row.id for row in reversed(rows) if row.parent not in there]  # a child is played with it
        workers = Workers(opened.place.home, engine.location, Interpreters(python), stdout=sys.stderr)
        with closing(workers):
            found = list(_replay(workers, [(run_id, load(engine, run_id).code) for run_id in ids]))
    if as_json:
        out.json([_fields(one) for one in found])
    else:
        out.lines(_lines(found))
    wrong = sum(one.verdict != "matches" for one in found)
    if everything:
        not_all = f"{wrong:,} {'does' if wrong == 1 else 'do'} not match"
        say([f"{counted(len(found), 'run')}: ", (not_all, "red") if wrong else ("all match", "green")])
    return NeedsAttention.exit_code if wrong else 0


def _replay(workers: Workers, ids: Sequence[tuple[str, Code]]) -> Iterator[Replay]:
    """One after the other, each in a process for its code and its directory."""
    from holdfast.operations.replaying import Replay

    for n, (run_id, code) in enumerate(ids, 1):
        if err.is_live:
            err.draw(f"replaying {n:,} of {len(ids):,}: {run_id}")
        try:
            found = msgspec.convert(workers.replay(run_id, code), Replay)
        except StoreError:
            raise
        except HoldfastError as error:
            found = Replay(run_id, code.name, "unloadable", why=str(error))
        yield found
    if err.is_live:
        err.draw()


def _fields(one: Replay) -> dict[str, Any]:
    return {
        "run": one.run_id,
        "workflow": one.workflow,
        "verdict": one.verdict,
        "calls": one.calls,
        "reached": one.reached or None,
        "why": one.why or None,
    }


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
