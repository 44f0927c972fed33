"""`holdfast trust` and `untrust`: settings and stores that came from somewhere else, allowed by the user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from holdfast import project, settings, trust
from holdfast.cli.terminal import Line, clean, out, say
from holdfast.errors import BadInput, NotFound

_directory = click.argument("directory", required=False, type=click.Path(path_type=Path))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("trust")
@_directory
@click.option("--list", "listing", is_flag=True, help="List what is trusted.")
@click.option("--remove", is_flag=True, help="Trust it no longer; the same as `holdfast untrust`.")
@_json
def trust_command(directory: Path | None, listing: bool, remove: bool, as_json: bool) -> None:
    """Allow the settings of a project, or a store, that came from somewhere else.

    DIRECTORY is a project (default: the one that you are in), or the directory of a store. A project's files
    may then say where the store, the workspace and the backups are; the runs of a store may be executed and
    its files put back where it says. If the settings or the database become others, that needs trust again.

    What you make yourself needs no trust, and neither does a store that you name with --home or
    HOLDFAST_HOME to resume its runs.
    """
    if listing and (directory is not None or remove):
        raise click.UsageError("--list takes no DIRECTORY and no --remove")
    if listing:
        _list(as_json)
    elif remove:
        _remove(directory, as_json)
    else:
        _trust(directory, as_json)


@click.command("untrust")
@_directory
@_json
def untrust_command(directory: Path | None, as_json: bool) -> None:
    """Take back what `holdfast trust` allowed, for DIRECTORY or the project that you are in."""
    _remove(directory, as_json)


def _trust(directory: Path | None, as_json: bool) -> None:
    given = _given(directory)
    data_home = project.data_home(os.environ)
    with project.explained(data_home):
        if (given / project.DATABASE).exists():
            trusted = _store(given, data_home)
        else:
            trusted = _project(project.find_root(given, environ=os.environ), data_home)
    if as_json:
        out.json(trusted)
        return
    for line in _lines(trusted):
        out.line(line)


def _store(home: Path, data_home: Path) -> dict[str, Any]:
    """Trust in a store: whatever it names is used."""
    fault = trust.store_fault(home, project.DATABASE)
    if fault:
        raise BadInput(f"{fault}; make it yours first: `chown` it, and `chmod go-w`")
    trust.trust(data_home, home, trust.database_content(home, project.DATABASE))
    return {"directory": str(home), "settings": [], "store": str(home)}


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
            store = _store(home, data_home)["store"]
    trust.trust(data_home, root, resolved.digest)
    return {"directory": str(root), "settings": said, "store": store}


def _remove(directory: Path | None, as_json: bool) -> None:
    given = _given(directory)
    data_home = project.data_home(os.environ)
    root = project.find_root(given, environ=os.environ)
    candidates = dict.fromkeys((given, root))
    with project.explained(data_home):
        removed = [str(one) for one in candidates if trust.untrust(data_home, one)]
        if directory is None or given == root:
            removed += _untrust_store(root, data_home)
    if not removed:
        raise NotFound(f"{given} is not trusted; `holdfast trust --list` shows what is")
    if as_json:
        out.json({"removed": removed})
    else:
        for one in removed:
            out.line(["no longer trusted: ", (clean(one), "bold")])


def _untrust_store(root: Path, data_home: Path) -> list[str]:
    """The store that the settings of a project name was trusted with them."""
    chosen = settings.load(root=root, environ={}).settings.home if root.is_dir() else None
    if chosen is None:
        return []
    home = project.expand(chosen, environ=os.environ, cwd=root)
    return [str(home)] if trust.untrust(data_home, home) else []


def _list(as_json: bool) -> None:
    data_home = project.data_home(os.environ)
    rows: list[dict[str, Any]] = [
        {"directory": one.directory, "at": one.at, "holds": _holds(data_home, Path(one.directory))}
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
        line: Line = [clean(row["directory"]).ljust(width), (f"  {row['at']}", "dim"), (state, "yellow")]
        out.line(line)


def _holds(data_home: Path, directory: Path) -> bool:
    """Whether it still is what was trusted."""
    if (directory / project.DATABASE).exists():
        content = trust.database_content(directory, project.DATABASE)
    elif directory.is_dir():
        content = settings.load(root=directory, environ={}).digest
    else:
        return False
    return trust.is_trusted(data_home, directory, content)


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
