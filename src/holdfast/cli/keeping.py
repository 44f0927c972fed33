"""`holdfast du` and `gc`: what the store takes on the disk, and what of it can go."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from holdfast.cli import access, effects
from holdfast.cli.counts import counted
from holdfast.cli.terminal import Line, out
from holdfast.sizes import amount
from holdfast.wiring import quota_of

_MB = 1024 * 1024


@click.command("du")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, in bytes.")
def du_command(as_json: bool) -> None:
    """Show what the store takes on the disk: the log, what is saved of files, backups."""
    from holdfast.operations.keeping import usage

    with access.open_to_execute() as (opened, engine):
        found = usage(engine, quota_of(opened.place))
    if as_json:
        out.json(msgspec.to_builtins(found))
        return
    rows = [
        ("log", amount(found.log), ""),
        (
            "files",
            amount(found.files),
            f"{counted(found.contents, 'content')} of {counted(found.snapshots, 'snapshot')}",
        ),
        ("backups", amount(found.backups), ""),
    ]
    width = max(len(size) for _, size, _ in rows)
    for name, size, note in rows:
        out.line([(name.ljust(9), "dim"), (size.rjust(width), "bold"), (f"  {note}", "dim")])
    if found.quota:
        over = found.files > found.quota
        note = "over it: `holdfast gc` removes the oldest" if over else ""
        out.line([("quota".ljust(9), "dim"), amount(found.quota).rjust(width), (f"  {note}", "yellow")])


@click.command("gc")
@click.option("--quota", type=click.FloatRange(0), metavar="MB", help="Instead of `workspace_quota_mb`.")
@click.option("--dry-run", is_flag=True, help="Only show what nothing needs.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def gc_command(quota: float | None, dry_run: bool, as_json: bool) -> None:
    """Remove what is saved of files and no snapshot in the log needs any more.

    Beyond the quota, the snapshots of runs that have ended go too, the oldest first: those runs can no
    longer be rewound with their files. Waits until nobody saves files.
    """
    from holdfast.operations import keeping

    with access.open_to_execute() as (opened, engine):
        if dry_run:
            count = keeping.unneeded(engine)
            if as_json:
                out.json({"unneeded": count})
            else:
                are = "is" if count == 1 else "are"
                out.line(f"{counted(count, 'content')} {are} needed by no snapshot")
            return
        limit = quota_of(opened.place) if quota is None else int(quota * _MB)
        done = keeping.collect(engine, limit)
    if as_json:
        out.json(msgspec.to_builtins(done))
    else:
        effects.show(_describe(done))


def _describe(done: object) -> Iterator[Line]:
    from holdfast.operations.keeping import Collected

    assert isinstance(done, Collected)
    yield [(counted(done.removed, "content"), "bold"), f" removed, {amount(done.freed)} freed"]
    yield from effects.names(
        "forgotten", done.forgotten, "can no longer be rewound with their files", "yellow"
    )
    yield from effects.names("damaged", done.damaged, "`holdfast workspace verify` says more", "red")
