"""`holdfast doctor`: is everything under the runs as it should be?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from holdfast.cli import access
from holdfast.cli.counts import counted
from holdfast.cli.terminal import Piece, clean, out
from holdfast.errors import HoldfastError, NotFound, NotTrusted, SettingsError, StoreError
from holdfast.project import DATABASE
from holdfast.sizes import amount
from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.wiring import Place

_LITTLE_ROOM = 100 * 2**20
_SIGNS = {"good": ("✓", "ok", "green"), "note": ("!", "note", "yellow"), "bad": ("✗", "bad", "red")}


class Check(NamedTuple):
    """One thing that was looked at. `code` is the exit code if it is bad."""

    name: str
    verdict: Literal["good", "note", "bad"]
    says: str
    code: int = 0


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def doctor_command(as_json: bool) -> int:
    """Check the store and the machine under it; exits with another code than 0 if something is wrong."""
    checks = list(examine())
    code = next((check.code for check in checks if check.verdict == "bad"), 0)
    if as_json:
        listed = [{"name": one.name, "verdict": one.verdict, "says": one.says} for one in checks]
        out.json({"ok": code == 0, "checks": listed})
        return code
    width = max(len(check.name) for check in checks)
    for check in checks:
        rich, plain, style = _SIGNS[check.verdict]
        sign: Piece = (rich if out.has_unicode else plain.ljust(4), style)
        out.line([sign, f" {check.name.ljust(width)}  ", clean(check.says)])
    return code


def examine() -> Iterator[Check]:
    """Every check, as far as what is broken lets one look."""
    import sys

    yield Check("holdfast", "good", f"{__version__} on Python {sys.version.split()[0]}")
    try:
        place = access.find_place()
    except SettingsError as error:
        yield Check("settings", "bad", str(error), error.exit_code)
        return
    except NotTrusted as error:
        yield Check("trust", "bad", str(error), error.exit_code)
        return
    except NotFound as error:
        yield Check("settings", "good", "no faults")
        yield Check("store", "note", str(error))
        return
    except HoldfastError as error:
        yield Check("store", "bad", str(error), error.exit_code)
        return
    changed = [key for key, origin in place.resolved.origins.items() if origin.kind != "default"]
    said = f"set here: {', '.join(changed)}" if changed else "all have their defaults"
    yield Check("settings", "good", said)
    yield from _disk(place)
    try:
        yield from _file(place)
        with access.open_to_read(place) as opened:
            yield from _owners(opened)
            yield from _runs(opened)
            yield from _operations(opened)
        yield from _backups(place)
    except HoldfastError as error:
        yield Check("store", "bad", str(error), error.exit_code)


def _disk(place: Place) -> Iterator[Check]:
    from shutil import disk_usage

    from holdfast.cli.database import filesystem

    free = disk_usage(place.home).free
    kind = filesystem(place.home) or "unknown filesystem"
    verdict: Literal["good", "bad"] = "good" if free > _LITTLE_ROOM else "bad"
    yield Check("disk", verdict, f"{amount(free)} free on {kind}", StoreError.exit_code)
    mode = place.home.stat().st_mode & 0o777
    if mode & 0o077:
        yield Check("privacy", "note", f"{place.home} can be read by others; `chmod 700` it")


def _file(place: Place) -> Iterator[Check]:
    from holdfast.cli.database import extent, facts

    path = place.home / DATABASE
    known = facts(path)
    if known.problems:
        first = f"{counted(len(known.problems), 'problem')}, the first: {known.problems[0]}"
        advice = "keep a copy, then restore a backup"
        yield Check("integrity", "bad", f"{first}; {advice}", StoreError.exit_code)
    else:
        yield Check("integrity", "good", "quick check found nothing; `holdfast audit verify` checks the log")
    size = extent(path)
    held = f"{amount(known.size)}, {size.streams} streams, {size.events} events"
    yield Check("store", "good", f"{path} ({held})")
    schema = f"schema {known.schema}"
    if known.schema < known.newest_schema:
        schema += f", will be migrated to {known.newest_schema}"
    yield Check("sqlite", "good", f"{known.sqlite}, {schema}, journal {known.journal}")


def _owners(opened: Opened) -> Iterator[Check]:
    from holdfast.engine.ownership.owners import is_alive

    owners = opened.store.owners()
    alive = [owner for owner in owners if is_alive(opened.place.home, owner.id)]
    named = ", ".join(f"process {owner.pid}" for owner in alive[:8]) + (", ..." if len(alive) > 8 else "")
    yield Check("owners", "good", f"{len(alive)} alive: {named}" if alive else "no process executes runs now")


def _runs(opened: Opened) -> Iterator[Check]:
    from holdfast.kernel.state import UNFINISHED

    lost = [run.id for run in opened.reading.runs(status=UNFINISHED) if run.interrupted]
    if lost:
        named = ", ".join(lost[:5]) + (", ..." if len(lost) > 5 else "")
        one = lost[0] if len(lost) == 1 else "ID"
        yield Check("runs", "note", f"{len(lost)} interrupted: {named}; `holdfast resume {one}` goes on")
    else:
        yield Check("runs", "good", "none is interrupted")


def _operations(opened: Opened) -> Iterator[Check]:
    """Looking at a store does not finish what was cut off, so it is named here."""
    from holdfast.operations import operation_locks

    marked = set(operation_locks.listed(opened.place.home))
    for row in opened.store.operations() if marked else ():
        if row.id in marked and row.status == "begun":
            way = "the next command that changes something finishes it, or takes it back"
            yield Check("operations", "note", f"{row.kind} {row.id} of run {row.run} was cut off; {way}")


def _backups(place: Place) -> Iterator[Check]:
    from holdfast import wiring
    from holdfast.cli import moments
    from holdfast.store.sqlite import backup

    directory = wiring.backup_directory(place)
    made = backup.find(directory)
    if not made:
        yield Check("backups", "good", "none yet; `holdfast backup create` makes one")
        return
    newest = f"{moments.ago(backup.time_of(made[0]))}, {amount(made[0].stat().st_size)}"
    yield Check("backups", "good", f"the newest {newest}; {len(made)} in {directory}")
