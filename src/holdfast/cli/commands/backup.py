"""`holdfast backup`: copy the store, list the copies, restore one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, app, options
from holdfast.cli.app import Family
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.terminal import Line, Piece, clean, err, out, print_list, say
from holdfast.counts import counted
from holdfast.errors import BadInput
from holdfast.facade import storeless
from holdfast.handle import Holdfast
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast import Backup


@click.group("backup", cls=Family, invoke_without_command=True)
@click.pass_context
def backup_command(ctx: click.Context) -> object:
    """Copy the store, list the copies, restore one. Without a command: `create`."""
    return ctx.invoke(create) if ctx.invoked_subcommand is None else None


@backup_command.command("create", short_help="Copy the store while runs continue, and verify the copy.")
@click.argument("path", required=False)
@click.option("--force", is_flag=True, help="Overwrite a file that is no backup.")
@click.option("--without-files", is_flag=True, help="Leave out the files that runs have saved.")
@options.json_object
def create(
    path: str | None = None, force: bool = False, without_files: bool = False, as_json: bool = False
) -> None:
    """Copy the store while runs continue, verify the copy, and print its path.

    The copy holds all that `rewind`, `undo` and `diff` need: the log, and the files that runs have saved.
    With --without-files, or the setting `backup_files` off, it holds the log alone.

    PATH is a directory or a file; without it the copy goes to the backup directory, where the settings
    `backup_dir` and `backup_keep` say which that is and how many are kept.
    """
    if path == "":
        raise BadInput("the path of the backup is empty; name a directory or a file, or leave it out")
    with access.open_to_read() as hf, progress_shown() as progress:
        made = hf.backup(path, force=force, files=False if without_files else None, on_progress=progress)
    if as_json:
        out.json(made.to_json())
        return
    out.line(clean(str(made.path)))
    older = f"; removed {len(made.removed)} older" if made.removed else ""
    say(f"{counted(made.events, 'event')}, {_files(made)}, {amount(made.size)}, verified{older}")


@backup_command.command("list")
@click.argument("directory", required=False)
@options.json_list
def list_backups(directory: str | None, as_json: bool) -> None:
    """List backups, the newest first, and say which are damaged.

    Each file is read from its beginning to its end. DIRECTORY is one that was named to `create`.
    """
    with progress_shown() as progress:
        found = storeless.backups(directory, app.home(), on_progress=progress)
    print_list(found, as_json, _table(found), "no backups yet; `holdfast backup create` makes one")


@backup_command.command("restore", short_help="Make a backup the store; the old one is kept aside.")
@click.argument("file")
@options.json_object
def restore_backup(file: str, as_json: bool) -> None:
    """Verify the backup FILE and make it the store; the store that is there is kept aside.

    FILE is a path, or the name of one that `list` shows. Refused with exit code 4 while a live process
    executes runs of the store. Runs that were executing when the backup was made are interrupted:
    `holdfast resume` continues them.
    """
    with progress_shown() as progress:
        done = Holdfast.restore_backup(file, app.home(), on_progress=progress)
    if as_json:
        out.json(done.to_json())
        return
    out.line(f"restored {counted(done.events, 'event')} from {clean(str(done.path))}")
    if not done.files:
        say("this backup holds no files, and the store does not have all that its runs have saved:")
        say("`rewind` and `undo` to a point whose files are missing work with --no-files only")
    if done.damaged:
        some = ", ".join(one[:12] for one in done.damaged[:3])
        say(f"{counted(len(done.damaged), 'saved content')} was damaged when it was made ({some})")
    if done.kept:
        out.line(f"the store that was there is kept in {clean(str(done.kept))}")
    from holdfast.cli.commands.listing import point_out_interrupted

    with access.open_to_read() as hf:
        point_out_interrupted(hf)


# What is shown


@contextmanager
def progress_shown() -> Iterator[Callable[[str, int, int], None]]:
    """On a terminal, one line with the progress, which is cleared at the end."""
    shown = ""

    def show(what: str, done: int, total: int) -> None:
        nonlocal shown
        copies = what.startswith("copying")
        far = f"{100 * done // total} %" if copies and total else f"{done} of {total}"
        line = f"{what} {far if done or copies else counted(total, 'event')} ..."
        if line != shown and err.is_live:
            shown = line
            err.draw(line)

    try:
        yield show
    finally:
        if shown:
            err.draw()


def _files(backup: Backup) -> str:
    return "without files" if backup.files is None else "with files"


def _table(found: Sequence[Backup]) -> Iterator[Line]:
    stamp = moments.stamp if out.is_terminal else moments.utc
    rows = [(stamp(one.at), amount(one.size), counted(one.events, "event"), _files(one)) for one in found]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    for one, (at, size, events, files) in zip(found, rows, strict=True):
        fault: list[Piece] = [("  " + clean(one.fault), "red")] if one.fault else []
        yield [
            f"{at.ljust(widths[0])}  {size.rjust(widths[1])}  {events.rjust(widths[2])}  ",
            f"{files.ljust(widths[3])}  ",
            clean(one.path.name),
            *fault,
        ]
