"""`holdfast mirror`: the JSON files in the project that show tasks, sessions, memory and runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from holdfast import settings, wiring
from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.drawing import effects
from holdfast.cli.drawing.terminal import Line, clean, out, show_warnings
from holdfast.counts import counted
from holdfast.errors import NotFound
from holdfast.handle import Holdfast
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast import ImportChange, MirrorImport, MirrorStatus

_MOST = 40
REFUSED = 2
"""The exit code if a change of an import was refused."""


@click.group("mirror", cls=Family)
def mirror_command() -> None:
    """Show, rebuild or import the readable files in .holdfast."""


@mirror_command.command("status")
@options.json_object
def status(as_json: bool) -> None:
    """Show whether the mirror is current, and what was kept aside."""
    with access.open_to_read() as hf:
        found = hf.mirror_status()
    if as_json:
        out.json(found.to_json())
    else:
        effects.show(_describe(found))


def _describe(found: MirrorStatus) -> Iterator[Line]:
    if found.directory is None:
        yield ["there is no mirror: ", clean(found.off)]
        return
    yield from effects.row("mirror", clean(found.directory))
    if found.is_current:
        yield from effects.row("state", "current", "green")
    elif found.written_at is None:
        yield from effects.row("state", "not written yet", "yellow")
    else:
        yield from effects.row("state", _why_late(found), "yellow")
    if found.written_at is not None:
        yield from effects.row(
            "written", f"{found.written_at.astimezone():%Y-%m-%d %H:%M:%S}, {counted(found.files, 'file')}"
        )
    for n, fault in enumerate(found.faults[:_MOST]):
        yield [
            (("faults" if n == 0 else "").ljust(11), "dim"),
            clean(fault.path),
            (f"  {fault.fault}", "yellow"),
        ]
    for n, name in enumerate(found.kept[:_MOST]):
        yield [(("kept aside" if n == 0 else "").ljust(11), "dim"), clean(name)]
    for name in found.ahead:
        text = f"the log has lost events that {name} has; {quoted(Way('repair'))} brings back those that fit"
        yield from effects.row("lost", clean(text), "yellow")
    more = max(0, len(found.faults) - _MOST) + max(0, len(found.kept) - _MOST)
    if more:
        yield [" " * 11, (f"and {more:,} more (--json has all)", "dim")]
    if found.importable:
        path = str(Path(found.directory, found.importable[-1]))
        yield from effects.ways(Way("mirror import", "", {"file": path}, "shows what it would change"))


def _why_late(found: MirrorStatus) -> str:
    if found.shows == "ahead":
        return f"ahead: it has events that the log has not; {quoted(Way('repair'))} examines that"
    if found.shows == "earlier":
        return "of the time before a restore or a repair; the next command that writes makes it again"
    if found.shows == "other":
        return "of another store"
    if found.behind:
        return f"{counted(found.behind, 'event')} behind; the next command that writes repairs it"
    if all(fault.fault == "edited" for fault in found.faults):
        return "edited by hand; the next command that writes renames the file, and writes it anew"
    return "damaged; the next command that writes repairs it"


@mirror_command.command("rebuild")
@options.json_object
def rebuild(as_json: bool) -> None:
    """Make all files of the mirror again from the log.

    Files that were edited by hand are kept aside, not overwritten.
    """
    show_warnings()
    with access.open_to_keep() as hf:
        done = hf.mirror_rebuild()
    if as_json:
        out.json(done.to_json())
        return
    made = f" in {clean(done.directory)} made again from {counted(done.events, 'event')}"
    out.line([(counted(done.files, "file"), "bold"), made])
    for sentence in done.kept:
        out.line(clean(sentence))


@mirror_command.command("import")
@click.argument("file", type=click.Path())
@click.option("--apply", is_flag=True, help="Record the changes; without it, they are only shown.")
@options.json_object
def import_(file: str, apply: bool, as_json: bool) -> int:
    """Show what an edited FILE of the mirror would change, and record it with --apply.

    FILE is a current.json, a file of a session or a memory.json, edited in place or kept aside. Names,
    texts and statuses of tasks, decisions, files and memories can be imported. Nothing is removed because
    FILE leaves it out. If the project has no store yet, --apply makes one: a clone of a repository that has
    a mirror can begin so. Exits with 2 if a change was refused; the others are recorded.
    """
    show_warnings()
    try:
        place = access.find_place()
    except NotFound:
        found = _import_first(file, apply)
    else:
        with Holdfast.at(place, finish=False) if apply else access.open_to_read(place) as hf:
            found = hf.mirror_import(file, apply=apply)
    if as_json:
        out.json(found.to_json())
    else:
        effects.show(_describe_import(found))
    return REFUSED if found.refused else 0


def _import_first(file: str, apply: bool) -> MirrorImport:
    """Import where there is no store yet: a clone of a repository that has a mirror. One is made only to
    record what the file says; what it would change is found with an empty store that is thrown away."""
    with TemporaryDirectory() as scratch:
        directory = Path(scratch)
        place = wiring.Place(directory, directory, settings.load(root=directory, environ={}, flags={}))
        with Holdfast.at(place, finish=False) as hf:
            found = hf.mirror_import(file)
    if not apply:
        return found
    with access.open_to_track() as hf:
        return hf.mirror_import(file, apply=True)


def _describe_import(found: MirrorImport) -> Iterator[Line]:
    if not found.changes and not found.refused:
        yield [f"{clean(found.file)} says nothing that the store does not have"]
    for change in found.changes:
        did = f"recorded: {change.action} " if found.applied else change.action.ljust(11)
        yield [(did, "dim"), clean(_words(change))]
    for sentence in found.refused:
        yield [("refused".ljust(11), "red"), clean(sentence)]
    for sentence in found.left:
        yield [("left".ljust(11), "yellow"), clean(sentence)]
    if found.changes and not found.applied:
        yield from effects.ways(Way("mirror import", "", {"file": found.file, "apply": True}, "records this"))


def _words(change: ImportChange) -> str:
    parts = [f"{name} {value!r}" for name, value in change.fields.items() if value]
    return " ".join([*([change.target] if change.target else []), ", ".join(parts)]).strip()
