"""`holdfast doctor`: is everything under the runs as it should be?"""

from __future__ import annotations

import click

from holdfast.cli import app, options
from holdfast.cli.drawing.terminal import Piece, clean, out
from holdfast.facade import storeless

_SIGNS = {"good": ("✓", "ok", "green"), "note": ("!", "note", "yellow"), "bad": ("✗", "bad", "red")}


@click.command("doctor")
@options.json_object
def doctor_command(as_json: bool) -> int:
    """Check the store and the machine under it; exits with another code than 0 if something is wrong."""
    checks = storeless.doctor(app.home())
    code = next((check.code for check in checks if check.verdict == "bad"), 0)
    if as_json:
        out.json({"ok": code == 0, "checks": [one.to_json() for one in checks]})
        return code
    width = max(len(check.name) for check in checks)
    for check in checks:
        rich, plain, style = _SIGNS[check.verdict]
        sign: Piece = (rich if out.has_unicode else plain.ljust(4), style)
        out.line([sign, f" {check.name.ljust(width)}  ", clean(check.says)])
    return code
