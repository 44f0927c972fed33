"""`holdfast config`: the settings in force, and where each came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli import app, options
from holdfast.cli.app import Family
from holdfast.cli.drawing.terminal import Piece, clean, complain, out
from holdfast.facade import storeless

if TYPE_CHECKING:
    from holdfast.views.setting import SettingInForce


@click.group("config", cls=Family)
def config_command() -> None:
    """Show the settings and where each came from."""


@config_command.command("show")
@options.json_list
def show_settings(as_json: bool) -> None:
    """Every setting: key, value, origin."""
    found, doubts = storeless.settings_in_force(app.home())
    if as_json:
        out.json([one.to_json() for one in found])
    else:
        _print(found)
    for doubt in doubts:
        complain(f"not trusted: {clean(doubt)}; `holdfast trust` allows it")


def _print(found: Sequence[SettingInForce]) -> None:
    keys = max(len(one.key) for one in found)
    values = [clean("-" if one.value is None else str(one.value)) for one in found]
    width = max(map(len, values))
    for one, value in zip(found, values, strict=True):
        set_here: Piece = (value.ljust(width), "" if one.origin == "default" else "bold")
        out.line([one.key.ljust(keys), "  ", set_here, "  ", (clean(one.place or one.origin), "dim")])
