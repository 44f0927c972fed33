"""`holdfast fork`: a new run that has already done what another had done before a point."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import effects
from holdfast.cli.drawing.step_names import counted_names, short_key
from holdfast.cli.drawing.terminal import Line, Piece, clean, out
from holdfast.counts import counted
from holdfast.ways import Way

if TYPE_CHECKING:
    from holdfast import Fork


@click.command("fork")
@click.argument("run")
@click.option(
    "--at",
    "step",
    metavar="POINT",
    help="A step, or a checkpoint's name; before:STEP, or start. Without it and with --plan-file: "
    "all that was done.",
)
@click.option("--into", metavar="ID", help="The new run's id (default: a new one).")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Let it work in this new directory, on the files of that point.",
)
@click.option(
    "--plan-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a run of a plan: fork it with the plan in FILE; steps that are the same keep their results.",
)
@options.previewed
@options.json_object
def fork_command(
    run: str,
    step: str | None,
    into: str | None,
    directory: Path | None,
    plan_file: Path | None,
    dry_run: bool,
    plan: str | None,
    as_json: bool,
) -> None:
    """Make a new run from RUN: what that had done before POINT counts as done in it.

    A step runs again in the new run, a checkpoint is kept. RUN is not touched, and may be running. The
    new run waits for `holdfast resume`.
    """
    if step is None and plan_file is None:
        raise click.UsageError("give a point, `--at POINT`, or another plan, `--plan-file FILE`")
    with access.open_for(dry_run) as hf:
        made = hf.fork(
            hf.find(run), step, into, directory=directory, plan_file=plan_file, dry_run=dry_run, plan=plan
        )
    if as_json:
        out.json(made.to_json())
    else:
        effects.show(_describe(made))


def _describe(made: Fork) -> Iterator[Line]:
    verb = "was made" if made.made else "would be made"
    name: Piece = (f"run {made.id}", "bold") if made.id else "a run"
    yield [name, f" {verb} from {made.origin} at ", (clean(short_key(made.at)), "bold")]
    if made.kept:
        yield from effects.names("has", counted_names(made.kept))
    else:
        yield from effects.row("has", "nothing: all of it runs", "dim")
    yield from effects.names(
        "once", counted_names(made.once), f"done in {made.origin}, and run again", "yellow"
    )
    if made.files is not None:
        text = f"{counted(made.files.count, 'file')} {made.files.as_of}, in {made.files.directory}"
        yield from effects.row("files", text)
    if made.made:
        yield from effects.ways(Way("resume", made.id, {}, "starts it"))
    else:
        yield from effects.plan(made.plan)
