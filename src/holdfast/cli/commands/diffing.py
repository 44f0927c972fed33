"""`holdfast diff`: what changed in the files between two moments of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing.terminal import Line, cells, clean, out, pad, say

if TYPE_CHECKING:
    from holdfast import FileDiff

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@click.command("diff")
@click.argument("run")
@click.argument("a", metavar="A")
@click.argument("b", metavar="[B]", required=False)
@click.option("--stat", is_flag=True, help="Only the names of what changed, with the number of lines.")
@options.json_list
def diff_command(run: str, a: str, b: str | None, stat: bool, as_json: bool) -> None:
    """Show what changed in the files of RUN from A to B; without B, to what is on the disk.

    Each is a checkpoint, a step (the files as it left them), `before:STEP` (as it found them), or `disk`.
    """
    with access.open_to_read() as hf, hf.differing(hf.find(run), a, b) as found:
        access.clear_progress()
        if as_json:
            out.json([one.to_json() for one in found.diffs()])
            return
        if not found.changes:
            say(f"no file differs: {clean(found.names[0])}, {clean(found.names[1])}")
        if stat:
            out.lines(_stat(list(found.diffs())))
        else:
            for one in found.diffs():
                _show(one.text)
    if found.changes:
        many = "1 path differs" if len(found.changes) == 1 else f"{len(found.changes):,} paths differ"
        say([(f"{many}: {clean(found.names[0])}, {clean(found.names[1])}", "dim")])


def _stat(diffs: Sequence[FileDiff]) -> Iterator[Line]:
    """A line for each path: how it changed, and how many lines were added and removed."""
    paths = [f"{one.change} {clean(one.path)}" for one in diffs]
    widest = min(max(map(cells, paths), default=0), max(out.width - 16, 20))
    for path, one in zip(paths, diffs, strict=True):
        lines = one.lines()
        if lines is None:
            yield [pad(path, widest), ("  binary or large", "dim")]
        elif any(lines):
            yield [pad(path, widest), (f"  +{lines[0]:,}", "green"), (f" -{lines[1]:,}", "red")]
        else:
            yield path


def _show(text: str) -> None:
    """A program gets the contents as they are."""
    if not out.is_terminal:
        out.text(text)
        return
    for n, line in enumerate(text.removesuffix("\n").split("\n")):
        style = "bold" if n == 0 or line.startswith(("+++", "---")) else _STYLES.get(line[:1], "")
        out.line([(clean(line.expandtabs()), style)])
