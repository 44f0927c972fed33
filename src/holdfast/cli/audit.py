"""`holdfast audit verify` and `holdfast repair`: is the log what was written?"""

from __future__ import annotations

import click

from holdfast.cli import access
from holdfast.cli.backup import progress_shown
from holdfast.cli.counts import counted
from holdfast.cli.terminal import clean, complain, out, say
from holdfast.errors import StoreError
from holdfast.ways import Way, quoted


@click.group("audit")
def audit_command() -> None:
    """Check the log against its hashes."""


@audit_command.command("verify", short_help="Check every event, head and table against the log.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
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


@click.command("repair")
@click.option("--rebuild", is_flag=True, help="Make the tables of runs and steps again from the log.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def repair(rebuild: bool, as_json: bool) -> int:
    """Put right what can be put right from the log."""
    if not rebuild:
        raise click.UsageError("say what to repair: --rebuild makes the tables again from the log")
    with access.open_to_keep() as hf, progress_shown() as progress:
        done = hf.repair(on_progress=progress)
    audit = done.audit
    if as_json:
        out.json(done.to_json())
    elif audit.ok:
        out.line(f"the tables were made again from {audit.events} events, and match them")
    if audit.ok:
        return 0
    first, many = audit.faults[0], counted(len(audit.faults), "fault")
    say(f"first fault: {clean(first.place)}: {clean(first.what)}")
    complain(f"the log itself has {many}; {quoted(Way('audit verify'))} names each")
    return StoreError.exit_code
