"""`holdfast archive`: runs that have ended leave the store for a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import effects
from holdfast.cli.drawing.terminal import Line, err, out
from holdfast.cli.selection import read_since
from holdfast.counts import counted

if TYPE_CHECKING:
    from holdfast import Archive


@click.command("archive")
@click.option(
    "--older-than",
    default="30d",
    show_default=True,
    callback=read_since,
    metavar="TIME",
    help="Only runs that have not changed since then.",
)
@click.option("--failed", is_flag=True, help="Failed runs too: they can no longer be resumed then.")
@click.option(
    "--to", "directory", type=click.Path(path_type=Path), help="Where to (default: in the store's own)."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@options.json_object
def archive_command(
    older_than: datetime, failed: bool, directory: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Move runs that ended, with their child runs, out of the store into a file.

    The file has every event with its hash, and large values, a line of JSON each (gzip). It is whole and
    read back before anything is removed. The log keeps a record of each run, `audit verify` still holds,
    and an archived run's id is not used again.

    TIME is how long ago (12h, 30d, 8w), a date (2026-01-31), or a date and time.
    """
    with access.open_to_read() if dry_run else access.open_to_keep() as hf:
        done = hf.archive(
            older_than,
            failed=failed,
            directory=directory,
            dry_run=dry_run,
            on_progress=_progress if err.is_live else None,
        )
    if as_json:
        out.json(done.to_json())
    else:
        effects.show(_describe(done, dry_run))


def _progress(done: int, total: int) -> None:
    """How far it has come, on a terminal."""
    err.draw(f"writing {done:,} of {total:,} runs" if done < total else "")


def _describe(done: Archive, dry_run: bool) -> Iterator[Line]:
    if not done.runs and not done.stayed:
        yield "nothing to archive: no run that has ended is that old"
        return
    many = counted(len(done.runs), "run")
    verb = "would be archived" if dry_run else "archived"
    yield [(many, "bold"), f" with {counted(done.events, 'event')} {verb}"]
    if done.file is not None:
        yield from effects.row("file", f"{done.file} ({done.size:,} bytes)")
    yield from effects.names("runs", done.runs)
    yield from effects.names(
        "stayed", done.stayed, "they, or one of their family, were resumed meanwhile", "yellow"
    )
