"""`holdfast audit verify` and `holdfast repair`: is the log what was written?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli import access
from holdfast.cli.counts import counted
from holdfast.cli.terminal import clean, complain, err, out, say
from holdfast.errors import StoreError

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.cli.database import Extent
    from holdfast.store.port import Fault


@click.group("audit")
def audit_command() -> None:
    """Check the log against its hashes."""


@audit_command.command("verify", short_help="Check every event, head and table against the log.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def verify(as_json: bool) -> int:
    """Check every event against its hash, every head and every table against the log.

    Exits with 8 if anything does not hold, and names each place.
    """
    with access.open_to_read() as opened:
        size, faults = examine(opened)
    if as_json:
        listed = [{"stream": fault.stream, "version": fault.version, "what": fault.what} for fault in faults]
        out.json({"ok": not faults, "streams": size.streams, "events": size.events, "faults": listed})
    else:
        for fault in faults:
            out.line([("fault ", "red"), clean(place_of(fault)), f": {clean(fault.what)}"])
        verdict = ("all of them hold", "green") if not faults else (counted(len(faults), "fault"), "red")
        out.line([f"{counted(size.streams, 'stream')}, {counted(size.events, 'event')}: ", verdict])
    return StoreError.exit_code if faults else 0


def examine(opened: Opened) -> tuple[Extent, list[Fault]]:
    """How much there is, and every fault in it; says on a terminal that it is at work."""
    from holdfast.cli.database import extent

    size = extent(opened.store.path)
    if err.is_live:
        err.draw(f"checking {size.events} events in {size.streams} streams ...")
    try:
        return size, list(opened.store.verify())
    finally:
        if err.is_live:
            err.draw()


def place_of(fault: Fault) -> str:
    if not fault.stream:
        return "the database"
    return f"{fault.stream} version {fault.version}" if fault.version else fault.stream


@click.command("repair")
@click.option("--rebuild", is_flag=True, help="Make the tables of runs and steps again from the log.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def repair(rebuild: bool, as_json: bool) -> int:
    """Put right what can be put right from the log."""
    if not rebuild:
        raise click.UsageError("say what to repair: --rebuild makes the tables again from the log")
    with access.open_to_read() as opened:
        opened.store.rebuild()
        size, faults = examine(opened)
    if as_json:
        out.json({"ok": not faults, "events": size.events, "faults": len(faults)})
    elif not faults:
        out.line(f"the tables were made again from {size.events} events, and match them")
    if not faults:
        return 0
    say(f"first fault: {clean(place_of(faults[0]))}: {clean(faults[0].what)}")
    complain(f"the log itself has {counted(len(faults), 'fault')}; `holdfast audit verify` names each")
    return StoreError.exit_code
