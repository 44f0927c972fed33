"""`holdfast trust` and `untrust`: settings and stores that came from somewhere else, allowed by the user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from holdfast import project, settings, trust, wiring
from holdfast.cli.terminal import Line, clean, out, say
from holdfast.errors import NotFound, SettingsError
from holdfast.trust import Trusted

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
    its files put back where it says. If the settings or the database become others, that needs trust again.

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
    given = Path.cwd() if directory is None else directory.resolve()
    data_home = project.data_home(os.environ)
    with project.explained(data_home):
        removed = trust.untrust(data_home, given)
        if not removed and given.is_dir():
            removed = trust.untrust(data_home, project.find_root(given, environ=os.environ))
    if not removed:
        raise NotFound(f"{given} is not trusted; `holdfast trust --list` shows what is")
    if as_json:
        out.json({"removed": removed})
    else:
        for one in removed:
            out.line(["no longer trusted: ", (clean(one), "bold")])


def _trust(directory: Path | None, as_json: bool) -> None:
    given = _given(directory)
    data_home = project.data_home(os.environ)
    root = project.find_root(given, environ=os.environ)
    is_store = (given / project.DATABASE).exists()
    with project.explained(data_home):
        # A directory may be both: `home = "."`.
        if not is_store or (given == root and settings.load(root=root, environ={}).sources):
            trusted = _project(root, data_home)
        else:
            trusted = {"directory": str(given), "settings": [], "store": None}
        if is_store and trusted["store"] is None:
            wiring.trust_store(given)
            trusted["store"] = str(given)
    if as_json:
        out.json(trusted)
        return
    for line in _lines(trusted):
        out.line(line)


def _project(root: Path, data_home: Path) -> dict[str, Any]:
    """Trust in the settings of a project, and in the store that they name, if it is there already."""
    resolved = settings.load(root=root, environ={})
    if not resolved.sources:
        raise NotFound(
            f"there is nothing in {root} that needs trust: no settings of holdfast, and no store; "
            "`holdfast trust DIRECTORY` names another one"
        )
    said = [
        {"key": key, "value": getattr(resolved.settings, key), "place": resolved.origins[key].place}
        for key in resolved.moved
    ]
    store = None
    if resolved.settings.home is not None:
        home = project.expand(resolved.settings.home, environ=os.environ, cwd=root)
        if (home / project.DATABASE).exists():
            wiring.trust_store(home)
            store = home.resolve()
    trust.trust(data_home, "project", root, trust.project_content(root, resolved.digest), store)
    return {"directory": str(root), "settings": said, "store": store and str(store)}


def _list(as_json: bool) -> None:
    data_home = project.data_home(os.environ)
    rows: list[dict[str, Any]] = [
        {"directory": one.directory, "kind": one.kind, "at": one.at, "holds": _holds(data_home, one)}
        for one in trust.listed(data_home)
    ]
    if as_json:
        out.json(rows)
        return
    if not rows:
        say("nothing is trusted; `holdfast trust` allows the settings of the project that you are in")
    width = max((len(clean(row["directory"])) for row in rows), default=0)
    for row in rows:
        state = "" if row["holds"] else "  changed since: trust it again"
        kind = f"  {row['kind'].ljust(7)}"
        line: Line = [
            clean(row["directory"]).ljust(width),
            kind,
            (f"  {row['at']}", "dim"),
            (state, "yellow"),
        ]
        out.line(line)


def _holds(data_home: Path, trusted: Trusted) -> bool:
    """Whether it still is what was trusted."""
    directory = Path(trusted.directory)
    try:
        if trusted.kind == "store":
            content = trust.store_content(wiring.token_of(directory))
        else:
            content = trust.project_content(directory, settings.load(root=directory, environ={}).digest)
    except SettingsError:  # trusted were settings without a fault
        return False
    return trust.is_trusted(data_home, trusted.kind, directory, content)


def _given(directory: Path | None) -> Path:
    if directory is None:
        return Path.cwd()
    if not directory.is_dir():
        raise NotFound(f"there is no directory {directory}")
    return directory.resolve()


def _lines(trusted: dict[str, Any]) -> list[Line]:
    lines: list[Line] = [["trusted: ", (clean(trusted["directory"]), "bold")]]
    width = max((len(one["key"]) for one in trusted["settings"]), default=0)
    for one in trusted["settings"]:
        value = clean(str(one["value"]))
        lines.append(["  ", one["key"].ljust(width), f"  {value}  ", (clean(one["place"]), "dim")])
    if trusted["store"]:
        lines.append(
            f"  the code that the runs in {clean(trusted['store'])} name may be executed, and files put back "
            "where it says"
        )
    return lines
