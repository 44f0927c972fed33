"""`holdfast trust` and `untrust`: settings and stores that came from somewhere else, allowed by the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.drawing.terminal import Line, clean, out, say
from holdfast.handle import Holdfast

if TYPE_CHECKING:
    from holdfast import Granted

_directory = click.argument("directory", required=False, type=click.Path(path_type=Path))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("trust")
@_directory
@click.option("--list", "listing", is_flag=True, help="List what is trusted.")
@_json
def trust_command(directory: Path | None, listing: bool, as_json: bool) -> None:
    """Allow the settings of a project, or a store, that came from somewhere else.

    DIRECTORY is a project (default: the one that you are in), or the directory of a store. A project's files
    may then say where the store, the workspace and the backups are; the runs of a store may be executed and
    its files restored where it says. If the settings or the database become others, that needs trust again.

    What you make yourself needs no trust, and neither does a store that you name with --home or
    HOLDFAST_HOME to resume its runs. Where nothing is kept, as in a container or a CI job, the variable
    HOLDFAST_TRUST names directories in which all is trusted, separated by `:`.
    """
    if listing and directory is not None:
        raise click.UsageError("--list takes no DIRECTORY")
    if listing:
        _list(as_json)
    else:
        _trust(directory, as_json)


@click.command("untrust")
@_directory
@_json
def untrust_command(directory: Path | None, as_json: bool) -> None:
    """Undo `holdfast trust` for DIRECTORY, which need not exist any more, or the project that you are in.

    The store that was trusted with a project is no longer trusted either.
    """
    removed = Holdfast.untrust(directory)
    if as_json:
        out.json({"removed": removed})
    else:
        for one in removed:
            out.line(["no longer trusted: ", (clean(one), "bold")])


def _trust(directory: Path | None, as_json: bool) -> None:
    granted = Holdfast.trust(directory)
    if as_json:
        out.json(granted.to_json())
    else:
        out.lines(_lines(granted))


def _list(as_json: bool) -> None:
    records = Holdfast.trusted()
    if as_json:
        out.json([one.to_json() for one in records])
        return
    if not records:
        say("nothing is trusted; `holdfast trust` allows the settings of the project that you are in")
    width = max((len(clean(one.directory)) for one in records), default=0)
    for one in records:
        state = "" if one.holds else "  changed since: trust it again"
        line: Line = [
            clean(one.directory).ljust(width),
            f"  {one.kind.ljust(7)}",
            (f"  {one.at}", "dim"),
            (state, "yellow"),
        ]
        out.line(line)


def _lines(granted: Granted) -> list[Line]:
    lines: list[Line] = [["trusted: ", (clean(granted.directory), "bold")]]
    width = max((len(one.key) for one in granted.settings), default=0)
    for one in granted.settings:
        value = clean(str(one.value))
        lines.append(["  ", one.key.ljust(width), f"  {value}  ", (clean(one.place), "dim")])
    if granted.store:
        lines.append(
            f"  the code that the runs in {clean(granted.store)} name may be executed, and files restored "
            "where it says"
        )
    return lines
