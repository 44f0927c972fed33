"""`holdfast checkpoints`: the named points of a run, to which it can be rewound."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli import access, moments
from holdfast.cli.terminal import Line, cells, clean, fit, out, pad, say, typed

if TYPE_CHECKING:
    from holdfast.operations.checkpoints import CheckpointInfo


@click.command("checkpoints")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def checkpoints_command(run: str, as_json: bool) -> None:
    """List the checkpoints of RUN in the order in which they were taken, with their data.

    Those of generations that a rewind or an undo has left are marked: the run is rewound to one of them after
    `holdfast undo` has brought its generation back.
    """
    from holdfast.operations.checkpoints import checkpoints

    with access.open_to_read() as opened:
        run_id = opened.reading.find(run)
        found = checkpoints(opened.store, opened.reading.redactor, run_id, every=True)
    if as_json:
        out.json([_fields(one) for one in found])
    elif found:
        out.lines(_lines(found))
        live = [one for one in found if one.live]
        if live:
            back = f"`holdfast rewind {run_id} --to {shlex.quote(live[-1].key)}` goes back to the last one"
            say([(typed(f"{back}, `--to start` to before all"), "dim")])
    else:
        say(
            f"run {run_id} has taken no checkpoint; it can be rewound to each of its steps, to before one "
            "(`--to before:STEP`), and to before all (`--to start`)"
        )


def _fields(one: CheckpointInfo) -> dict[str, Any]:
    return {
        "name": one.name,
        "key": one.key,
        "at": one.at.isoformat(),
        "data": one.data,
        "generation": one.generation,
        "live": one.live,
    }


def _lines(found: Sequence[CheckpointInfo]) -> Iterator[Line]:
    whens = [moments.ago(one.at) if out.is_terminal else moments.utc(one.at) for one in found]
    keys, when_width = max(cells(one.key) for one in found), max(map(len, whens))
    room = max(out.width - keys - when_width - 4, 20)
    for one, when in zip(found, whens, strict=True):
        data = msgspec.json.encode(one.data).decode() if one.data else ""
        yield [
            (pad(clean(one.key), keys), "bold" if one.live else "dim"),
            "  ",
            (when.rjust(when_width), "dim"),
            ("" if one.live else f"  in generation {one.generation}, which was left", "yellow"),
            f"  {fit(clean(data), room)}",
        ]
