"""`holdfast config`: the settings in force, and where each came from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from holdfast import project, settings, wiring
from holdfast.cli import app
from holdfast.cli.terminal import Piece, clean, complain, out


@click.group("config")
def config_command() -> None:
    """Show the settings and where each came from."""


@config_command.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def show_settings(as_json: bool) -> None:
    """Every setting: key, value, origin."""
    environ = os.environ
    root = project.find_root(Path.cwd(), environ=environ)
    resolved = settings.load(root=root, environ=environ, flags={"home": app.home()})
    doubts = wiring.untrusted(root, resolved)
    rows = []
    for setting in settings.reference():
        origin = resolved.origins[setting.key]
        rows.append(
            {
                "key": setting.key,
                "value": _shown(setting.key, getattr(resolved.settings, setting.key)),
                "origin": origin.kind,
                "place": origin.place or None,
                "trusted": not (doubts and origin.kind in settings.PROJECT_FILES),
                "variable": setting.variable,
                "type": setting.type,
                "description": setting.description,
            }
        )
    if as_json:
        out.json(rows)
    else:
        _print(rows)
    for doubt in doubts:
        complain(f"not trusted: {clean(doubt)}; `holdfast trust` allows it")


def _shown(key: str, value: Any) -> Any:
    # People put the very secret into a pattern that is to be hidden.
    return f"{len(value)} patterns" if key == "redact" else value


def _print(rows: list[dict[str, Any]]) -> None:
    keys = max(len(row["key"]) for row in rows)
    values = [clean("-" if row["value"] is None else str(row["value"])) for row in rows]
    width = max(map(len, values))
    for row, value in zip(rows, values, strict=True):
        origin = row["place"] or row["origin"]
        set_here: Piece = (value.ljust(width), "" if row["origin"] == "default" else "bold")
        out.line([row["key"].ljust(keys), "  ", set_here, "  ", (clean(origin), "dim")])
