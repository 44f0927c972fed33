"""`holdfast du` and `gc`: what the store takes on the disk, and what of it can go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import effects
from holdfast.cli.drawing.terminal import Line, out
from holdfast.counts import counted
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast import Collected

_STAYS = "what is left is of runs that have not ended, of the newest, or what `holdfast undo` needs"


@click.command("du")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, in bytes.")
def du_command(as_json: bool) -> None:
    """Show what the store takes on the disk: the log, what is saved of files, backups."""
    with access.open_to_read() as hf:
        found = hf.du()
    if as_json:
        out.json(found.to_json())
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
    if found.kept:
        rows.append(
            ("kept", amount(found.kept), "stores that a restore kept, with files that only they need")
        )
    width = max(len(size) for _, size, _ in rows)
    for name, size, note in rows:
        out.line([(name.ljust(9), "dim"), (size.rjust(width), "bold"), (f"  {note}", "dim")])
    if found.quota:
        over = found.files > found.quota
        note = "over it: `holdfast gc` removes the oldest" if over else ""
        out.line([("quota".ljust(9), "dim"), amount(found.quota).rjust(width), (f"  {note}", "yellow")])


@click.command("gc")
@click.option("--quota", type=options.Number(0), metavar="MB", help="Instead of `workspace_quota_mb`.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@options.json_object
def gc_command(quota: float | None, dry_run: bool, as_json: bool) -> None:
    """Remove what was deleted for good, and what is saved of files and no snapshot needs any more.

    What `holdfast delete` deleted until now can no longer be brought back after this.

    Beyond the quota, the snapshots of runs that have ended go too, the oldest first: those runs can no
    longer be rewound with their files. The newest run keeps its own, and so does one of which your last
    operation can be undone. Waits until no process saves files.
    """
    with access.open_for(dry_run) as hf:
        done = hf.gc(quota, dry_run=dry_run)
    if as_json:
        out.json(done.to_json())
    else:
        effects.show(_describe(done) if done.unneeded is None else _describe_preview(done, done.unneeded))


def _final(done: Collected, verb: str) -> Iterator[Line]:
    if done.final:
        text = f"{counted(done.final, 'deletion')} {verb}: `holdfast undo` no longer brings back what went"
        yield from effects.row("deleted", text, "yellow")


def _describe_preview(done: Collected, unneeded: int) -> Iterator[Line]:
    are = "is" if unneeded == 1 else "are"
    yield [f"{counted(unneeded, 'content')} {are} needed by no snapshot"]
    yield from _final(done, "would be made final")
    note = "" if done.forgotten else f": {_STAYS}"
    if done.over:
        yield from effects.row("quota", f"{amount(done.over)} over{note}", "yellow")
    yield from effects.names(
        "forgotten", done.forgotten, "their files would go, the oldest first, until the rest fits", "yellow"
    )


def _describe(done: Collected) -> Iterator[Line]:
    yield [(counted(done.removed, "content"), "bold"), f" removed, {amount(done.freed)} freed"]
    yield from _final(done, "made final")
    yield from effects.names(
        "forgotten", done.forgotten, "can no longer be rewound with their files", "yellow"
    )
    if done.over:
        yield from effects.row("quota", f"{amount(done.over)} over: {_STAYS}", "yellow")
    yield from effects.names("damaged", done.damaged, "`holdfast workspace verify` says more", "red")
