"""`holdfast workspace`: what is saved of the files, whether it is whole, and restoring it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, app, options
from holdfast.cli.app import Family
from holdfast.cli.drawing import effects
from holdfast.cli.drawing.terminal import Line, clean, out, show_warnings
from holdfast.counts import counted
from holdfast.facade import storeless
from holdfast.sizes import amount
from holdfast.ways import Way

if TYPE_CHECKING:
    from holdfast import Coverage

_MOST = 40


@click.group("workspace", cls=Family)
def workspace_command() -> None:
    """Show, check and restore what is saved of the files."""


@workspace_command.command("status")
@click.option("--all", "every", is_flag=True, help="Name everything that is not covered.")
@options.json_object
def status(every: bool, as_json: bool) -> None:
    """Show what a snapshot of the workspace holds, and what it does not, with the reason."""
    show_warnings()
    with access.scan_shown() as on_scan:
        found = storeless.coverage(app.home(), on_scan=on_scan)
    if as_json:
        out.json(found.to_json())
    else:
        effects.show(_describe(found, every))


def _describe(found: Coverage, every: bool) -> Iterator[Line]:
    yield from effects.row("workspace", found.root)
    yield from effects.row(
        "covered",
        f"{counted(found.files, 'file')} ({amount(found.size)}), {counted(found.links, 'link')}, "
        f"{counted(found.directories, 'directory', 'directories')}",
    )
    shown = found.uncovered if every else found.uncovered[:_MOST]
    width = max((len(path) for path, _ in shown), default=0)
    for n, (path, why) in enumerate(shown):
        name = ("not" if n == 0 else "").ljust(11)
        yield [(name, "dim"), clean(path).ljust(min(width, 60)), (f"  {why}", "dim")]
    if len(shown) < len(found.uncovered):
        yield [" " * 11, (f"and {len(found.uncovered) - len(shown):,} more (--all)", "dim")]


@workspace_command.command("verify")
@options.json_object
def verify(as_json: bool) -> None:
    """Read all that is saved of files, and check that every snapshot of the log is whole.

    Exits with 8 if anything is damaged or missing.
    """
    with access.open_to_read() as hf:
        found = hf.verify_files()
    if as_json:
        out.json(found.to_json())
    elif found.damaged:
        effects.show(effects.names("damaged", found.damaged, style="red"))
    else:
        are = "is" if found.contents == 1 else "are"
        out.line([(counted(found.contents, "content"), "bold"), f" ({amount(found.size)}) {are} whole"])
    if found.damaged:
        sys.exit(8)


@workspace_command.command("restore")
@click.argument("snapshot")
@click.option("--only", multiple=True, metavar="GLOB", help="Only these files, as in .gitignore.")
@click.option("--partial", is_flag=True, help="Continue without files whose saved content is damaged.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@options.json_object
def restore(snapshot: str, only: tuple[str, ...], partial: bool, dry_run: bool, as_json: bool) -> None:
    """Make the files what they were in SNAPSHOT, its id or the beginning of it.

    Whichever process changed them since: what goes is saved first, and `holdfast undo` restores it. A
    snapshot of what was rescued changes only those files; one of an attempt that was rolled back, what that
    had done, unless --only names others.
    """
    with access.open_for(dry_run) as hf:
        done = hf.restore(snapshot, only=only, partial=partial, dry_run=dry_run)
    if as_json:
        out.json(done.to_json())
        return

    def lines() -> Iterator[Line]:
        yield from effects.files(done.files)
        if done.operation:
            yield from effects.ways(Way("undo", "", {"operation": done.operation}, "undoes this"))

    effects.show(lines())
