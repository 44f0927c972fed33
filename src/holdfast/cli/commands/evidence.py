"""`holdfast evidence`: the documents of milestones, and their verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.terminal import Line, clean, out, pad, print_list, say
from holdfast.counts import counted

if TYPE_CHECKING:
    from holdfast.views.evidence import CommandCheck, EvidenceInfo, Verification

_LEVELS = {"asserted": "yellow", "observed": "cyan", "reproduced": "green"}
_SIGNS = {
    "equal": ("=", "green"),
    "different": ("!", "red"),
    "skipped": ("-", "yellow"),
    "superseded": (".", "dim"),
}


@click.group("evidence", cls=Family)
def evidence_command() -> None:
    """List, show and verify what runs have proved at their milestones.

    The code of a workflow calls `milestone("name")`, and holdfast writes the document from the log: the
    commands since the last milestone with their exit codes and output, and the changes of the files.
    MILESTONE is a name, or a key such as `tests-pass#1`.
    """


@evidence_command.command("list")
@click.argument("run", required=False)
@options.json_list
def list_evidence(run: str | None, as_json: bool) -> None:
    """List the evidence of RUN, or of all runs."""
    found = access.read_list(
        "no evidence yet", lambda hf: hf.evidence.list(None if run is None else hf.find(run)), run
    )
    print_list(
        found, as_json, _listed(found), "no evidence; `milestone(...)` in the code of a workflow writes it"
    )


@evidence_command.command("show")
@click.argument("run")
@click.argument("milestone", required=False)
@options.json_object
def show(run: str, milestone: str | None, as_json: bool) -> None:
    """Print the document of MILESTONE, or of the last milestone of RUN, as Markdown."""
    with access.open_to_read() as hf:
        found = hf.evidence.get(hf.find(run), milestone)
    if as_json:
        out.json(found.to_json())
    else:
        for line in found.document.rstrip("\n").split("\n"):
            out.line(clean(line))


@evidence_command.command("verify")
@click.argument("run")
@click.argument("milestone", required=False)
@click.option(
    "--at",
    type=click.Choice(["now", "milestone"]),
    default="now",
    show_default=True,
    help="Run on a copy of the files as they are, or of those of the milestone.",
)
@click.option("--by", metavar="NAME", help="Who verifies: you, if no other name is given.")
@options.json_list
def verify(run: str, milestone: str | None, at: str, by: str | None, as_json: bool) -> None:
    """Run the commands of MILESTONE, or of all milestones of RUN, again and compare.

    They run in a copy of the files. Exit codes and output are compared; times, temporary paths, addresses
    and process ids do not count. Commands with the effect `once`, and those that need a secret or an input
    that is not recorded, are named and not run. The exit code is 1 if a command differs, or if none could be
    run.
    """
    with access.open_to_execute() as hf:
        done = hf.evidence.verify(hf.find(run), milestone, at=at, by=by)
    if as_json:
        out.json([one.to_json() for one in done])
    else:
        out.lines(line for one in done for line in _verified(one))
    outcomes = [check.outcome for one in done for check in one.checks]
    if "different" in outcomes:
        raise SystemExit(1)
    if "equal" not in outcomes:
        say("no command could be run again, so nothing was verified")
        raise SystemExit(1)


@evidence_command.command("export")
@click.argument("run")
@click.argument("directory", type=click.Path(path_type=Path))
@options.json_list
def export(run: str, directory: Path, as_json: bool) -> None:
    """Write the documents of RUN, the images that they name and an index into DIRECTORY."""
    with access.open_to_read() as hf:
        written = hf.evidence.export(hf.find(run), directory)
    if as_json:
        out.json(written)
    else:
        for name in written:
            out.line(clean(str(directory / name)))


def _listed(found: Sequence[EvidenceInfo]) -> Iterator[Line]:
    runs, names = max(len(one.run) for one in found), max(len(clean(one.key)) for one in found)
    reached = [moments.ago(one.at) if out.is_terminal else moments.utc(one.at) for one in found]
    when = max(map(len, reached))
    for one, at in zip(found, reached, strict=True):
        count = counted(one.commands, "command")
        verified = f"  verified: {one.verified}" if one.verified else ""
        yield [
            (pad(one.run, runs), "bold"),
            f"  {pad(clean(one.key), names)}  ",
            (pad(one.level, 10), _LEVELS.get(one.level, "")),
            (f"  {at.rjust(when)}", "dim"),
            f"  {count}{verified}",
        ]


def _verified(one: Verification) -> Iterator[Line]:
    colour = {"equal": "green", "different": "red"}.get(one.outcome, "yellow")
    yield [(clean(one.key), "bold"), "  ", (one.outcome, colour), (f"  {one.level}", "dim")]
    for check in one.checks:
        yield from _checked(check)


def _checked(check: CommandCheck) -> Iterator[Line]:
    sign, colour = _SIGNS[check.outcome]
    words = " ".join(map(clean, check.argv)) or "(no words)"
    yield [f"  {sign} ", (check.outcome, colour), f"  {clean(check.step)}  {words}"]
    if check.why:
        yield [f"      {clean(check.why)}"]
    for line in check.diff.splitlines():
        tint = {"+": "green", "-": "red"}.get(line[:1], "dim")
        yield [(f"      {clean(line)}", tint)]
