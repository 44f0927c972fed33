"""`holdfast rewind`: go back to a point of a run's history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import effects
from holdfast.cli.drawing.terminal import Line, clean, out
from holdfast.ways import Way

if TYPE_CHECKING:
    from holdfast import Rewind


_OF_BOTH = "--theirs restores it, too"


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
@click.option("--keep", multiple=True, metavar="GLOB", help="These files stay as they are, as in .gitignore.")
@click.option("--theirs", is_flag=True, help="Roll back what others changed, too.")
@options.no_files
@click.option("--git", is_flag=True, help="Roll back what the run did to the git repository, too.")
@options.partial
@click.option("--rerun-once", is_flag=True, help="Let `once` steps that were done after it run again.")
@options.previewed
@options.json_object
def rewind_command(
    run: str,
    step: str,
    only: tuple[str, ...],
    keep: tuple[str, ...],
    theirs: bool,
    no_files: bool,
    git: bool,
    partial: bool,
    rerun_once: bool,
    dry_run: bool,
    plan: str | None,
    as_json: bool,
) -> None:
    """Go back in RUN to a checkpoint or step, which is kept, with its files. The run is paused after.

    What was recorded after that point no longer counts, decisions and signals too: when the run is
    resumed, it runs again, with other idempotency keys. Files that the run changed since go back; what
    others changed stays, and is named. HEAD, refs and the index of git stay, unless --git rolls back
    what the run did to them. Tasks that the run changed since are restored, and what it remembered is
    withdrawn. Nothing is lost: `holdfast undo` brings it back.

    A step is named as `show` does (`ask#2`, `branch[1]/ask#1`); a name that only one has is enough.
    `before:ask#2` is the moment in which it began, with the files as it found them; `start` is before all.
    """
    with access.open_for(dry_run) as hf:
        done = hf.rewind(
            hf.find(run), step, only=only, keep=keep, theirs=theirs, files=not no_files, partial=partial,
            git=git, rerun_once=rerun_once, dry_run=dry_run, plan=plan,
        )  # fmt: skip
    if as_json:
        out.json(done.to_json())
    elif only:
        effects.show(_describe_files(done, dry_run))
    else:
        given = {name: True for name, is_set in (("theirs", theirs), ("partial", partial)) if is_set}
        effects.show(
            _describe(done, rerun_once, Way("rewind", done.run_id, {"to": step, "git": True, **given}))
        )


def _describe_files(done: Rewind, dry_run: bool) -> Iterator[Line]:
    verb = "went back" if done.operation else "would go back" if dry_run else "did not have to go back"
    yield ["files of run ", (done.run_id, "bold"), f" {verb} to ", (clean(done.to), "bold")]
    yield from effects.files(done.files, _OF_BOTH)
    yield from effects.git(done.git)
    if done.operation:
        yield from effects.ways(_undo(done))
    else:
        yield from effects.plan(done.plan)


def _undo(done: Rewind) -> Way:
    return Way("undo", "", {"operation": done.operation}, "undoes this")


def _describe(done: Rewind, rerun_once: bool, with_git: Way) -> Iterator[Line]:
    """`with_git` is the same with --git."""
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
    yield from effects.parts("tasks", done.tasks)
    yield from effects.parts("memory", done.memory)
    yield from effects.git(done.git)
    yield from effects.git_stays(done.git_stays)
    again = {"rerun_once": True} if done.once else {}
    with_git = Way("rewind", done.run_id, with_git.arguments | again, "rolls back git, too")
    ways = [with_git] if done.git_stays is not None else []
    if done.operation:
        ways = [Way("resume", done.run_id, {}, "continues from there"), _undo(done), *ways]
    else:
        yield from effects.plan(done.plan)
    if ways:
        yield from effects.ways(*ways)
