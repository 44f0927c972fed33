"""`holdfast rewind`: go back to a point of a run's history."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import access, effects, points
from holdfast.cli.terminal import Line, clean, out

if TYPE_CHECKING:
    from holdfast.operations.rewinding import Rewind


_OF_BOTH = "--theirs puts it back, too"


@click.command("rewind")
@click.argument("run")
@click.option(
    "--to",
    "step",
    required=True,
    metavar="POINT",
    help="A checkpoint's name, or a step; before:STEP, or start.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="GLOB",
    help="Only these files go back, as in .gitignore; the run stays where it is.",
)
@click.option("--theirs", is_flag=True, help="Take back what somebody else changed, too.")
@click.option("--no-files", is_flag=True, help="Leave the files as they are.")
@click.option("--git", is_flag=True, help="Take back what the run did to the git repository, too.")
@click.option("--partial", is_flag=True, help="Go on without files whose saved content is damaged.")
@click.option("--rerun-once", is_flag=True, help="Let `once` steps that were done after it run again.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def rewind_command(
    run: str,
    step: str,
    only: tuple[str, ...],
    theirs: bool,
    no_files: bool,
    git: bool,
    partial: bool,
    rerun_once: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Go back in RUN to a checkpoint or step, which is kept, with its files. The run is paused after.

    What was recorded after that point no longer counts, decisions and signals too: when the run is
    resumed, it runs again, with other idempotency keys. Files that the run changed since go back; what
    somebody else changed stays, and is named. HEAD, refs and the index of git stay, unless --git takes back
    what the run did to them. Nothing is lost: `holdfast undo` brings it back.

    A step is named as `show` does (`ask#2`, `branch[1]/ask#1`); a name that only one has is enough.
    `before:ask#2` is the moment in which it began, with the files as it found them; `start` is before all.
    """
    from holdfast.engine.outside.steering import user
    from holdfast.operations.rewinding import rewind

    with access.open_to_execute() as (opened, engine):
        run_id = opened.reading.find(run)
        with points.explained(opened):
            done = rewind(
                engine, run_id, step, by=user(), only=only, theirs=theirs, files=not no_files,
                partial=partial, git=git, rerun_once=rerun_once, dry_run=dry_run,
            )  # fmt: skip
    if as_json:
        out.json(_fields(done))
    else:
        given = [flag for flag, is_set in (("--theirs", theirs), ("--partial", partial)) if is_set]
        effects.show(_describe_files(done, dry_run) if only else _describe(done, rerun_once, step, given))


def _fields(done: Rewind) -> dict[str, Any]:
    return {
        "run": done.run_id,
        "to": done.to,
        "generation": done.generation,
        "again": done.again,
        "decisions": done.decisions,
        "once": done.once,
        "children": done.children,
        "operation": done.operation or None,
        "files": effects.files_fields(done.files),
        "git": effects.git_fields(done.git),
        "git_stays": effects.git_fields(done.git_stays),
    }


def _describe_files(done: Rewind, dry_run: bool) -> Iterator[Line]:
    verb = "went back" if done.operation else "would go back" if dry_run else "did not have to go back"
    yield ["files of run ", (done.run_id, "bold"), f" {verb} to ", (clean(done.to), "bold")]
    yield from effects.files(done.files, _OF_BOTH)
    yield from effects.git(done.git)
    if done.operation:
        yield from effects.ways((f"holdfast undo {done.operation}", "takes this back"))


def _describe(done: Rewind, rerun_once: bool, step: str, given: Sequence[str]) -> Iterator[Line]:
    """`step` and `given` are the point and the flags as they were typed."""
    verb = "was rewound" if done.operation else "would be rewound"
    yield [
        "run ",
        (done.run_id, "bold"),
        f" {verb} to ",
        (clean(done.to), "bold"),
        (f", into generation {done.generation}", "dim"),
    ]
    if done.again:
        yield from effects.names("again", done.again)
    else:
        yield from effects.row("again", "nothing was recorded after it", "dim")
    yield from effects.names("decisions", done.decisions, "asked for again")
    if done.operation or rerun_once:
        yield from effects.names("once", done.once, "done before, and run again", "yellow")
    else:
        yield from effects.names("once", done.once, "done before; only with --rerun-once", "yellow")
    yield from effects.names("children", done.children, "begin anew, under other ids")
    yield from effects.files(done.files, _OF_BOTH)
    yield from effects.git(done.git)
    yield from effects.git_stays(done.git_stays)
    flags = ["--git", *given, *(["--rerun-once"] if done.once else [])]
    with_git = f"holdfast rewind {done.run_id} --to {shlex.quote(step)} {' '.join(flags)}"
    ways = [(with_git, "takes back git, too")] if done.git_stays is not None else []
    if done.operation:
        ways = [
            (f"holdfast resume {done.run_id}", "goes on from there"),
            (f"holdfast undo {done.operation}", "takes this back"),
            *ways,
        ]
    if ways:
        yield from effects.ways(*ways)
