"""`holdfast fork`: a new run that has already done what another had done before a point."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli import access, effects, points
from holdfast.cli.counts import counted
from holdfast.cli.terminal import Line, Piece, clean, out

if TYPE_CHECKING:
    from holdfast.operations.forking import Fork


@click.command("fork")
@click.argument("run")
@click.option(
    "--at",
    "step",
    required=True,
    metavar="POINT",
    help="A step, or a checkpoint's name; before:STEP, or start.",
)
@click.option("--into", metavar="ID", help="The new run's id (default: a new one).")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Let it work in this new directory, on the files of that point.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def fork_command(
    run: str, step: str, into: str | None, directory: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Make a new run from RUN: what that had done before POINT counts as done in it.

    A step runs again in the new run, a checkpoint is kept. RUN is not touched, and may be running. The
    new run waits for `holdfast resume`.
    """
    from holdfast.engine.outside.steering import user
    from holdfast.operations.forking import fork

    with access.open_to_execute() as (opened, engine):
        run_id = opened.reading.find(run)
        with points.explained(opened):
            made = fork(engine, run_id, step, by=user(), into=into, directory=directory, dry_run=dry_run)
    if as_json:
        out.json(_fields(made, dry_run))
    else:
        effects.show(_describe(made, dry_run))


def _fields(made: Fork, dry_run: bool) -> dict[str, Any]:
    return {
        "id": made.id or None,
        "origin": made.origin,
        "at": made.at,
        "kept": made.kept,
        "once": made.once,
        "made": not dry_run,
        "files": None if made.files is None else msgspec.to_builtins(made.files),
    }


def _describe(made: Fork, dry_run: bool) -> Iterator[Line]:
    verb = "would be made" if dry_run else "was made"
    name: Piece = (f"run {made.id}", "bold") if made.id else "a run"
    yield [name, f" {verb} from {made.origin} at ", (clean(made.at), "bold")]
    if made.kept:
        yield from effects.names("has", made.kept)
    else:
        yield from effects.row("has", "nothing: all of it runs", "dim")
    yield from effects.names("once", made.once, f"done in {made.origin}, and run again", "yellow")
    if made.files is not None:
        told = f"{counted(made.files.count, 'file')} {made.files.as_of}, in {made.files.directory}"
        yield from effects.row("files", told)
    if not dry_run:
        yield from effects.ways((f"holdfast resume {made.id}", "lets it go on"))
