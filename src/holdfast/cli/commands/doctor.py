"""`holdfast doctor`: is everything under the runs as it should be?"""

from __future__ import annotations

import click

from holdfast.cli import app, options
from holdfast.cli.drawing.terminal import Piece, cells, clean, folded, out, text_of
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
        head: list[Piece] = [sign, f" {check.name.ljust(width)}  "]
        indent = cells(text_of(head))
        says = folded(clean(check.says), out.width - indent) if out.is_terminal else [clean(check.says)]
        for n, part in enumerate(says):
            out.line([*(head if n == 0 else [" " * indent]), *([part] if isinstance(part, str) else part)])
    return code
