"""`holdfast backup`: copy the store, list the copies, put one back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast import wiring
from holdfast.cli import access, app, moments
from holdfast.cli.counts import counted
from holdfast.cli.terminal import Line, Piece, clean, err, out, say
from holdfast.errors import BadInput, HoldfastError, NotFound, StoreHeld
from holdfast.project import DATABASE
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast.store.sqlite.backup import Backup, Progress


@click.group("backup", invoke_without_command=True)
@click.pass_context
def backup_command(ctx: click.Context) -> object:
    """Copy the store, list the copies, put one back. Without a command: `create`."""
    return ctx.invoke(create) if ctx.invoked_subcommand is None else None


@backup_command.command("create", short_help="Copy the store while runs go on, and verify the copy.")
@click.argument("path", required=False)
@click.option("--force", is_flag=True, help="Overwrite a file that is no backup.")
@click.option("--without-files", is_flag=True, help="Leave out the files that runs have saved.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def create(
    path: str | None = None, force: bool = False, without_files: bool = False, as_json: bool = False
) -> None:
    """Copy the store while runs go on, verify the copy, and print its path.

    The copy holds all that `rewind`, `undo` and `diff` need: the log, and the files that runs have saved.
    With --without-files, or the setting `backup_files` off, it holds the log alone.

    PATH is a directory or a file; without it the copy goes to the backup directory, where the settings
    `backup_dir` and `backup_keep` say which that is and how many are kept.
    """
    if path == "":
        raise BadInput("the path of the backup is empty; name a directory or a file, or leave it out")
    with access.open_to_read() as opened, _progress_shown() as progress:
        made, removed = wiring.back_up(
            opened.place,
            opened.store,
            path,
            force=force,
            files=False if without_files else None,
            progress=progress,
        )
    if as_json:
        out.json({**_fields(made), "removed": [str(one) for one in removed]})
        return
    out.line(clean(str(made.path)))
    older = f"; removed {len(removed)} older" if removed else ""
    say(f"{counted(made.events, 'event')}, {_files(made)}, {amount(made.size)}, verified{older}")


@backup_command.command("list")
@click.argument("directory", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_backups(directory: str | None, as_json: bool) -> None:
    """List backups, the newest first, and say which are damaged.

    Each file is read from its beginning to its end. DIRECTORY is one that was named to `create`.
    """
    from holdfast.store.sqlite.backup import examine, find

    if directory is not None and not Path(directory).is_dir():
        raise NotFound(f"there is no directory {directory}; leave it out for the project's own")
    where = _directory() if directory is None else Path(directory)
    paths = find(where) if where else []
    found: list[Backup] = []
    with _progress_shown() as progress:
        for path in paths:
            progress("reading backup", len(found) + 1, len(paths))
            found.append(examine(path))
    if as_json:
        out.json([_fields(one) for one in found])
    elif found:
        for line in _table(found):
            out.line(line)
    else:
        say("no backups yet; `holdfast backup create` makes one")


@backup_command.command("restore", short_help="Make a backup the store; the old one is kept aside.")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def restore_backup(file: str, as_json: bool) -> None:
    """Verify the backup FILE and make it the store; the store that is there is kept aside.

    FILE is a path, or the name of one that `list` shows. Refused with exit code 4 while a live process
    executes runs of the store. Runs that were executing when the backup was made are interrupted:
    `holdfast resume` goes on with them.
    """
    from holdfast.store.sqlite.restore import inspect

    source = _source(file)
    inspect(source)  # before a directory is made for a store that is not there yet
    place = wiring.find_place({"home": app.home()})
    with _progress_shown() as progress:
        restored = wiring.restore_backup(
            place,
            source,
            datetime.now(UTC),
            refuse=lambda: _refuse_live(place.home),
            progress=progress,
        )
    done = restored.store
    if as_json:
        kept = str(done.kept) if done.kept else None
        fields = {"path": str(source), "home": str(place.home), "events": done.events, "kept": kept}
        out.json({**fields, "files": restored.files, "damaged": list(restored.damaged)})
        return
    out.line(f"restored {counted(done.events, 'event')} from {clean(str(source))}")
    if not restored.files:
        say("this backup holds no files, and the store does not have all that its runs have saved:")
        say("`rewind` and `undo` to a point whose files are missing work with --no-files only")
    if restored.damaged:
        some = ", ".join(one[:12] for one in restored.damaged[:3])
        say(f"{counted(len(restored.damaged), 'saved content')} was damaged when it was made ({some})")
    if done.kept:
        out.line(f"the store that was there is kept in {clean(str(done.kept))}")
    from holdfast.cli.listing import point_out_interrupted

    with access.open_to_read(place) as opened:
        point_out_interrupted(opened)


# Which file


def _directory() -> Path | None:
    """The backup directory; None if there is no project here. A store need not be there any more."""
    try:
        return wiring.backup_directory(
            wiring.find_place({"home": app.home()}, create=False, needs_store=False)
        )
    except NotFound:
        return None


def _source(file: str) -> Path:
    """What a person names: a file, a directory that a restore kept, or a name of `list`."""
    from holdfast.store.sqlite.backup import explained, find

    path, directory = Path(file), _directory()
    with explained(path.parent):
        if file and path.is_dir() and (path / DATABASE).exists():
            return path / DATABASE
        if file and os.path.lexists(path):
            return path
        if file and directory is not None and os.sep not in file and (directory / file).exists():
            return directory / file
    from difflib import get_close_matches

    near = get_close_matches(path.name, [one.name for one in find(directory)] if directory else [], n=3)
    hint = f"nearest: {', '.join(near)}" if near else "`holdfast backup list` shows those there are"
    raise NotFound(f"there is no backup {file!r}; {hint}")


# Who is alive


def _refuse_live(home: Path) -> None:
    """Raise StoreHeld while an owner, or a command that a dead one started, is alive."""
    from holdfast.engine.processes.lock_file import is_held

    for lock in (*(home / "owners").glob("*.lock"), *(home / "commands").glob("*/*.lock")):
        if is_held(lock):
            raise StoreHeld(home, *_holder(home, lock))


def _holder(home: Path, lock: Path) -> tuple[int, str]:
    """(process, host) of a lock: as the store has it, or, of a store that cannot be read, the system."""
    import apsw

    from holdfast.store.sqlite import sql
    from holdfast.store.sqlite.connection import connect

    try:
        db = connect(home / DATABASE)
        try:
            for _, host, _, pid, _ in db.execute(sql.query("owner"), (lock.stem,)):
                return pid, host
        finally:
            db.close(True)
    except (HoldfastError, apsw.Error):
        pass
    return _locking_process(lock), ""


def _locking_process(lock: Path) -> int:
    try:
        inode = lock.stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            # 3: FLOCK  ADVISORY  WRITE 1234 00:2a:5678 0 EOF
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                return int(words[4])
    except (OSError, ValueError, IndexError):
        pass  # not Linux
    return 0


# What is shown


@contextmanager
def _progress_shown() -> Iterator[Progress]:
    """On a terminal, one line that says how far it is; it is gone at the end."""
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


def _fields(backup: Backup) -> dict[str, object]:
    return {
        "path": str(backup.path),
        "at": moments.utc(backup.at),
        "bytes": backup.size,
        "events": backup.events,
        "files": backup.files is not None,
        "file_bytes": 0 if backup.files is None else backup.files.size,
        "ok": not backup.fault,
        "fault": backup.fault or None,
    }


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
