"""`holdfast gates`: what runs wait for, and what each shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.gates import heading, shown_lines
from holdfast.cli.drawing.terminal import Line, cells, clean, out, pad, say, typed

if TYPE_CHECKING:
    from holdfast.views.gate import Gate

_SHOWN_LINES = 6


@click.command("gates")
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="All that each gate shows.")
@options.json_list
def gates_command(run: str | None, everything: bool, as_json: bool) -> None:
    """List the open gates of all runs, or of RUN and its child runs, with what each shows.

    Below each gate are the commands that answer it.
    """
    gates = access.read_list("no runs yet", lambda hf: hf.gates(None if run is None else hf.find(run)), run)
    if as_json:
        out.json([{"run": gate.run_id, **gate.to_json()} for gate in gates])
    elif gates:
        out.lines(_lines(gates, None if everything else _SHOWN_LINES))
    else:
        say("no run waits for a decision or a signal" if run is None else f"run {run} waits for nothing")


def _lines(gates: Sequence[Gate], most: int | None) -> Iterator[Line]:
    for n, gate in enumerate(gates):
        if n:
            yield ""
        since = moments.ago(gate.since) if out.is_terminal else moments.utc(gate.since)
        yield [(gate.run_id, "bold"), f"  {heading(gate)}", (f"  opened {since}", "dim")]
        for line in shown_lines(gate, max(min(out.width, 160) - 4, 20), most, "--all shows all"):
            yield ["    ", *([line] if isinstance(line, str) else line)]
        ways = [(clean(typed(way.shell())), way.effect) for way in gate.ways()]
        widest = max(cells(command) for command, _ in ways)
        for command, effect in ways:
            yield ["  ", (pad(command, widest), "cyan"), (f"  {effect}", "dim")]
