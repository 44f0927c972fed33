"""`holdfast repair`: examine a store that may not open any more, and mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli import access, app, options
from holdfast.cli.commands.backup import progress_shown
from holdfast.cli.drawing.terminal import clean, complain, out, say
from holdfast.counts import counted
from holdfast.errors import StoreError
from holdfast.handle import Holdfast
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast import RepairReport


@click.command("repair")
@click.option("--dry-run", is_flag=True, help="Examine the store and print what would be done.")
@click.option("--from", "backup", metavar="FILE", help="Use this backup or journal too, as one more copy.")
@click.option("--rebuild", is_flag=True, help="Only make the tables again from the log.")
@options.json_object
def repair_command(dry_run: bool, backup: str | None, rebuild: bool, as_json: bool) -> int:
    """Examine the store, and mend it from what its copies still hold.

    The copies are the database, its write-ahead log, backups, archives and the mirror. Of each run, the
    longest history is kept whose hashes prove it; what no copy has is named. All files that are changed are
    kept as they were, in a directory that is named.

    Refused with exit code 4 while a live process has the store open. Exits with 8 if something is lost for
    good, and with --dry-run if something is damaged.

    --rebuild needs a whole log, and works while others use the store.
    """
    if rebuild:
        if dry_run or backup:
            raise click.UsageError("--rebuild goes with neither --dry-run nor --from")
        return _rebuild(as_json)
    with progress_shown() as progress:
        report = Holdfast.repair_store(app.home(), dry_run=dry_run, backup=backup, on_progress=progress)
    if as_json:
        out.json(report.to_json())
    else:
        _draw(report)
    return 0 if report.ok else StoreError.exit_code


def _draw(report: RepairReport) -> None:
    for one in report.findings:
        out.line([("found ", "yellow"), clean(f"{one.place}: {one.what}")])
    actions = dict.fromkeys(one.action for one in report.findings if one.action)
    for action in actions:
        out.line(clean(f"{'would be done' if report.dry_run else 'done'}: {action}"))
    if not report.findings:
        out.line("nothing is damaged")
    for copy, count in report.taken.items():
        out.line(clean(f"{counted(count, 'event')} came from {copy}"))
    for part in report.lost:
        versions = (
            f"version {part.first}" if part.first == part.last else f"versions {part.first} to {part.last}"
        )
        named = f" ({part.what})" if part.what else ""
        once = f"; `once` steps that may have happened: {', '.join(part.once)}" if part.once else ""
        out.line([("lost ", "red"), clean(f"{part.stream}{named}: {versions}{once}")])
    for value in report.values:
        out.line([("lost ", "red"), f"large value {value[:12]}"])
    for snapshot in report.snapshots:
        out.line([("lost ", "red"), clean(f"contents of {snapshot}")])
    for run, reason in report.attention.items():
        out.line(clean(f"run {run} needs attention: {reason}"))
    if report.kept:
        state = "verified" if report.events else "mended"
        events = f"{counted(report.events, 'event')}, " if report.events else ""
        what = (
            "the files as they were are"
            if report.keeps_files
            else "nothing was left of the files; the report is"
        )
        out.line([f"{events}{state}; {what} in ", clean(str(report.kept))])
    for way in report.ways:
        say(f"{quoted(way)} {way.effect}")


def _rebuild(as_json: bool) -> int:
    with access.open_to_keep() as hf, progress_shown() as progress:
        done = hf.repair(on_progress=progress)
    audit = done.audit
    if as_json:
        out.json(done.to_json())
    elif audit.ok:
        out.line(f"the tables were made again from {counted(audit.events, 'event')}, and match them")
    if audit.ok:
        return 0
    first, many = audit.faults[0], counted(len(audit.faults), "fault")
    say(f"first fault: {clean(first.place)}: {clean(first.what)}")
    complain(
        f"the log itself has {many}; {quoted(Way('audit verify'))} names each, {quoted(Way('repair'))} mends"
    )
    return StoreError.exit_code
