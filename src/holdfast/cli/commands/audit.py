"""`holdfast audit verify`: is the log what was written?"""

from __future__ import annotations

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.commands.backup import progress_shown
from holdfast.cli.drawing.terminal import clean, out
from holdfast.counts import counted
from holdfast.errors import StoreError


@click.group("audit", cls=Family)
def audit_command() -> None:
    """Check the log against its hashes."""


@audit_command.command("verify", short_help="Check every event, head and table against the log.")
@options.json_object
def verify(as_json: bool) -> int:
    """Check every event against its hash, every head and every table against the log.

    Exits with 8 if anything does not hold, and names each place.
    """
    with access.open_to_read() as hf, progress_shown() as progress:
        found = hf.verify(on_progress=progress)
    if as_json:
        out.json(found.to_json())
    else:
        for fault in found.faults:
            out.line([("fault ", "red"), clean(fault.place), f": {clean(fault.what)}"])
        faults = counted(len(found.faults), "fault")
        verdict = ("all of them hold", "green") if found.ok else (faults, "red")
        out.line([f"{counted(found.streams, 'stream')}, {counted(found.events, 'event')}: ", verdict])
    return 0 if found.ok else StoreError.exit_code
