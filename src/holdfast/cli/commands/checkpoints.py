"""`holdfast checkpoints`: the named points of a run, to which it can be rewound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli import access, options
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.terminal import Line, cells, clean, fit, out, pad, say, typed
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast import CheckpointInfo


@click.command("checkpoints")
@click.argument("run")
@options.json_list
def checkpoints_command(run: str, as_json: bool) -> None:
    """List the checkpoints of RUN in the order in which they were taken, with their data.

    Those of generations that a rewind or an undo has left are marked: the run is rewound to one of them after
    `holdfast undo` has brought its generation back.
    """
    with access.open_to_read() as hf:
        run_id = hf.find(run)
        found = hf.checkpoints(run_id, every=True)
    if as_json:
        out.json([one.to_json() for one in found])
    elif found:
        out.lines(_lines(found))
        live = [one for one in found if one.live]
        if live:
            way = quoted(Way("rewind", run_id, {"to": live[-1].key}))
            say([(typed(f"{way} goes back to the last one, `--to start` to before all"), "dim")])
    else:
        say(
            f"run {run_id} has taken no checkpoint; it can be rewound to each of its steps, to before one "
            "(`--to before:STEP`), and to before all (`--to start`)"
        )


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
